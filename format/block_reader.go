package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// A block is an events chunk. Only wanted columns are unpacked, and most of these keep their
// file form. Calls are made from them a batch at a time: see reach. The memory of a block is reused for
// the next chunk.
type block struct {
	content container.Content
	first   uint64
	t0      int64
	n       int
	budget  uint64
	noArgs  bool
	noData  bool
	dataOf  []bool // see want

	calls [callFields]column.Vector
	store [callFields + 2][]uint64 // memory for the vectors
	funcs []*funcBlock             // by id
	seen  []*funcBlock

	dataRows
	rowIndex rowIndex
	plain    Call   // if neither arguments nor data are wanted
	many     []Data // data of calls with several pieces
	arena    []byte // their content
	rescued  int    // rows of many, from the first on, with their content in arena
	dec      column.Decoder
	bitmap   []uint64

	unknown func(what string)
	payload func(id BlobID) ([]byte, Reason) // content of a payload with short contents, or why it is missing
	of      *Reader                          // its schema and threads are those of the calls; nil to skip the check
}

// dataRows are the rows of recorded data in a block, with their calls.
type dataRows struct {
	rows   int
	group  column.Vector
	owner  column.Vector // call of row i, counted from first
	groups []*groupBlock
	turns  []groupTurn // a turn for each group
	owners []uint64    // owner as words, made on demand
	slots  []slot      // slot of row i, made on demand
	sorted []uint32    // rows by call, made on demand if they are not in this order
}

// errThread is the error for a call whose thread is not in Reader.Threads.
var errThread = errors.New("a call is of a thread that the trace does not describe")

// described is a table's function in the trace's schema, nil if unknown.
func (b *block) described(id uint16) *Function {
	if b.of == nil {
		return nil
	}
	return b.of.schema.Func(id)
}

var errBlock = errors.New("block is malformed")

// callsOnly reports if only the call table is wanted. It comes first, so the rest of the chunk is not read.
func (w *want) callsOnly() bool { return w.noArgs && w.noData }

var errBlockVersion = errors.New("block has a later version")

// A tableReader finds the columns of a table.
type tableReader struct {
	column.Table
	b   *block
	end int // end of the table in the chunk's content
}

// next is Table.Next, without unpacking the body of the column.
func (t *tableReader) next() (column.Column, bool, error) {
	if t.Len() > 0 {
		if err := t.b.ready(t.end-t.Len(), t.end, column.WholeColumnHead); err != nil {
			return column.Column{}, false, err
		}
	}
	return t.Next()
}

// unpack unpacks the last column of next.
func (t *tableReader) unpack(c column.Column) error {
	end := t.end - t.Len()
	return t.b.content.Unpack(end-len(c.Body), end)
}

// ready unpacks the content from an offset on until the bytes satisfy whole: a head may be in several frames.
func (b *block) ready(from, to int, whole func([]byte) bool) error {
	for end := from; end < to; {
		next, err := b.content.Frame(end)
		if err != nil {
			return err
		}
		end = min(next, to)
		if whole(b.content.Bytes()[from:end]) {
			break
		}
	}
	return nil
}

func wholeBlockHead(b []byte) bool {
	_, _, _, err := blockHead(b)
	return err == nil || errors.Is(err, errBlockVersion)
}

// load decodes the wanted parts of the content.
func (b *block) load(w want) error {
	b.reset()
	raw := b.content.Bytes()
	if w.whole {
		if err := b.content.Unpack(0, len(raw)); err != nil {
			return err
		}
	}
	if err := b.ready(0, len(raw), wholeBlockHead); err != nil {
		return err
	}
	first, rest, t0, err := blockHead(raw)
	if errors.Is(err, errBlockVersion) {
		b.unknown("version of an events block")
		return nil
	}
	if err != nil {
		return err
	}
	b.first, b.t0, b.noArgs, b.noData, b.dataOf = first, t0, w.noArgs, w.noData, w.dataOf
	for len(rest) > 0 {
		if err := b.ready(len(raw)-len(rest), len(raw), column.WholeTableHead); err != nil {
			return err
		}
		t := tableReader{b: b}
		if t.Table, rest, err = column.NextTable(rest); err != nil {
			return err
		}
		t.end = len(raw) - len(rest)
		if err := b.table(&t, w); err != nil {
			return err
		}
		if w.callsOnly() {
			break
		}
	}
	if !b.calls[callFunc].Below(1<<16, b.n) || !b.calls[callDur].Below(1<<63, b.n) {
		return errBlock
	}
	if b.of != nil && w.columns&ThreadColumn != 0 && !b.calls[callThread].Below(uint64(len(b.of.threads)), b.n) {
		return errThread
	}
	if w.batches {
		return nil
	}
	return b.link(w)
}

