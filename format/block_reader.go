package format

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// A block is an events chunk, of which only the columns that are wanted are unpacked. A call is put together when it is asked for, out of windows: stretches of rows that
// are turned from columns into rows together, in memory that stays in the processor's cache, and where what is constant is in place already. The memory of a block is used again for the next chunk.
type block struct {
	content container.Content
	first   uint64
	t0      int64
	n       int
	budget  uint64

	calls [callFields]column.Vector
	store [callFields + 2][]uint64 // memory of the vectors, where they need some
	fn    []uint16
	start []int64
	end   []int64
	row   []uint32 // of call i in the table of its function
	// Thread, flags and returned value, which nearly all calls share with their neighbours, for the calls from restAt on.
	rest   [3][stretch]uint64
	restAt int      // a multiple of stretch; -1 for none
	next   []uint32 // by function, the row of its next call

	funcs []*funcBlock // by id
	seen  []*funcBlock

	rows    int
	group   column.Vector
	owner   column.Vector // call of row i, counted from first
	slots   []slot        // where row i is
	nextPos []uint32      // by group, the position of its next row
	rowsOf  []slot        // by call
	order   []uint32      // rows of the calls that have several
	groups  []*groupBlock
	many    []Data   // of a call that has several
	arena   []uint64 // their content

	dec     column.Decoder
	bitmap  []uint64
	unknown func(what string)
}

// A slot is a group << 32 | a position in it. For a call it is none, oneRow with that of its only row, or severalRows | how many << 32 | where they begin in order.
type slot uint64

const (
	oneRow      slot = 1 << 62
	severalRows slot = 1 << 63
)

// stretch is how many rows are turned into words at a time.
const stretch = 256

// turn has rest hold call i, and returns its place there.
func (b *block) turn(i int) int {
	if at := i &^ (stretch - 1); at != b.restAt {
		b.turnTo(at)
	}
	return i & (stretch - 1)
}

func (b *block) turnTo(at int) {
	for k := range b.rest {
		v := &b.calls[callThread+k]
		if _, ok := v.Constant(); !ok {
			column.Fill(b.rest[k][:min(stretch, b.n-at)], v, at)
		} else if b.restAt < 0 {
			column.Fill(b.rest[k][:], v, 0)
		}
	}
	b.restAt = at
}

type funcBlock struct {
	id    uint16
	used  bool
	rows  int
	args  words
	outs  []outBlock
	given []Out // to the call at hand
}

// words are the rows of a table of words.
type words struct {
	width int
	n     int
	first []uint64 // what is constant in a row; the rest is 0
	vary  []varying
	store [][]uint64 // memory of the columns in vary

	window []uint64
	rows   [][]uint64 // of the window, as many as a power of two; none until one is asked for
	at     uint       // the first of them
}

type varying struct {
	at     int
	values column.Vector
}

func (w *words) reset(width, n int) {
	w.first = resize(w.first, width)
	clear(w.first)
	w.vary = w.vary[:0]
	w.width, w.n, w.rows = width, n, w.rows[:0]
}

// add decodes a column. Columns come by ascending field.
func (b *block) add(w *words, c column.Column) error {
	at := int(c.Field)
	if k := len(w.vary); k > 0 && w.vary[k-1].at >= at {
		return errBlock
	}
	if v, ok := c.Const(); ok {
		w.first[at] = v
		return nil
	}
	k := len(w.vary)
	if k == len(w.store) {
		w.store = append(w.store, nil)
	}
	w.vary = append(w.vary, varying{at: at})
	return b.vector(&w.vary[k].values, w.n, c, &w.store[k])
}

// row returns row i. It stays until a row of another window is asked for.
func (w *words) row(i uint) []uint64 {
	if i-w.at >= uint(len(w.rows)) {
		w.turn(i)
	}
	return w.rows[i-w.at]
}

// turn moves the window to row i.
func (w *words) turn(i uint) {
	if len(w.rows) == 0 {
		w.begin()
	}
	w.at = i &^ uint(len(w.rows)-1)
	rows := min(len(w.rows), w.n-int(w.at))
	for k := range w.vary {
		v := &w.vary[k]
		v.values.Scatter(w.window[v.at:], w.width, int(w.at), rows)
	}
}

// begin makes the window, with what is constant.
func (w *words) begin() {
	// A block has a window for each function and each layout of data: together they are to stay in the cache.
	const most, wordsEach = 32, 256
	size := 1
	for size < most && size < w.n && size*2*w.width <= wordsEach {
		size *= 2
	}
	w.window, w.rows = resize(w.window, size*w.width), resize(w.rows, size)
	rest := w.window
	for k := range w.rows {
		w.rows[k] = rest[:w.width:w.width]
		rest = rest[copy(rest, w.first):]
	}
}

