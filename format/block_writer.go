package format

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/format/column"
)

// A blockWriter collects the calls of one events chunk as columns, which are encoded when the block ends. Facts that the
// columns show are not computed call by call.
type blockWriter struct {
	first uint64
	n     int
	words int
	t0    int64 // the first call's start, or the first data's capture time if that is earlier
	*callColumns
	threads  uint32    // bits in which threads differ from the first call's
	anyFlags CallFlags // flags of all calls
	anyRet   uint64    // bits of all returned values

	funcs []*funcRows // by id; kept between blocks, with their memory
	used  []*funcRows

	rowGroup []uint32
	rowCall  []uint64
	dataMin  int64 // times of data that came before the first call
	dataMax  int64
	late     lateRange
	aside    aside
	groups   map[groupKey]*groupRows
	recent   [256]*groupRows // by hash of the key, to avoid most map lookups
	live     []*groupRows

	objects

	enc  column.Encoder
	row  [propsWide + InlineLimit/8]uint64
	col  []uint64
	lens []uint64
	text []byte
}

// objects are those that the calls of a block name, for info.
type objects struct {
	handles []distinct // by kind
	streams map[uint32]int
}

// aside is content for the blob file.
type aside struct {
	on      bool   // there is a blob file
	content []byte // of rows in the block, one after the other
	in      BlobID // payload with the content
}

// callColumns are the fields of every call. Arrays avoid bounds checks.
type callColumns struct {
	begin  [blockCalls]int64
	dur    [blockCalls]uint64 // end − start
	fn     [blockCalls]uint16 // its function
	thread [blockCalls]uint32
	flags  [blockCalls]CallFlags
	ret    [blockCalls]uint64
}

// lateRange is the range of calls in earlier chunks whose data a chunk holds; n counts from lo to the highest.
type lateRange struct{ lo, n uint64 }

func (l *lateRange) add(call uint64) {
	switch {
	case l.n == 0:
		l.lo, l.n = call, 1
	case call < l.lo:
		l.n += l.lo - call
		l.lo = call
	case call-l.lo >= l.n:
		l.n = call - l.lo + 1
	}
}

type funcRows struct {
	id   uint16
	rows int
	time uint64 // total duration of the calls
	args column.Rows
	outs []outRows
}

type outRows struct {
	param  uint8
	rows   []uint32
	values []uint64
}

// groupKey is the common key of one data table's rows. One kernel's data has one layout, so each of its
// words is a column of its own.
type groupKey struct {
	layout uint64 // the kind in 32 bits, content bytes in 14, the function in 16, and a bit for wide properties
	group  uint64
}

const (
	wideLayout  = 1 << 62
	asideLayout = 1 << 63
)

func keyOf(d *Data, fn uint16, content []byte) groupKey {
	k := groupKey{uint64(kindOf(d)) | uint64(len(content))<<32 | uint64(fn)<<46, d.Group}
	if len(content) == 0 || d.Item != 0 {
		k.layout |= wideLayout
	}
	return k
}

func (k groupKey) hash() uint8 {
	return uint8((k.group ^ k.layout*0x9E3779B97F4A7C15) * 0x9E3779B97F4A7C15 >> 56)
}

type groupRows struct {
	// Fields for the lookup of each row come first, in few cache lines.
	key     groupKey
	id      int // index in live
	rows    int
	decider int         // 1 + the word of content that separates variants, 0 for none
	wide    bool        // rows have all properties, otherwise address and time
	aside   bool        // content is in blockWriter.aside, and propBlob is its offset
	words   column.Rows // properties, then content

	kind uint32
	size int // bytes of content

	// One kernel's data may still vary with its task, such as the shape of tensors, which decides most
	// words. If one word predicts the others, each of its values gets rows of its own, in which the others are
	// constant.
	variants []*groupRows
	of       *groupRows // group of which this is a variant
	value    uint64     // value of the decider
	total    int        // rows in all variants of the block
	wait     int        // blocks until the next search for a decider
}

// maxVariants is the largest number of variants in a group; further values stay in the group itself.
const maxVariants = 8