func (b *block) reset() {
	b.first, b.n, b.rows, b.budget = 0, 0, 0, maxBlockWords
	for _, f := range b.seen {
		f.rows, f.used = 0, false
	}
	b.seen = b.seen[:0]
	b.groups = b.groups[:0]
	for i := range b.calls {
		b.calls[i].Const(0)
	}
	b.owners, b.slots, b.sorted = b.owners[:0], b.slots[:0], b.sorted[:0]
}

// take counts n rows of w words before they are allocated.
func (b *block) take(n, w uint64) bool {
	if n > maxCalls*4 || w > maxBlockWords || n*w > b.budget {
		return false
	}
	b.budget -= n * w
	return true
}

func (b *block) table(t *tableReader, w want) error {
	switch t.Kind {
	case kindCalls:
		if b.n != 0 || t.Rows == 0 || t.Rows > maxCalls || !b.take(t.Rows, callFields+2) {
			return errBlock
		}
		b.n = int(t.Rows)
		return b.vectors(t, b.calls[:], w.columns, b.store[:callFields], b.n)
	case kindFunc:
		if t.ID > 0xffff || t.Rows == 0 || t.Rows > maxCalls || t.Width > MaxWords || !b.take(t.Rows, t.Width) {
			return errBlock
		}
		return b.function(t, w)
	case kindRows:
		if b.rows != 0 || t.Rows == 0 || !b.take(t.Rows, 5) {
			return errBlock
		}
		b.rows = int(t.Rows)
		if w.noData {
			return nil
		}
		var cols [2]column.Vector
		for i := range cols {
			cols[i].Const(0)
		}
		err := b.vectors(t, cols[:], ^Columns(0), b.store[callFields:], b.rows)
		b.group, b.owner = cols[rowGroup], cols[rowCall]
		return err
	case kindData:
		if w.noData {
			return nil
		}
		return b.data(t)
	}
	b.unknown("kind of table")
	return nil
}

// columns decodes the columns with the fields 0, 1 and so on into cols; a missing field is zero.
func (b *block) columns(t column.Table, cols [][]uint64, n int) error {
	var got uint64
	for i := range cols {
		cols[i] = resize(cols[i], n)
	}
	for {
		c, ok, err := t.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if c.Field >= uint64(len(cols)) {
			b.unknown("column")
			continue
		}
		if err := b.words(cols[c.Field], n, c); err != nil {
			return err
		}
		got |= 1 << c.Field
	}
	for i := range cols {
		if got>>i&1 == 0 {
			clear(cols[i])
		}
	}
	return nil
}

// vectors decodes the wanted columns among the fields 0, 1 and so on into cols, with memory for
// each. A missing field leaves its element of cols unchanged.
func (b *block) vectors(t *tableReader, cols []column.Vector, which Columns, store [][]uint64, n int) error {
	for {
		c, ok, err := t.next()
		if err != nil || !ok {
			return err
		}
		if c.Field >= uint64(len(cols)) {
			b.unknown("column")
			continue
		}
		if which>>c.Field&1 == 0 {
			continue
		}
		if err := t.unpack(c); err != nil {
			return err
		}
		if err := b.vector(&cols[c.Field], n, c, &store[c.Field]); err != nil {
			return err
		}
	}
}

// vector decodes a column. An unknown encoding reads as zeros.
func (b *block) vector(v *column.Vector, n int, c column.Column, store *[]uint64) error {
	err := b.dec.Vector(v, n, c, store)
	if errors.Is(err, column.ErrUnknown) {
		b.unknown(c.Enc.String())
		v.Const(0)
		return nil
	}
	return err
}

