package format

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/format/column"
)

// A blockWriter collects the calls of one events chunk. Calls are kept as rows, since a call comes as a row, and turned
// into columns when the block is encoded.
type blockWriter struct {
	first      uint64
	t0         int64
	n          int
	words      int
	calls      [callFields + 1][]uint64 // the fields, then the start
	lastEnd    int64
	tMin, tMax int64

	funcs [](*funcRows) // by id; kept between blocks, as their memory is
	used  []*funcRows

	rowGroup []uint32
	rowCall  []uint64
	late     lateRange
	groups   map[groupKey]*groupRows
	recent   [256]*groupRows // by hash of the key, so that the map is seldom asked
	live     []*groupRows

	handles []distinct // by kind, for info

	enc  column.Encoder
	col  []uint64
	lens []uint64
	text []byte
}

// lateRange is the range of calls of earlier chunks that a chunk holds data of; n counts from lo to the highest.
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
	id    uint16
	words int
	rows  int
	args  []uint64 // row after row
	outs  []outRows
}

type outRows struct {
	param  uint8
	rows   []uint32
	values []uint64
}

// groupKey is what the rows of one data table share. Data of one kernel has one layout, so that each of its
// words is a column of its own.
type groupKey struct {
	fn    uint16
	wide  bool // rows have all properties, else address and time
	kind  uint32
	size  uint32 // bytes of content
	group uint64
}

func (k *groupKey) hash() uint8 {
	h := (k.group ^ uint64(k.fn)<<48 ^ uint64(k.kind)<<32 ^ uint64(k.size)<<20) * 0x9E3779B97F4A7C15
	return uint8(h >> 56)
}

type groupRows struct {
	key   groupKey
	id    int // position in live
	props int // words of properties in a row
	width int // words of content
	rows  int
	data  []uint64 // row after row: properties, then content
}

// Properties in a row. What has content, and no element number, needs only the first two: the kind and the length are those of the group.
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

// callBegin is the column of the start itself, behind the fields.
const callBegin = callFields

func newBlockWriter() *blockWriter {
	b := &blockWriter{groups: map[groupKey]*groupRows{}}
	for i := range b.calls {
		b.calls[i] = make([]uint64, blockCalls)
	}
	return b
}

func (b *blockWriter) empty() bool { return b.n == 0 && len(b.rowCall) == 0 }
func (b *blockWriter) full() bool  { return b.n >= blockCalls || b.words >= blockWords }

func (b *blockWriter) call(c *Call, words int) {
	if b.n == 0 {
		// The times of the chunk are those of its calls; data alone sets them only while there is no call.
		if len(b.rowCall) == 0 {
			b.t0 = c.Start
		}
		b.lastEnd, b.tMin, b.tMax = b.t0, c.Start, c.End
	}
	b.tMin, b.tMax = min(b.tMin, c.Start), max(b.tMax, c.End)
	i := b.n
	b.calls[callFunc][i] = uint64(c.Func)
	b.calls[callStart][i] = uint64(c.Start - b.lastEnd)
	b.calls[callDur][i] = uint64(c.End - c.Start)
	b.calls[callThread][i] = uint64(c.Thread)
	b.calls[callFlags][i] = uint64(c.Flags)
	b.calls[callRet][i] = c.Ret
	b.calls[callBegin][i] = uint64(c.Start)
	b.lastEnd = c.End
	b.n++
	b.words += callFields + words

	f := b.fn(c.Func, words)
	if f.rows == 0 {
		b.used = append(b.used, f)
	}
	f.args = append(f.args, c.Args...)
	for _, o := range c.Outs {
		f.out(o)
		b.words++
	}
	f.rows++
}

func (b *blockWriter) fn(id uint16, words int) *funcRows {
	for int(id) >= len(b.funcs) {
		b.funcs = append(b.funcs, nil)
	}
	f := b.funcs[id]
	if f == nil {
		f = &funcRows{id: id, words: words}
		b.funcs[id] = f
	}
	return f
}

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

// data adds a row; d has its final Call, Len and Blob. fn groups rows and is 0 where the function is not at hand.
func (b *blockWriter) data(d *Data, fn uint16) {
	t := d.Time - b.t0
	switch {
	case b.empty():
		b.t0, b.tMin, b.tMax = d.Time, d.Time, d.Time
		t = 0
	case d.Call >= b.first:
		t = d.Time - int64(b.calls[callBegin][d.Call-b.first])
	case b.n == 0:
		b.tMin, b.tMax = min(b.tMin, d.Time), max(b.tMax, d.Time)
	}
	if d.Call < b.first {
		b.late.add(d.Call)
	}
	key := groupKey{fn: fn, kind: kindOf(d), size: uint32(len(d.Bytes)), group: d.Group, wide: len(d.Bytes) == 0 || d.Item != 0}
	g := b.group(key)
	if g.rows == 0 {
		g.id = len(b.live)
		b.live = append(b.live, g)
	}
	if key.wide {
		g.data = append(g.data, d.Addr, uint64(t), uint64(d.Item), uint64(d.Blob), d.Len)
	} else {
		g.data = append(g.data, d.Addr, uint64(t))
	}
	g.data = appendWords(g.data, d.Bytes)
	g.rows++
	b.rowGroup = append(b.rowGroup, uint32(g.id))
	b.rowCall = append(b.rowCall, d.Call)
	b.words += 2 + g.props + g.width
}