// variant returns the rows for a content.
func (g *groupRows) variant(content []byte) *groupRows {
	value := binary.LittleEndian.Uint64(content[(g.decider-1)*8:])
	for _, v := range g.variants {
		if v.value == value {
			return v
		}
	}
	if len(g.variants) == maxVariants {
		return g
	}
	v := newGroupRows(g.key)
	v.of, v.value = g, value
	g.variants = append(g.variants, v)
	return v
}

// choose decides after a block if the group has variants in the next one. Variants need many
// rows each, because each has a table of its own.
func (g *groupRows) choose() {
	const enough, pause = 32, 16
	switch {
	case g.decider != 0:
		if g.total < enough*len(g.variants) {
			g.decider, g.variants, g.wait = 0, nil, pause
		}
	case g.wait > 0:
		g.wait--
	case g.total >= 4*enough:
		at, values, decided := g.words.Decider(g.props(), g.props()+g.size/8, maxVariants)
		if g.wait = pause; decided >= 3 && g.total >= enough*values && decided*g.total > values*g.width()*32 {
			g.decider = 1 + at - g.props()
		}
	}
	g.total = 0
}

func newGroupRows(key groupKey) *groupRows {
	g := &groupRows{key: key, kind: uint32(key.layout), size: int(key.layout >> 32 & (1<<14 - 1)), wide: key.layout&wideLayout != 0, aside: key.layout&asideLayout != 0}
	g.words = column.MakeRows(g.props() + g.width())
	return g
}

// props is the number of property words in a row.
func (g *groupRows) props() int {
	if g.wide {
		return propsWide
	}
	return propsNarrow
}

// width is the number of content words in a row.
func (g *groupRows) width() int { return (g.size + 7) / 8 }

// Properties in a row. Data with content and without an element number needs only the first two: kind and length are the group's.
const (
	propAddr = iota
	propTime
	propsNarrow
	propItem = iota - 1
	propBlob
	propLen
	propsWide
)

func kindOf(d *Data) uint32 {
	return uint32(d.Param) | uint32(d.Dir)<<8 | uint32(d.Status)<<16 | uint32(d.Reason)<<24
}

func newBlockWriter() *blockWriter {
	return &blockWriter{groups: map[groupKey]*groupRows{}, objects: objects{streams: map[uint32]int{}}, callColumns: &callColumns{}}
}

func (b *blockWriter) empty() bool { return b.n == 0 && len(b.rowCall) == 0 }
func (b *blockWriter) full() bool  { return b.n >= blockCalls || b.words >= blockWords }

func (b *blockWriter) call(c *Call) {
	i := b.n
	if i == 0 && len(b.rowCall) == 0 {
		b.t0 = c.Start
	}
	b.begin[i], b.dur[i], b.fn[i] = c.Start, uint64(c.End-c.Start), c.Func
	b.thread[i], b.flags[i], b.ret[i] = c.Thread, c.Flags, c.Ret
	b.threads |= c.Thread ^ b.thread[0]
	b.anyFlags |= c.Flags
	b.anyRet |= c.Ret
	b.n = i + 1
	b.words += callFields + len(c.Args) + len(c.Outs)

	f := b.function(c.Func, len(c.Args))
	if f.rows == 0 {
		b.used = append(b.used, f)
	}
	for _, o := range c.Outs {
		f.out(o)
	}
	if len(c.Args) > 0 {
		copy(f.args.Next(), c.Args)
	}
	f.rows++
	f.time += b.dur[i]
}

func (b *blockWriter) function(id uint16, words int) *funcRows {
	if int(id) < len(b.funcs) && b.funcs[id] != nil {
		return b.funcs[id]
	}
	for int(id) >= len(b.funcs) {
		b.funcs = append(b.funcs, nil)
	}
	b.funcs[id] = &funcRows{id: id, args: column.MakeRows(words)}
	return b.funcs[id]
}