type outBlock struct {
	param  uint8
	values column.Vector
	store  []uint64
	bitmap []byte // nil when all rows have a value
}

func (o *outBlock) has(row uint32) bool { return o.bitmap == nil || o.bitmap[row/8]>>(row%8)&1 != 0 }

// out returns what the call of a row wrote through its parameters.
func (f *funcBlock) out(row uint32) []Out {
	f.given = f.given[:0]
	for k := range f.outs {
		if o := &f.outs[k]; o.has(row) {
			f.given = append(f.given, Out{o.param, o.values.At(int(row))})
		}
	}
	return f.given
}

// A groupBlock is a table of data.
type groupBlock struct {
	rows  int
	width int
	// What all rows share is in one; the rest is set when a call has no other data, so that nothing else has to be moved. See place.
	one    [1]Data
	time   int64 // of rows, from the start of the call, where it does not vary
	varies [dataProps]bool
	vary   [dataProps]column.Vector
	store  [dataProps][]uint64
	wide   bool // more than address and time vary
	words  words
	lens   []uint64 // of content of differing length
	starts []uint32
	text   []byte
	memory []uint64 // of lens
}

var errBlock = errors.New("block is malformed")

// want tells load what to decode.
type want struct {
	columns Columns // of the table of calls
	funcs   func(id uint16) bool
	noArgs  bool
	noData  bool
	dataOf  []bool // by function: those whose data is wanted; nil for all
	whole   bool   // unpack what is not wanted too
	batches bool   // only columns are looked at, and no single call
}

// callsOnly reports whether the table of calls is all that is wanted. It comes first, so the rest of the chunk is not even looked at then.
func (w *want) callsOnly() bool { return w.noArgs && w.noData }

// blockHead reads what comes before the tables of a block. A version that is not known has neither.
func blockHead(raw []byte) (first uint64, tables []byte, t0 int64, err error) {
	version, raw, ok := readUvarint(raw)
	if !ok {
		return 0, nil, 0, errBlock
	}
	if version != blockVersion {
		return 0, nil, 0, errBlockVersion
	}
	if first, raw, ok = readUvarint(raw); !ok || first > 1<<62 {
		return 0, nil, 0, errBlock
	}
	t0, n := binary.Varint(raw)
	if n <= 0 {
		return 0, nil, 0, errBlock
	}
	return first, raw[n:], t0, nil
}

var errBlockVersion = errors.New("block has a later version")

// A tableReader finds the columns of a table.
type tableReader struct {
	column.Table
	b   *block
	end int // of the table in the content of the chunk
}

// next is Table.Next. The body of the column is not unpacked yet.
func (t *tableReader) next() (column.Column, bool, error) {
	if t.Len() > 0 {
		if err := t.b.ready(t.end-t.Len(), t.end, column.WholeColumnHead); err != nil {
			return column.Column{}, false, err
		}
	}
	return t.Next()
}

// unpack unpacks the column that next gave last.
func (t *tableReader) unpack(c column.Column) error {
	end := t.end - t.Len()
	return t.b.content.Unpack(end-len(c.Body), end)
}

// ready unpacks bytes of the content from a place on until they satisfy whole: a head may lie in several frames.
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

// load decodes what is wanted of the content.
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
	b.first, b.t0 = first, t0
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
	if w.batches {
		if !b.calls[callFunc].Below(1<<16, b.n) || !b.calls[callDur].Below(1<<63, b.n) {
			return errBlock
		}
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
	b.restAt = -1
}

// take accounts for n rows of w words before they are allocated.
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

// columns decodes the columns with the fields 0, 1 and so on into cols; a field that is not there is zero.
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

// vectors decodes the columns with the fields 0, 1 and so on that are wanted, into cols with the memory that they may need. A field that is not there leaves what is in cols.
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

// vector decodes a column, and takes one of an unknown encoding for zeros.
func (b *block) vector(v *column.Vector, n int, c column.Column, store *[]uint64) error {
	err := b.dec.Vector(v, n, c, store)
	if errors.Is(err, column.ErrUnknown) {
		b.unknown(c.Enc.String())
		v.Const(0)
		return nil
	}
	return err
}