func (b *blockWriter) group(key groupKey) *groupRows {
	slot := &b.recent[key.hash()]
	if g := *slot; g != nil && g.key == key {
		return g
	}
	g := b.groups[key]
	if g == nil {
		g = &groupRows{key: key, width: int(key.size+7) / 8, props: propsNarrow}
		if key.wide {
			g.props = propsWide
		}
		b.groups[key] = g
	}
	*slot = g
	return g
}

// appendWords appends s as little-endian words, the last one filled up with zeros.
func appendWords(dst []uint64, s []byte) []uint64 {
	for len(s) >= 8 {
		dst = append(dst, binary.LittleEndian.Uint64(s))
		s = s[8:]
	}
	if len(s) > 0 {
		var last [8]byte
		copy(last[:], s)
		dst = append(dst, binary.LittleEndian.Uint64(last[:]))
	}
	return dst
}

// encode appends the block to dst.
func (b *blockWriter) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, blockVersion)
	dst = binary.AppendUvarint(dst, b.first)
	dst = binary.AppendVarint(dst, b.t0)
	if b.n > 0 {
		b.enc.Begin(dst, kindCalls, 0, uint64(b.n), callFields)
		for field := range callFields {
			b.enc.Words(uint64(field), b.calls[field][:b.n])
		}
		dst = b.enc.End()
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

// frames returns the places in a block at which packing is to begin anew: behind each column that a reader of times alone
// needs, behind the calls, and behind the arguments. A small block is one frame.
func frames(raw []byte) []int {
	const worth = 1024 // calls from which a frame is worth its 8 bytes, and what the packer has to learn anew
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
				if c.Field <= callDur {
					ends = append(ends, end-t.Len())
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
	b.enc.Begin(dst, kindFunc, uint64(f.id), uint64(f.rows), uint64(f.words))
	b.enc.Rows(f.args, f.words, f.rows)
	for k := range f.words {
		b.enc.Column(uint64(k), k)
	}
	slices.SortFunc(f.outs, func(x, y outRows) int { return cmp.Compare(x.param, y.param) })
	for i := range f.outs {
		if o := &f.outs[i]; len(o.rows) > 0 {
			b.enc.Sparse(extra+uint64(o.param), f.rows, o.rows, o.values)
		}
	}
	return b.enc.End()
}

// fewRows is the number of rows from which a group is worth columns of its own. What is rarer shares one table, in which
// content is a byte string: names and structures of set-up calls would otherwise cost a column for each of their words.
const fewRows = 8

func (b *blockWriter) encodeData(dst []byte) []byte {
	// Tables are numbered in the order in which they are written; 0 is the shared one.
	ordinal := make([]uint64, len(b.live))
	next := uint64(1)
	shared := 0
	for i, g := range b.live {
		if g.rows < fewRows {
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
		b.enc.Begin(dst, kindData, ordinal[i], uint64(g.rows), uint64(g.width))
		b.enc.Rows(g.data, g.props+g.width, g.rows)
		for k := range g.width {
			b.enc.Column(uint64(k), g.props+k)
		}
		b.enc.Constant(extra+dataKind, uint64(g.key.kind))
		b.enc.Column(extra+dataAddr, propAddr)
		b.enc.Column(extra+dataTime, propTime)
		if g.key.wide {
			b.enc.Column(extra+dataItem, propItem)
			b.enc.Column(extra+dataBlob, propBlob)
			b.enc.Column(extra+dataLen, propLen)
		} else {
			b.enc.Constant(extra+dataLen, uint64(g.key.size))
		}
		dst = b.enc.End()
	}
	return dst
}

// encodeShared writes the rows of all small groups, in the order in which they came.
func (b *blockWriter) encodeShared(dst []byte, ordinal []uint64, rows int) []byte {
	next := make([]int, len(b.live))
	data := make([]uint64, 0, rows*dataProps)
	b.lens, b.text = b.lens[:0], b.text[:0]
	for _, id := range b.rowGroup {
		if ordinal[id] != 0 {
			continue
		}
		g := b.live[id]
		row := g.data[next[id]*(g.props+g.width):][:g.props+g.width]
		next[id]++
		var all [dataProps]uint64
		all[dataKind], all[dataAddr], all[dataTime], all[dataLen] = uint64(g.key.kind), row[propAddr], row[propTime], uint64(g.key.size)
		if g.key.wide {
			all[dataItem], all[dataBlob], all[dataLen] = row[propItem], row[propBlob], row[propLen]
		}
		data = append(data, all[:]...)
		at := len(b.text)
		for _, w := range row[g.props:] {
			b.text = binary.LittleEndian.AppendUint64(b.text, w)
		}
		b.text = b.text[:at+int(g.key.size)]
		b.lens = append(b.lens, uint64(g.key.size))
	}
	b.enc.Begin(dst, kindData, 0, uint64(rows), 0)
	b.enc.Rows(data, dataProps, rows)
	for k := range dataProps {
		b.enc.Column(extra+uint64(k), k)
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
	for _, f := range b.used {
		f.rows, f.args = 0, f.args[:0]
		for i := range f.outs {
			f.outs[i].rows, f.outs[i].values = f.outs[i].rows[:0], f.outs[i].values[:0]
		}
	}
	b.used = b.used[:0]
	for _, g := range b.live {
		g.rows, g.data = 0, g.data[:0]
	}
	b.live = b.live[:0]
	b.rowGroup, b.rowCall, b.late = b.rowGroup[:0], b.rowCall[:0], lateRange{}
	// Kernels come and go in a long recording; what has not been used lately must not be kept for ever.
	if len(b.groups) > 1<<14 {
		clear(b.groups)
		clear(b.recent[:])
	}
}
