package format

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	"github.com/acltrace/acltrace/format/column"
)

// A block is an events chunk, unpacked and decoded column by column. A call is put together from the columns when it is asked for; what is
// constant in the block is there already. Its memory is used again for the next chunk.
type block struct {
	raw    []byte
	first  uint64
	t0     int64
	n      int
	budget uint64
	calls  [callFields]column.Vector
	store  [callFields + 2][]uint64 // memory of the vectors, where they need some
	next   []uint32                 // by function, the row of its next call
	row    []uint32                 // of call i in the table of its function
	start  []int64

	funcs []*funcBlock // by id
	seen  []*funcBlock

	rows    int
	group   column.Vector
	owner   column.Vector // call of row i, counted from first
	pos     []uint32      // of row i in its group
	nextPos []uint32      // by group, the position of its next row
	sorted  bool          // rows are in the order of their calls, and none is of an earlier chunk
	order   []uint32      // else: rows by call
	from    []uint32      // rows of call i are from[i] to from[i+1]
	groups  []*groupBlock

	arena   []uint64 // content of the data given out last
	dec     column.Decoder
	bitmap  []uint64
	unknown func(what string)
}

type funcBlock struct {
	id   uint16
	used bool
	rows int
	args words
	outs []outBlock
}

// words are the rows of a table of words. Most columns are constant, so a row is made from a template, in which only the others are set.
type words struct {
	row   []uint64
	vary  []varying
	store [][]uint64 // memory of the columns in vary
}

type varying struct {
	at     int
	values column.Vector
}

func (w *words) reset(width int) {
	w.row = resize(w.row, width)
	clear(w.row)
	w.vary = w.vary[:0]
}

// add decodes a column of n rows. Columns come by ascending field.
func (b *block) add(w *words, n int, c column.Column) error {
	at := int(c.Field)
	if k := len(w.vary); k > 0 && w.vary[k-1].at >= at {
		return errBlock
	}
	if v, ok := c.Const(); ok {
		w.row[at] = v
		return nil
	}
	k := len(w.vary)
	if k == len(w.store) {
		w.store = append(w.store, nil)
	}
	if !b.take(uint64(n), 1) {
		return errBlock
	}
	w.vary = append(w.vary, varying{at: at})
	return b.vector(&w.vary[k].values, n, c, &w.store[k])
}

// set makes row hold row i of the table; row has the length of w.row and its constants.
func (w *words) set(row []uint64, i uint32) {
	for k := range w.vary {
		v := &w.vary[k]
		row[v.at] = v.values.At(int(i))
	}
}

type outBlock struct {
	param  uint8
	values column.Vector
	store  []uint64
	bitmap []byte // nil when all rows have a value
}

func (o *outBlock) has(row uint32) bool { return o.bitmap == nil || o.bitmap[row/8]>>(row%8)&1 != 0 }

// A groupBlock is a table of data. What all rows share is in common, the rest in columns.
type groupBlock struct {
	rows   int
	width  int
	common Data
	wide   bool // more than address and time differ
	varies [dataProps]bool
	vary   [dataProps]column.Vector
	store  [dataProps][]uint64
	bytes  []byte // of words.row, which is free for one row of a call; call tells which had it
	call   int
	words  words
	lens   []uint64 // of content of differing length
	starts []uint32
	text   []byte
}

var errBlock = errors.New("block is malformed")

// want tells load what to decode.
type want struct {
	funcs  func(id uint16) bool
	noArgs bool
	noData bool
}

// callsOnly reports whether the table of calls is all that is wanted. It comes first, so the rest of the chunk is not even unpacked then.
func (w *want) callsOnly() bool { return w.noArgs && w.noData }

// enough returns what tells that a part of a chunk has what is wanted, nil for the whole chunk.
func (w *want) enough() func([]byte) bool {
	if !w.callsOnly() {
		return nil
	}
	return func(raw []byte) bool {
		_, raw, _, err := blockHead(raw)
		if err != nil {
			return false
		}
		_, _, err = column.NextTable(raw)
		return err == nil
	}
}

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