// out adds an output of the next call.
func (f *funcRows) out(o Out) {
	var col *outRows
	for i := range f.outs {
		if f.outs[i].param == o.Param {
			col = &f.outs[i]
			break
		}
	}
	if col == nil {
		f.outs = append(f.outs, outRows{param: o.Param})
		col = &f.outs[len(f.outs)-1]
	}
	col.rows = append(col.rows, uint32(f.rows))
	col.values = append(col.values, o.Value)
}

// data adds a row of data for a call. Content that is too long for the block is in blob, and d's is ignored
// then. fn groups rows and is 0 if the function is unknown.
func (b *blockWriter) data(d *Data, call uint64, time int64, fn uint16, blob BlobID) {
	t := time - b.t0
	switch {
	case b.empty():
		b.t0, b.dataMin, b.dataMax = time, time, time
		t = 0
	case call >= b.first:
		t = time - b.begin[call-b.first]
	case b.n == 0:
		b.dataMin, b.dataMax = min(b.dataMin, time), max(b.dataMax, time)
	}
	if call < b.first {
		b.late.add(call)
	}
	content := d.Bytes
	if blob != 0 {
		content = nil
	}
	b.add(d, call, t, fn, blob, content)
}

// after is the time from a call's start to its data's capture.
func (d *Data) after(c *Call) int64 {
	if d.Time == 0 {
		return 0
	}
	return d.Time - c.Start
}

// add adds a row of data that was captured t after its call began.
func (b *blockWriter) add(d *Data, call uint64, t int64, fn uint16, blob BlobID, content []byte) {
	var key groupKey
	if b.aside.on && d.Aside && len(content) > 0 {
		key = keyOf(d, fn, nil)
		key.layout |= asideLayout
		blob = BlobID(len(b.aside.content))
		b.aside.content = append(b.aside.content, content...)
		b.words += len(content) / 8
		content = nil
	} else {
		key = keyOf(d, fn, content)
	}
	g := b.group(key)
	if g.decider != 0 {
		g = g.variant(content)
	}
	if g.rows == 0 {
		g.id = len(b.live)
		b.live = append(b.live, g)
	}
	g.rows++
	row := g.words.Next()
	row[propAddr], row[propTime] = d.Addr, uint64(t)
	if g.wide {
		size := d.Len
		if size == 0 {
			size = uint64(len(d.Bytes))
		}
		row[propItem], row[propBlob], row[propLen] = uint64(d.Item), uint64(blob), size
		column.PutBytes(row[propsWide:], content)
	} else {
		column.PutBytes(row[propsNarrow:], content)
	}
	b.rowGroup = append(b.rowGroup, uint32(g.id))
	b.rowCall = append(b.rowCall, call)
	b.words += 2 + len(row)
}

func (b *blockWriter) group(key groupKey) *groupRows {
	slot := &b.recent[key.hash()]
	if g := *slot; g != nil && g.key == key {
		return g
	}
	g := b.groups[key]
	if g == nil {
		g = newGroupRows(key)
		b.groups[key] = g
	}
	*slot = g
	return g
}

// times returns the calls' earliest and latest time, or the data's if there is no call.
func (b *blockWriter) times() (lo, hi int64) {
	if b.n == 0 {
		return b.dataMin, b.dataMax
	}
	lo, hi = b.begin[0], b.begin[0]
	dur := b.dur[:b.n]
	for i, t := range b.begin[:b.n] {
		lo, hi = min(lo, t), max(hi, t+int64(dur[i]))
	}
	return lo, hi
}

// encode appends the block to dst.
func (b *blockWriter) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, blockVersion)
	dst = binary.AppendUvarint(dst, b.first)
	dst = binary.AppendVarint(dst, b.t0)
	if b.n > 0 {
		dst = b.encodeCalls(dst)
	}
	slices.SortFunc(b.used, func(x, y *funcRows) int { return cmp.Compare(x.id, y.id) })
	for _, f := range b.used {
		dst = b.encodeFunc(dst, f)
	}
	if len(b.rowCall) > 0 {
		dst = b.encodeData(dst)
	}
	return dst
}