// words decodes a column. An unknown encoding reads as zeros.
func (b *block) words(dst []uint64, n int, c column.Column) error {
	err := b.dec.Words(dst, n, c)
	if errors.Is(err, column.ErrUnknown) {
		b.unknown(c.Enc.String())
		clear(dst[:n])
		return nil
	}
	return err
}

func (b *block) function(t *tableReader, w want) error {
	id := uint16(t.ID)
	for int(id) >= len(b.funcs) {
		b.funcs = append(b.funcs, nil)
	}
	f := b.funcs[id]
	if f == nil {
		f = &funcBlock{id: id}
		b.funcs[id] = f
	}
	if f.used {
		return errBlock
	}
	if of := b.described(id); of != nil && t.Width < uint64(of.Words) {
		return fmt.Errorf("calls of %s have %d argument words, the schema says %d", of.Name, t.Width, of.Words)
	}
	b.seen = append(b.seen, f)
	f.used, f.rows, f.outs = true, int(t.Rows), f.outs[:0]
	f.args.reset(int(t.Width), f.rows)
	if w.noArgs || w.funcs != nil && !w.funcs(id) {
		return nil
	}
	// Nothing is left out: unpack everything at once.
	if err := b.content.Unpack(t.end-t.Len(), t.end); err != nil {
		return err
	}
	for {
		t.Constants(f.args.first, f.args.least())
		c, ok, err := t.Next()
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		switch {
		case c.Field < t.Width:
			if err := b.add(&f.args, c); err != nil {
				return err
			}
		case c.Field >= extra && c.Field <= extra+255:
			if err := b.out(f, c); err != nil {
				return err
			}
		default:
			b.unknown("column")
		}
	}
}

func (b *block) out(f *funcBlock, c column.Column) error {
	param := uint8(c.Field - extra)
	if of := b.described(f.id); of != nil && !of.has(param) {
		return fmt.Errorf("a call of %s has an output of parameter %d, the schema has %d", of.Name, param, len(of.Params))
	}
	if n := len(f.outs); n > 0 && f.outs[n-1].param >= param {
		return errBlock
	}
	if c.Enc > column.Dict {
		b.unknown(c.Enc.String())
		return nil
	}
	bitmap, inner, count, err := b.dec.Present(c, f.rows)
	if err != nil {
		return err
	}
	if !b.take(uint64(f.rows), 1) {
		return errBlock
	}
	if len(f.outs) < cap(f.outs) {
		f.outs = f.outs[:len(f.outs)+1]
	} else {
		f.outs = append(f.outs, outBlock{})
	}
	o := &f.outs[len(f.outs)-1]
	o.param, o.bitmap = param, bitmap
	if bitmap == nil {
		return b.vector(&o.values, f.rows, inner, &o.store)
	}
	o.store = resize(o.store, f.rows)
	o.values.Words(o.store)
	// Values are stored at their rows, so a call finds its own without counting.
	b.bitmap = resize(b.bitmap, count)
	if err := b.words(b.bitmap, count, inner); err != nil {
		return err
	}
	next := 0
	for i := range f.rows {
		if bitmap[i/8]>>(i%8)&1 != 0 {
			o.store[i] = b.bitmap[next]
			next++
		}
	}
	return nil
}