// words decodes a column, and takes one of an unknown encoding for zeros.
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
	b.seen = append(b.seen, f)
	f.used, f.rows, f.outs = true, int(t.Rows), f.outs[:0]
	f.args.reset(int(t.Width), f.rows)
	if w.noArgs || w.funcs != nil && !w.funcs(id) {
		return nil
	}
	// Nothing is left out: all of it at once.
	if err := b.content.Unpack(t.end-t.Len(), t.end); err != nil {
		return err
	}
	for {
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
	// Values lie in their rows, so that a call finds its own without counting those before it.
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
	// Ordinals are dense, but 0, the shared table, may be missing.
	if t.ID < uint64(len(b.groups)) || t.ID > uint64(len(b.groups))+1 {
		return errBlock
	}
	for uint64(len(b.groups)) <= t.ID {
		b.addGroup()
	}
	g := b.groups[t.ID]
	g.rows, g.width = int(t.Rows), int(t.Width)
	g.words.reset(g.width, g.rows)
	if err := b.content.Unpack(t.end-t.Len(), t.end); err != nil {
		return err
	}
	var props [dataProps]uint64
	for {
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
		default:
			b.unknown("column")
		}
	}
	g.one[0], g.wide = Data{}, false
	for _, k := range [...]int{dataKind, dataItem, dataBlob, dataLen} {
		g.wide = g.wide || g.varies[k]
	}
	for k, v := range props {
		set(&g.one[0], k, v)
	}
	g.time = g.one[0].Time
	if g.width > 0 && (g.varies[dataLen] || uint64(g.width) != (g.one[0].Len+7)/8) {
		return errBlock
	}
	return nil
}

func (b *block) addGroup() {
	if n := len(b.groups); n < cap(b.groups) {
		b.groups = b.groups[:n+1]
		if g := b.groups[n]; g != nil {
			g.rows, g.width, g.varies, g.lens, g.text = 0, 0, [dataProps]bool{}, nil, nil
			return
		}
		b.groups[n] = &groupBlock{}
		return
	}
	b.groups = append(b.groups, &groupBlock{})
}