func (b *blockWriter) encodeCalls(dst []byte) []byte {
	b.enc.Begin(dst, kindCalls, 0, uint64(b.n), callFields)
	col := b.column(b.n)
	b.enc.Words(callFunc, widen(col, b.fn[:]))
	dur := b.dur[:len(col)]
	last := b.t0
	for i, t := range b.begin[:len(col)] {
		col[i] = uint64(t - last)
		last = t + int64(dur[i])
	}
	b.enc.Words(callStart, col)
	b.enc.Words(callDur, dur)
	if b.threads != 0 {
		b.enc.Words(callThread, widen(col, b.thread[:]))
	} else {
		b.enc.Constant(callThread, uint64(b.thread[0]))
	}
	if b.anyFlags != 0 {
		b.enc.Words(callFlags, widen(col, b.flags[:]))
	}
	if b.anyRet != 0 {
		b.enc.Words(callRet, b.ret[:b.n])
	}
	return b.enc.End()
}

// widen sets dst to the first values of v.
func widen[T ~uint8 | uint16 | uint32](dst []uint64, v []T) []uint64 {
	for i, x := range v[:len(dst)] {
		dst[i] = uint64(x)
	}
	return dst
}

// frames returns the offsets in a block at which packing begins anew: around each long column of calls, so
// a reader unpacks only the wanted ones, after the calls, and after the arguments. A small block is one
// frame.
func frames(raw []byte) []int {
	const worth = 1024 // least number of calls and bytes for a frame: it costs 8 bytes, and the packer starts anew
	var ends []int
	_, rest, _, err := blockHead(raw)
	for err == nil && len(rest) > 0 {
		begin := len(raw) - len(rest)
		var t column.Table
		if t, rest, err = column.NextTable(rest); err != nil {
			break
		}
		end := len(raw) - len(rest)
		switch t.Kind {
		case kindCalls:
			if t.Rows < worth {
				return nil
			}
			for c, ok, err := t.Next(); ok && err == nil; c, ok, err = t.Next() {
				if len(c.Body) >= worth {
					ends = append(ends, end-t.Len()-len(c.Body), end-t.Len())
				}
			}
			ends = append(ends, end)
		case kindRows:
			return append(ends, begin)
		}
	}
	return ends
}

func (b *blockWriter) encodeFunc(dst []byte, f *funcRows) []byte {
	rows, words := f.rows, f.args.Width()
	b.enc.Begin(dst, kindFunc, uint64(f.id), uint64(rows), uint64(words))
	for k := range words {
		b.enc.Column(uint64(k), &f.args, k)
	}
	slices.SortFunc(f.outs, func(x, y outRows) int { return cmp.Compare(x.param, y.param) })
	for i := range f.outs {
		if o := &f.outs[i]; len(o.rows) > 0 {
			b.enc.Sparse(extra+uint64(o.param), rows, o.rows, o.values)
		}
	}
	return b.enc.End()
}

// fewRows is the least number of rows for a group with its own columns. Smaller groups share one table, whose
// content is a byte string: names and structures of set-up calls would otherwise cost a column for each of their words.
const fewRows = 8