func (b *block) data(t *tableReader) error {
	if t.Rows == 0 || t.Width > InlineLimit/8 || t.ID > maxCalls*4 || !b.take(t.Rows, t.Width) || !b.take(1, dataProps) {
		return errBlock
	}
	// Ordinals are dense, except that 0, the shared table, may be missing.
	if t.ID < uint64(len(b.groups)) || t.ID > uint64(len(b.groups))+1 {
		return errBlock
	}
	for uint64(len(b.groups)) <= t.ID {
		b.addGroup()
	}
	g := b.groups[t.ID]
	g.rows = int(t.Rows)
	g.words.reset(int(t.Width), g.rows)
	if err := b.content.Unpack(t.end-t.Len(), t.end); err != nil {
		return err
	}
	var props [dataProps]uint64
	var aside []uint64 // offsets in a payload
	var asideIn uint64
	for {
		t.Constants(g.words.first, g.words.least())
		c, ok, err := t.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		switch {
		case c.Field < t.Width:
			if err := b.add(&g.words, c); err != nil {
				return err
			}
		case c.Field >= extra && c.Field < extra+dataProps:
			k := c.Field - extra
			if v, ok := c.Const(); ok {
				props[k] = v
				continue
			}
			if !b.take(t.Rows, 1) {
				return errBlock
			}
			g.varies[k] = true
			if err := b.vector(&g.vary[k], g.rows, c, &g.store[k]); err != nil {
				return err
			}
		case c.Field == extra+dataBytes:
			if err := b.text(g, c); err != nil {
				return err
			}
		case c.Field == extra+dataAside:
			if !b.take(t.Rows, 3) {
				return errBlock
			}
			aside = make([]uint64, g.rows)
			if err := b.words(aside, g.rows, c); err != nil {
				return err
			}
		case c.Field == extra+dataAsideBlob:
			if v, ok := c.Const(); ok {
				asideIn = v
			}
		default:
			b.unknown("column")
		}
	}
	g.like = Data{}
	for k, v := range props {
		set(&g.like, k, v)
	}
	if t.Width > 0 && (g.varies[dataLen] || t.Width != (g.like.Len+7)/8) {
		return errBlock
	}
	if aside != nil {
		return b.aside(g, aside, BlobID(asideIn))
	}
	return nil
}

// aside gives the rows of a table their content, which is in a payload, each at an offset.
func (b *block) aside(g *groupBlock, at []uint64, id BlobID) error {
	if g.lens != nil || g.words.width != 0 || g.varies[dataKind] || g.varies[dataBlob] || b.payload == nil {
		return errBlock
	}
	g.like.Aside = true
	content, why := b.payload(id)
	if why != NoReason {
		g.like.Status, g.like.Reason = Missing, why
		return nil
	}
	if !b.take(uint64(len(content))/8, 1) {
		return errBlock
	}
	g.memory = resize(g.memory, g.rows)
	g.lens, g.text, g.starts = g.memory, content, resize(g.starts, g.rows)
	for i, from := range at {
		n := g.like.Len
		if g.varies[dataLen] {
			n = g.vary[dataLen].At(i)
		}
		if n > InlineLimit || from > uint64(len(content)) || n > uint64(len(content))-from {
			return errBlock
		}
		g.lens[i], g.starts[i] = n, uint32(from)
	}
	return nil
}

func (b *block) addGroup() {
	if n := len(b.groups); n < cap(b.groups) {
		b.groups = b.groups[:n+1]
		if g := b.groups[n]; g != nil {
			g.rows, g.varies, g.lens, g.text = 0, [dataProps]bool{}, nil, nil
			return
		}
		b.groups[n] = &groupBlock{}
		return
	}
	b.groups = append(b.groups, &groupBlock{})
}

func (b *block) text(g *groupBlock, c column.Column) error {
	if g.lens != nil || g.words.width != 0 {
		return errBlock
	}
	if !b.take(uint64(g.rows), 2) {
		return errBlock
	}
	g.memory = resize(g.memory, g.rows)
	g.lens = g.memory
	data, err := b.dec.Strings(g.lens, g.rows, c)
	if errors.Is(err, column.ErrUnknown) {
		b.unknown(c.Enc.String())
		g.lens = nil
		return nil
	}
	if err != nil {
		return err
	}
	g.text = data
	g.starts = resize(g.starts, g.rows)
	at := uint32(0)
	for i, l := range g.lens {
		g.starts[i] = at
		at += uint32(l)
	}
	return nil
}