func (b *block) text(g *groupBlock, c column.Column) error {
	if g.lens != nil || g.width != 0 {
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

// link computes what ties calls to the rows of the tables, and verifies that the tables agree.
func (b *block) link(w want) error {
	if err := b.linkTimes(); err != nil || w.callsOnly() {
		return err
	}
	b.row = resize(b.row, b.n)
	b.next = resize(b.next, len(b.funcs))
	for i := range b.next {
		b.next[i] = unused
	}
	for _, f := range b.seen {
		b.next[f.id] = 0
	}
	next, rows := b.next, b.row[:len(b.fn)]
	last, row := -1, uint32(0) // most calls are of the function of the one before
	for i, id := range b.fn {
		if int(id) != last {
			if int(id) >= len(next) || next[id] == unused {
				return errBlock
			}
			if last >= 0 {
				next[last] = row
			}
			last, row = int(id), next[id]
		}
		rows[i] = row
		row++
	}
	if last >= 0 {
		next[last] = row
	}
	for _, f := range b.seen {
		if int(next[f.id]) != f.rows {
			return errBlock
		}
	}
	if w.noData || b.rows == 0 {
		return nil
	}
	return b.linkData()
}

// unused stands for the rows of a function that the block has no table of.
const unused = ^uint32(0)

// linkTimes adds up the starts, and verifies what the table of calls alone has.
func (b *block) linkTimes() error {
	b.fn, b.start, b.end = resize(b.fn, b.n), resize(b.start, b.n), resize(b.end, b.n)
	column.Fill(b.fn, &b.calls[callFunc], 0)
	end, bad := b.t0, int64(0)
	for from := 0; from < b.n; from += stretch {
		to := min(from+stretch, b.n)
		starts, ends := b.start[from:to], b.end[from:to]
		column.Fill(starts, &b.calls[callStart], from)
		column.Fill(ends, &b.calls[callDur], from)
		for i, dur := range ends {
			start := end + starts[i]
			starts[i] = start
			end = start + dur
			ends[i] = end
			bad |= dur
		}
	}
	if bad < 0 || !b.calls[callFunc].Below(math.MaxUint16+1, b.n) {
		return errBlock
	}
	return nil
}

func (b *block) linkData() error {
	b.slots, b.rowsOf, b.nextPos = resize(b.slots, b.rows), resize(b.rowsOf, b.n), resize(b.nextPos, len(b.groups))
	clear(b.rowsOf)
	clear(b.nextPos)
	b.order = b.order[:0]
	var groups, owners [stretch]uint64
	next, data := b.nextPos, b.rowsOf
	last, lastRow := -1, 0 // the call that had a row last
	sorted := true
	for from := 0; from < b.rows; from += stretch {
		slots := b.slots[from:min(from+stretch, b.rows)]
		column.Fill(groups[:len(slots)], &b.group, from)
		column.Fill(owners[:len(slots)], &b.owner, from)
		for i := range slots {
			g := groups[i%stretch]
			if g >= uint64(len(next)) {
				return errBlock
			}
			slots[i] = slot(g<<32 | uint64(next[g]))
			next[g]++
		}
		for i, owner := range owners[:len(slots)] {
			switch {
			case owner >= uint64(len(data)):
				if b.first+owner >= b.first {
					return errBlock // of a call that does not exist yet
				}
				continue
			case int(owner) > last:
				data[owner] = oneRow | slots[i]
			case int(owner) < last:
				sorted = false
			case data[owner]&oneRow != 0:
				data[owner] = severalRows | 2<<32 | slot(len(b.order))
				b.order = append(b.order, uint32(lastRow), uint32(from+i))
			default:
				data[owner] += 1 << 32
				b.order = append(b.order, uint32(from+i))
			}
			last, lastRow = int(owner), from+i
		}
	}
	for i, g := range b.groups {
		if int(next[i]) != g.rows {
			return errBlock
		}
	}
	if !sorted {
		b.sortData()
	}
	return nil
}

// sortData is for rows that do not come in the order of their calls.
func (b *block) sortData() {
	from := make([]uint32, b.n+1)
	for i := range b.rows {
		if c := b.owner.At(i); c < uint64(b.n) {
			from[c+1]++
		}
	}
	for i := range b.n {
		b.rowsOf[i] = severalRows | slot(from[i+1])<<32 | slot(from[i])
		from[i+1] += from[i]
	}
	b.order = resize(b.order, int(from[b.n]))
	for i := range b.rows {
		if c := b.owner.At(i); c < uint64(b.n) {
			b.order[from[c]] = uint32(i)
			from[c]++
		}
	}
}

// in returns the group of a row and its position there.
func (b *block) in(s slot) (*groupBlock, int) { return b.groups[s&^oneRow>>32], int(uint32(s)) }

// place sets what differs from row to row, but the call and its content. start is what the time of the row is counted from.
func (g *groupBlock) place(d *Data, p int, start int64) {
	if g.varies[dataAddr] {
		d.Addr = g.vary[dataAddr].At(p)
	}
	d.Time = g.time + start
	if g.varies[dataTime] {
		d.Time = int64(g.vary[dataTime].At(p)) + start
	}
	if g.wide {
		for _, k := range [...]int{dataKind, dataItem, dataBlob, dataLen} {
			if g.varies[k] {
				set(d, k, g.vary[k].At(p))
			}
		}
	}
}

// string returns the content of a row of a table without words.
func (g *groupBlock) string(p int) []byte {
	if g.lens == nil || g.lens[p] == 0 {
		return nil
	}
	at := uint64(g.starts[p])
	return g.text[at : at+g.lens[p] : at+g.lens[p]]
}

// datum fills d with row i. Its content lies in the arena, which the caller empties, or in the unpacked chunk.
func (b *block) datum(d *Data, i int) {
	g, p := b.in(b.slots[i])
	owner := b.owner.At(i)
	*d = g.one[0]
	d.Call = b.first + owner
	start := b.t0
	if owner < uint64(b.n) {
		start = b.start[owner]
	}
	g.place(d, p, start)
	if g.width == 0 {
		d.Bytes = g.string(p)
		return
	}
	at := len(b.arena)
	b.arena = append(b.arena, g.words.row(uint(p))...)
	d.Bytes = column.WordBytes(b.arena[at:])[:d.Len:d.Len]
}

// only returns a row as all the data of its call.
func (b *block) only(s slot, call uint64, start int64) []Data {
	g, p := b.in(s)
	d := &g.one[0]
	d.Call = call
	g.place(d, p, start)
	if g.width > 0 {
		d.Bytes = column.WordBytes(g.words.row(uint(p)))[:d.Len:d.Len]
	} else {
		d.Bytes = g.string(p)
	}
	return g.one[:]
}

// late reports whether row i belongs to a call of an earlier chunk.
func (b *block) late(i int) bool { return b.owner.At(i) >= uint64(b.n) }

// fill sets c to call i. Its slices are the block's memory.
func (b *block) fill(c *Call, i int, w *want) {
	id := b.fn[i]
	c.Index, c.Func, c.Start, c.End = b.first+uint64(i), id, b.start[i], b.end[i]
	k := b.turn(i)
	c.Thread, c.Flags, c.Ret = uint32(b.rest[0][k]), CallFlags(b.rest[1][k]), b.rest[2][k]
	if !w.noArgs {
		f := b.funcs[id]
		row := b.row[i]
		c.Args = f.args.row(uint(row))
		if len(f.outs) > 0 {
			c.Outs = f.out(row)
		} else if len(c.Outs) > 0 {
			c.Outs = nil
		}
	}
	if w.noData || b.rows == 0 || w.dataOf != nil && !w.dataOf[id] {
		c.Data = nil
		return
	}
	switch s := b.rowsOf[i]; {
	case s == 0:
		c.Data = nil
	case s&oneRow != 0:
		c.Data = b.only(s, c.Index, c.Start)
	default:
		c.Data = b.several(b.order[uint32(s):][:s&^severalRows>>32])
	}
}

func (b *block) several(rows []uint32) []Data {
	b.arena = b.arena[:0]
	b.many = resize(b.many, len(rows))
	for k, row := range rows {
		b.datum(&b.many[k], int(row))
	}
	return b.many
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