// load decodes raw, which must stay unchanged as long as the block is used.
func (b *block) load(raw []byte, w want) error {
	b.reset()
	b.raw = raw
	first, raw, t0, err := blockHead(raw)
	if errors.Is(err, errBlockVersion) {
		b.unknown("version of an events block")
		return nil
	}
	if err != nil {
		return err
	}
	b.first, b.t0 = first, t0
	for len(raw) > 0 {
		t, rest, err := column.NextTable(raw)
		if err != nil {
			return err
		}
		raw = rest
		if err := b.table(t, w); err != nil {
			return err
		}
		if w.callsOnly() {
			break
		}
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
}

// take accounts for n rows of w words before they are allocated.
func (b *block) take(n, w uint64) bool {
	if n > maxCalls*4 || w > maxBlockWords || n*w > b.budget {
		return false
	}
	b.budget -= n * w
	return true
}

func (b *block) table(t column.Table, w want) error {
	switch t.Kind {
	case kindCalls:
		if b.n != 0 || t.Rows == 0 || t.Rows > maxCalls || !b.take(t.Rows, callFields+2) {
			return errBlock
		}
		b.n = int(t.Rows)
		return b.vectors(t, b.calls[:], b.store[:callFields], b.n)
	case kindFunc:
		if t.ID > 0xffff || t.Rows == 0 || t.Rows > maxCalls || t.Width > MaxWords {
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
		err := b.vectors(t, cols[:], b.store[callFields:], b.rows)
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

// vectors is columns for vectors, with the memory that they may need.
func (b *block) vectors(t column.Table, cols []column.Vector, store [][]uint64, n int) error {
	for i := range cols {
		cols[i].Const(0)
	}
	for {
		c, ok, err := t.Next()
		if err != nil || !ok {
			return err
		}
		if c.Field >= uint64(len(cols)) {
			b.unknown("column")
			continue
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

func (b *block) function(t column.Table, w want) error {
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
	f.args.reset(int(t.Width))
	if w.noArgs || w.funcs != nil && !w.funcs(id) {
		return nil
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
			if err := b.add(&f.args, f.rows, c); err != nil {
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

func (b *block) data(t column.Table) error {
	if t.Rows == 0 || t.Width > InlineLimit/8 || t.ID > maxCalls*4 || !b.take(1, t.Width+dataProps) {
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
	g.words.reset(g.width)
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
			if err := b.add(&g.words, g.rows, c); err != nil {
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
	g.common, g.wide = Data{}, false
	for _, k := range [...]int{dataKind, dataItem, dataBlob, dataLen} {
		g.wide = g.wide || g.varies[k]
	}
	for k, v := range props {
		set(&g.common, k, v)
	}
	if g.width == 0 {
		return nil
	}
	if g.varies[dataLen] || uint64(g.width) != (g.common.Len+7)/8 {
		return errBlock
	}
	g.bytes, g.call = nil, -1
	if littleEndian {
		g.bytes = bytesOf(g.words.row)[:g.common.Len:g.common.Len]
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
	g.lens = make([]uint64, g.rows)
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
	if cap(g.starts) < g.rows {
		g.starts = make([]uint32, g.rows)
	}
	g.starts = g.starts[:g.rows]
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
	b.start = resize(b.start, b.n)
	if w.callsOnly() {
		return b.linkTimes()
	}
	b.row = resize(b.row, b.n)
	b.next = resize(b.next, len(b.funcs))
	for i := range b.next {
		b.next[i] = unused
	}
	for _, f := range b.seen {
		b.next[f.id] = 0
	}
	end := b.t0
	fns, deltas, durs := b.calls[callFunc], b.calls[callStart], b.calls[callDur]
	next, starts, rows := b.next, b.start, b.row[:len(b.start)]
	for i := range starts {
		start := end + int64(deltas.At(i))
		starts[i] = start
		dur := int64(durs.At(i))
		end = start + dur
		id := fns.At(i)
		if id >= uint64(len(next)) || next[id] == unused || dur < 0 {
			return errBlock
		}
		rows[i] = next[id]
		next[id]++
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

// linkTimes is link where only the calls were decoded.
func (b *block) linkTimes() error {
	end := b.t0
	fns, deltas, durs := b.calls[callFunc], b.calls[callStart], b.calls[callDur]
	for i := range b.start {
		b.start[i] = end + int64(deltas.At(i))
		dur := int64(durs.At(i))
		end = b.start[i] + dur
		if dur < 0 || fns.At(i) > math.MaxUint16 {
			return errBlock
		}
	}
	return nil
}

func (b *block) linkData() error {
	b.pos = resize(b.pos, b.rows)
	b.nextPos = resize(b.nextPos, len(b.groups))
	next := b.nextPos
	clear(next)
	for i := range b.pos {
		g := b.group.At(i)
		if g >= uint64(len(next)) {
			return errBlock
		}
		b.pos[i] = next[g]
		next[g]++
	}
	for i, g := range b.groups {
		if int(next[i]) != g.rows {
			return errBlock
		}
	}
	// Rows come in the order of their calls, but for what was added later; count the rows of each call, and sort only if there is need.
	b.from = resize(b.from, b.n+1)
	clear(b.from)
	b.sorted = true
	last := uint64(0)
	for i := range b.rows {
		c := b.owner.At(i)
		if c >= uint64(b.n) {
			if b.first+c >= b.first {
				return errBlock // of a call that does not exist yet
			}
			b.sorted = false
			continue
		}
		b.from[c+1]++
		b.sorted = b.sorted && c >= last
		last = c
	}
	for i := range b.n {
		b.from[i+1] += b.from[i]
	}
	if b.sorted {
		return nil
	}
	b.order = resize(b.order, int(b.from[b.n]))
	at := append([]uint32(nil), b.from...)
	for i := range b.rows {
		if c := b.owner.At(i); c < uint64(b.n) {
			b.order[at[c]] = uint32(i)
			at[c]++
		}
	}
	return nil
}

// datum fills d with row i. Its content lies in the memory of its group or in the arena, or in the unpacked chunk. call is any number that
// differs from call to call: what was given out for one stays.
func (b *block) datum(d *Data, i, call int) {
	g := b.groups[b.group.At(i)]
	p := int(b.pos[i])
	owner := b.owner.At(i)
	// Field by field: a copy of the whole would go through the write barrier for bytes that are set below.
	d.Call, d.Param, d.Item, d.Dir, d.Status, d.Reason = b.first+owner, g.common.Param, g.common.Item, g.common.Dir, g.common.Status, g.common.Reason
	d.Addr, d.Len, d.Group, d.Blob = g.common.Addr, g.common.Len, 0, g.common.Blob
	if g.varies[dataAddr] {
		d.Addr = g.vary[dataAddr].At(p)
	}
	time := g.common.Time
	if g.varies[dataTime] {
		time = int64(g.vary[dataTime].At(p))
	}
	if g.wide {
		for _, k := range [...]int{dataKind, dataItem, dataBlob, dataLen} {
			if g.varies[k] {
				set(d, k, g.vary[k].At(p))
			}
		}
	}
	if owner < uint64(b.n) {
		d.Time = time + b.start[owner]
	} else {
		d.Time = time + b.t0
	}
	switch {
	case g.width > 0 && g.call != call && g.bytes != nil:
		g.call = call
		g.words.set(g.words.row, uint32(p))
		d.Bytes = g.bytes
	case g.width > 0:
		at := len(b.arena)
		b.arena = append(b.arena, g.words.row...)
		row := b.arena[at:]
		g.words.set(row, uint32(p))
		d.Bytes = bytesOf(row)[:d.Len:d.Len]
	case g.lens != nil && g.lens[p] > 0:
		at := uint64(g.starts[p])
		d.Bytes = g.text[at : at+g.lens[p] : at+g.lens[p]]
	default:
		d.Bytes = nil
	}
}

// late reports whether row i belongs to a call of an earlier chunk.
func (b *block) late(i int) bool { return b.owner.At(i) >= uint64(b.n) }

// fill sets c to call i. Its slices are the block's memory, and what c had room for.
func (b *block) fill(c *Call, i int, w *want) {
	id := b.calls[callFunc].At(i)
	c.Index = b.first + uint64(i)
	c.Func = uint16(id)
	c.Thread = uint32(b.calls[callThread].At(i))
	c.Start = b.start[i]
	c.End = c.Start + int64(b.calls[callDur].At(i))
	c.Flags = CallFlags(b.calls[callFlags].At(i))
	c.Ret = b.calls[callRet].At(i)
	c.Outs, c.Data = c.Outs[:0], c.Data[:0]
	if !w.noArgs {
		f := b.funcs[id]
		row := b.row[i]
		f.args.set(f.args.row, row)
		c.Args = f.args.row
		for k := range f.outs {
			o := &f.outs[k]
			if o.has(row) {
				c.Outs = append(c.Outs, Out{o.param, o.values.At(int(row))})
			}
		}
	}
	if w.noData || b.rows == 0 {
		return
	}
	b.arena = b.arena[:0]
	from, to := int(b.from[i]), int(b.from[i+1])
	if cap(c.Data) < to-from {
		c.Data = make([]Data, 0, to-from)
	}
	c.Data = c.Data[:to-from]
	for k := range c.Data {
		at := from + k
		if !b.sorted {
			at = int(b.order[at])
		}
		b.datum(&c.Data[k], at, i)
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

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf views words as the bytes that they were made of. Content is decoded into words, since columns are words; copying it once
// more for every call would cost as much as decoding it.
func bytesOf(w []uint64) []byte {
	if !littleEndian {
		b := make([]byte, 0, len(w)*8)
		for _, x := range w {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)
}