func set(d *Data, prop int, v uint64) {
	switch prop {
	case dataKind:
		d.Param, d.Dir, d.Status, d.Reason = uint8(v), Dir(v>>8), Status(v>>16), Reason(v>>24)
	case dataAddr:
		d.Addr = v
	case dataTime:
		d.Time = int64(v)
	case dataItem:
		d.Item = uint32(v)
	case dataBlob:
		d.Blob = BlobID(v)
	case dataLen:
		d.Len = v
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

func readUvarint(b []byte) (uint64, []byte, bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// A rowIndex maps the calls of a batch to their rows in the tables. A batch fits the
// processor's first cache.
type rowIndex struct {
	at     int // first call
	size   int // calls in a batch, except the last one
	fn     []uint16
	start  []int64
	end    []int64
	rest   [3][]uint64 // thread, flags and returned value, if they vary
	differ bool        // any of them varies

	// Memory of the above for sequential access. Data at a fixed place takes fewer instructions to find.
	here struct {
		fn         [batchCalls]uint16
		start, end [batchCalls]int64
	}

	callsOnly bool // data and arguments are not indexed

	// For random access only.
	random bool
	row    []uint32 // row in the function's table
	data   []slot
	order  []slot // slots of calls with several

	// Counters.
	last int64 // end of the previous call
	rows int   // rows of data before the held ones

	counts []uint32 // scratch

	// Held rows of data, for yieldOrdered.
	owner  uint64 // call of the next row, relative to the block's first
	next   uint   // position of the next row among the held ones
	held   uint   // number of held rows
	groups [batchCalls]uint32
	owners [batchCalls + 1]uint64 // one more as an end mark
}

const batchCalls = 256 // calls

// A slot is group << 32 | position in the group. For a call it is none, oneRow with the position of its only row, or severalRows |
// count << 32 | first index in order.
type slot uint64

// funcBlock is a table of calls.
type funcBlock struct {
	id    uint16
	used  bool
	rows  int
	next  uint // row of the next call
	end   uint // end of the loaded rows
	args  words
	outs  []outBlock
	one   Call           // result of call
	ring  unsafe.Pointer // arguments; nil if unwanted
	size  uint           // bytes in a row of the ring
	wrote [][]Out        // outputs by call of the window; none if no call wrote any
	all   bool           // each call wrote all outputs
	given []Out          // memory of wrote
}

// outBlock is the outputs through one parameter of a function.
type outBlock struct {
	param  uint8
	values column.Vector
	store  []uint64
	bitmap []byte // nil if all rows have a value
}

// A ring has ringRows rows, made from the columns at once. If rows are wide, it has fewer: about ringWords words, and at least ringLeast
// rows. More rows make starting a column cheaper, but the rings of all tables together should fit the second cache.
const (
	ringRows  = 64
	ringWords = 1024
	ringLeast = 16
)

// words are the rows of a word table. Some rows are in a ring, in which the constant words are already set.
type words struct {
	width int
	n     int
	first []uint64 // constant words of a row; others are 0
	vary  []varying
	store [][]uint64 // memory of the columns in vary

	ring []uint64 // row i at i&last
	last uint     // position mask; a power of two less one
	end  uint     // end of the window loaded last; 0 for none
}

type varying struct {
	at     int
	values column.Vector
}

// A groupTurn is the state for passing on a data table's rows: two cache lines for each of many tables,
// any of which may be the next. Each table has one Data value, in which only a row's varying parts are
// set.
type groupTurn struct {
	next    uint32 // next row to tie
	end     uint32 // end of the loaded rows
	time    int64  // from the start of the call, if equal for all rows
	content unsafe.Pointer
	stride  uint32            // bytes between the contents of two rows; 0 if no row has words
	last    uint32            // mask of positions in the ring
	more    bool              // other properties vary too: see groupBlock.set
	addrs   *[ringRows]uint64 // if they vary
	data    [1]Data
}

// A groupBlock is a table of data.
type groupBlock struct {
	rows   int
	times  [ringRows]int64  // times of the rows in the ring, since the call's start, if they vary
	addrs  [ringRows]uint64 // addresses, if they vary
	more   bool             // properties other than content and address vary
	words  words
	like   Data // values that all rows share
	varies [dataProps]bool
	vary   [dataProps]column.Vector
	store  [dataProps][]uint64
	lens   []uint64 // content lengths, if they vary
	starts []uint32
	text   []byte
	memory []uint64 // memory of lens
}