func (b *blockWriter) encodeData(dst []byte) []byte {
	// Tables are numbered in the order of writing; 0 is the shared one.
	ordinal := make([]uint64, len(b.live))
	next := uint64(1)
	shared := 0
	for i, g := range b.live {
		if g.rows < fewRows && !g.aside {
			shared += g.rows
			continue
		}
		ordinal[i] = next
		next++
	}
	n := len(b.rowCall)
	b.enc.Begin(dst, kindRows, 0, uint64(n), 2)
	col := b.column(n)
	for i, g := range b.rowGroup {
		col[i] = ordinal[g]
	}
	b.enc.Words(rowGroup, col)
	for i, c := range b.rowCall {
		col[i] = c - b.first
	}
	b.enc.Words(rowCall, col)
	dst = b.enc.End()
	if shared > 0 {
		dst = b.encodeShared(dst, ordinal, shared)
	}
	for i, g := range b.live {
		if ordinal[i] == 0 {
			continue
		}
		b.enc.Begin(dst, kindData, ordinal[i], uint64(g.rows), uint64(g.width()))
		for k := range g.width() {
			b.enc.Column(uint64(k), &g.words, g.props()+k)
		}
		b.enc.Constant(extra+dataKind, uint64(g.kind))
		b.enc.Column(extra+dataAddr, &g.words, propAddr)
		b.enc.Column(extra+dataTime, &g.words, propTime)
		if g.wide {
			b.enc.Column(extra+dataItem, &g.words, propItem)
			if !g.aside {
				b.enc.Column(extra+dataBlob, &g.words, propBlob)
			}
			b.enc.Column(extra+dataLen, &g.words, propLen)
			if g.aside {
				b.enc.Column(extra+dataAside, &g.words, propBlob)
				b.enc.Constant(extra+dataAsideBlob, uint64(b.aside.in))
			}
		} else {
			b.enc.Constant(extra+dataLen, uint64(g.size))
		}
		dst = b.enc.End()
	}
	return dst
}

// encodeShared writes all small groups' rows, in the order of their arrival.
func (b *blockWriter) encodeShared(dst []byte, ordinal []uint64, rows int) []byte {
	next := make([]int, len(b.live))
	data := column.MakeRows(dataProps)
	b.lens, b.text = b.lens[:0], b.text[:0]
	for _, id := range b.rowGroup {
		if ordinal[id] != 0 {
			continue
		}
		g := b.live[id]
		row := b.row[:g.props()+g.width()]
		g.words.Row(row, next[id])
		next[id]++
		all := data.Next()
		all[dataKind], all[dataAddr], all[dataTime] = uint64(g.kind), row[propAddr], row[propTime]
		all[dataItem], all[dataBlob], all[dataLen] = 0, 0, uint64(g.size)
		if g.wide {
			all[dataItem], all[dataBlob], all[dataLen] = row[propItem], row[propBlob], row[propLen]
		}
		at := len(b.text)
		for _, w := range row[g.props():] {
			b.text = binary.LittleEndian.AppendUint64(b.text, w)
		}
		b.text = b.text[:at+g.size]
		b.lens = append(b.lens, uint64(g.size))
	}
	b.enc.Begin(dst, kindData, 0, uint64(rows), 0)
	for k := range dataProps {
		b.enc.Column(extra+uint64(k), &data, k)
	}
	if len(b.text) > 0 {
		b.enc.Strings(extra+dataBytes, b.lens, b.text)
	}
	return b.enc.End()
}

func (b *blockWriter) column(n int) []uint64 {
	if cap(b.col) < n {
		b.col = make([]uint64, n+n/4)
	}
	return b.col[:n]
}

// reset empties the block; its memory stays.
func (b *blockWriter) reset(first uint64) {
	b.first, b.n, b.words = first, 0, 0
	b.aside.content, b.aside.in = b.aside.content[:0], 0
	b.threads, b.anyFlags, b.anyRet = 0, 0, 0
	for _, f := range b.used {
		f.rows, f.time = 0, 0
		f.args.Reset()
		for i := range f.outs {
			f.outs[i].rows, f.outs[i].values = f.outs[i].rows[:0], f.outs[i].values[:0]
		}
	}
	b.used = b.used[:0]
	for _, g := range b.live {
		base := g
		if g.of != nil {
			base = g.of
		}
		base.total += g.rows
	}
	for _, g := range b.live {
		if g.of != nil && g.of.total > 0 {
			g.of.choose()
		} else if g.of == nil && g.total > 0 {
			g.choose()
		}
	}
	for _, g := range b.live {
		g.rows = 0
		g.words.Reset()
	}
	b.live = b.live[:0]
	b.rowGroup, b.rowCall, b.late = b.rowGroup[:0], b.rowCall[:0], lateRange{}
	// Kernels come and go in a long recording: drop groups that were not used lately.
	if len(b.groups) > 1<<14 {
		clear(b.groups)
		clear(b.recent[:])
	}
}
