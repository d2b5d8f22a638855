package format

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/acltrace/acltrace/format/column"
)

const noCall = ^uint64(0)

const (
	oneRow      slot = 1 << 62
	severalRows slot = 1 << 63
)

// link verifies that the tables agree, and prepares for reach.
func (b *block) link(w want) error {
	t := &b.rowIndex
	t.size, t.callsOnly, t.random = batchCalls, b.noArgs && b.noData, false
	b.plain = b.like()
	if !t.callsOnly {
		if w.columns&FuncColumn != 0 {
			if err := b.checkFuncs(); err != nil {
				return err
			}
		}
		if !b.noData {
			if err := b.checkData(); err != nil {
				return err
			}
		}
	}
	if w.random || len(b.sorted) > 0 {
		b.randomize()
	} else {
		b.rewind()
	}
	return nil
}

// randomize prepares for random access: the batch will be the whole block.
func (b *block) randomize() {
	b.rowIndex.random, b.rowIndex.size = true, max(b.n, 1)
	b.rewind()
}

// narrow bounds the rows in a ring by the number of calls that are read one after another. Otherwise a block with the calls of
// two threads would fill a ring for each call.
func (b *block) narrow(calls int) {
	last := uint(1)<<(bits.Len(uint(calls))-1) - 1
	for _, f := range b.seen {
		f.args.last, f.args.end = min(f.args.last, last), 0
	}
	for _, g := range b.groups {
		g.words.last, g.words.end = min(g.words.last, last), 0
	}
}

// ordered reports if the calls are in the order of their start: none begins before the end of the previous one.
func (b *block) ordered() bool { return b.calls[callStart].Below(1<<63, b.n) }

// checkFuncs verifies that each function has as many rows as calls.
func (b *block) checkFuncs() error {
	t := &b.rowIndex
	t.counts = resize(t.counts, len(b.funcs))
	clear(t.counts)
	if !b.calls[callFunc].Count(t.counts, b.n) {
		return errBlock
	}
	calls := 0
	for _, f := range b.seen {
		if int(t.counts[f.id]) != f.rows {
			return errBlock
		}
		calls += f.rows
	}
	if calls != b.n {
		return errBlock // the block has no table for this function
	}
	return nil
}

// checkData verifies that each group has the number of rows in the row table, and that these belong to existing calls.
// It sorts the rows if they are not in the order of their calls.
func (b *block) checkData() error {
	t := &b.rowIndex
	t.counts = resize(t.counts, len(b.groups))
	clear(t.counts)
	if !b.group.Count(t.counts, b.rows) {
		return errBlock
	}
	for i, g := range b.groups {
		if int(t.counts[i]) != g.rows {
			return errBlock
		}
	}
	if last, ok := b.owner.Ascending(b.rows); ok && last < uint64(b.n) {
		return nil
	}
	highest, sorted := uint64(0), true
	for _, owner := range b.ownersOf() {
		switch {
		case owner >= uint64(b.n):
			if b.first+owner >= b.first {
				return errBlock // the call does not exist yet
			}
		case owner < highest:
			sorted = false
		default:
			highest = owner
		}
	}
	if !sorted {
		b.sortData()
	}
	return nil
}

// sortData sorts rows that are not in the order of their calls.
func (b *block) sortData() {
	from := make([]uint32, b.n+1)
	for _, c := range b.owners {
		if c < uint64(b.n) {
			from[c+1]++
		}
	}
	for i := range b.n {
		from[i+1] += from[i]
	}
	b.sorted = resize(b.sorted, int(from[b.n]))
	for i, c := range b.owners {
		if c < uint64(b.n) {
			b.sorted[from[c]] = uint32(i)
			from[c]++
		}
	}
}

// ownersOf returns the call of each data row, counted from first.
func (b *block) ownersOf() []uint64 {
	if len(b.owners) < b.rows {
		b.owners = resize(b.owners, b.rows)
		column.Fill(b.owners, &b.owner, 0)
	}
	return b.owners
}

// slotsOf returns the slot of each data row.
func (b *block) slotsOf() []slot {
	if len(b.slots) < b.rows {
		b.slots = resize(b.slots, b.rows)
		column.Fill(b.slots, &b.group, 0)
		pos := make([]uint32, len(b.groups))
		for i, g := range b.slots {
			b.slots[i] = g<<32 | slot(pos[g])
			pos[g]++
		}
	}
	return b.slots
}

// late reports if row i belongs to a call in an earlier chunk.
func (b *block) late(i int) bool { return b.ownersOf()[i] >= uint64(b.n) }

// rewind returns to the beginning of the block.
func (b *block) rewind() {
	t := &b.rowIndex
	t.at, t.fn, t.data, t.last, t.rows, t.next, t.held = 0, t.fn[:0], t.data[:0], b.t0, 0, 0, 0
	for _, f := range b.seen {
		f.next, f.end = 0, 0
	}
	b.turns = resize(b.turns, len(b.groups))
	for i, g := range b.groups {
		t := &b.turns[i]
		t.next, t.end, t.time, t.data[0] = 0, 0, g.like.Time, g.like
		g.words.end = 0 // makes data[0] refill its ring
	}
}

// reach makes the batch contain call i, and returns the call's position in it. It is cheap for consecutive calls.
func (b *block) reach(i int) int {
	t := &b.rowIndex
	if i < t.at {
		b.rewind()
	}
	for i >= t.at+len(t.fn) {
		b.advance()
	}
	return i - t.at
}

// advance moves the batch forward.
func (b *block) advance() {
	t := &b.rowIndex
	t.at += len(t.fn)
	n := min(t.size, b.n-t.at)
	if t.random {
		t.fn, t.start, t.end = resize(t.fn, n), resize(t.start, n), resize(t.end, n)
	} else {
		t.fn, t.start, t.end = t.here.fn[:n], t.here.start[:n], t.here.end[:n]
	}
	column.Fill(t.fn, &b.calls[callFunc], t.at)
	t.last = column.Times(t.start, t.end, &b.calls[callStart], &b.calls[callDur], t.at, t.last)
	t.differ = false
	for k := range t.rest {
		v := &b.calls[callThread+k]
		if _, same := v.Constant(); same {
			t.rest[k] = t.rest[k][:0]
			continue
		}
		t.rest[k] = resize(t.rest[k], n)
		column.Fill(t.rest[k], v, t.at)
		t.differ = true
	}
	if t.callsOnly || !t.random {
		return
	}
	t.row = resize(t.row, n)
	rows := t.row[:len(t.fn)]
	for i, id := range t.fn {
		f := b.funcs[id]
		rows[i] = uint32(f.next)
		f.next++
	}
	if b.noData || b.rows == 0 {
		return
	}
	t.data, t.order = resize(t.data, n), t.order[:0]
	clear(t.data)
	b.indexData()
}

// indexData assigns data rows to the block's calls, which are all in the batch.
func (b *block) indexData() {
	owners, slots := b.ownersOf(), b.slotsOf()
	if len(b.sorted) > 0 {
		for _, row := range b.sorted {
			b.rowIndex.add(owners[row], slots[row])
		}
		return
	}
	for i, k := range owners {
		if k < uint64(b.n) {
			b.rowIndex.add(k, slots[i])
		}
	}
}

// add rowIndex one more row to a call.
func (t *rowIndex) add(k uint64, s slot) {
	switch was := t.data[k]; {
	case was == 0:
		t.data[k] = s | oneRow
	case was&oneRow != 0:
		t.data[k] = severalRows | 2<<32 | slot(len(t.order))
		t.order = append(t.order, was&^oneRow, s)
	default:
		t.data[k] += 1 << 32
		t.order = append(t.order, s)
	}
}

// each passes the matching calls to yield (all for nil) until yield returns false; each then returns false too. A call
// is stored in the block's memory and valid until the next one.
func (b *block) each(m *matcher, yield func(*Call, error) bool) bool {
	t := &b.rowIndex
	b.rewind()
	t.owner = noCall
	if !t.random && !b.noData && b.rows > 0 {
		b.pass(nil, 0)
	}
	for at := 0; at < b.n; at += len(t.fn) {
		b.advance()
		var going bool
		switch {
		case t.callsOnly:
			going = b.yieldPlain(m, yield)
		case t.random:
			going = b.yieldRandom(m, yield)
		default:
			going = b.yieldOrdered(m, yield)
		}
		if !going {
			return false
		}
	}
	return true
}

// yieldPlain is each for a batch without arguments and data.
func (b *block) yieldPlain(m *matcher, yield func(*Call, error) bool) bool {
	t, c := &b.rowIndex, &b.plain
	index := b.first + uint64(t.at)
	for k, id := range t.fn {
		if m != nil && !m.fits(b, k) {
			continue
		}
		c.Func, c.Index, c.Start, c.End = id, index+uint64(k), t.start[k], t.end[k]
		if t.differ {
			t.setRest(c, k)
		}
		if !yield(c, nil) {
			return false
		}
	}
	return true
}

// yieldRandom is each for a batch with random access.
func (b *block) yieldRandom(m *matcher, yield func(*Call, error) bool) bool {
	for k := range b.rowIndex.fn {
		if m != nil && !m.fits(b, k) {
			continue
		}
		if c := b.call(k); (m == nil || m.holds(c)) && !yield(c, nil) {
			return false
		}
	}
	return true
}

// yieldOrdered is each for a batch whose data is in the order of its calls.
func (b *block) yieldOrdered(m *matcher, yield func(*Call, error) bool) bool {
	t := &b.rowIndex
	if m == nil {
		for i := range t.fn {
			if !yield(b.make(uint(i)), nil) {
				return false
			}
		}
		return true
	}
	for i, id := range t.fn {
		switch {
		case m.funcs != nil && !m.funcs[id]: // no row of this function is requested
		case !m.fits(b, i):
			b.funcs[id].next++
		default:
			if c := b.make(uint(i)); m.holds(c) && !yield(c, nil) {
				return false
			}
		}
	}
	return true
}

// make returns the call at a batch position. Its function's earlier calls are already counted.
func (b *block) make(i uint) *Call {
	t := &b.rowIndex
	id := t.here.fn[i%batchCalls]
	f := b.funcs[id]
	row := f.next
	f.next = row + 1
	if row >= f.end {
		f.refill(b, row)
		f.end = f.args.end
	}
	c := f.at(row)
	k := uint64(t.at) + uint64(i)
	index, start := b.first+k, t.here.start[i%batchCalls]
	c.Index, c.Start, c.End = index, start, t.here.end[i%batchCalls]
	if t.differ {
		t.setRest(c, int(i))
	}
	if t.owner != k {
		if t.owner < k {
			b.pass(nil, k)
		}
		if t.owner != k {
			c.Data = nil
			return c
		}
	}
	if b.dataOf != nil && !b.dataOf[id] {
		c.Data = nil
		return c
	}
	next := t.next
	in := t.groups[next]
	g := &b.turns[in]
	p := g.next
	g.next = p + 1
	if p >= g.end {
		g.refill(b.groups[in])
	}
	d := &g.data[0]
	d.Call, d.Time = index, g.time+start
	point(&d.Bytes, g.content, uint(p&g.last)*uint(g.stride))
	if g.addrs != nil {
		d.Addr = g.addrs[p%ringRows]
	}
	if g.more {
		b.groups[in].set(d, uint(p), start)
	}
	c.Data = g.data[:]
	owner := t.owners[next+1]
	t.next, t.owner = next+1, owner
	if owner <= k || owner >= uint64(b.n) { // not a later call of the block
		b.pass(c, k)
	}
	return c
}

// pass moves to the next data row that belongs to the block's k-th call or a later one. The k-th call's rows are
// added to c, unless that is nil.
func (b *block) pass(c *Call, k uint64) {
	t := &b.rowIndex
	for t.next < t.held || b.holdRows() {
		owner, in := t.owners[t.next], t.groups[t.next]
		g := &b.turns[in]
		if owner >= k && owner < uint64(b.n) {
			if owner > k || c == nil {
				t.owner = owner
				return
			}
			b.keep(c, in, uint(g.next))
		}
		g.next++
		t.next++
	}
	t.owner = noCall
}

// holdRows loads the groups and owners of the next data rows. It returns false if there are none.
func (b *block) holdRows() bool {
	t := &b.rowIndex
	t.rows += int(t.held)
	t.next, t.held = 0, uint(min(batchCalls, b.rows-t.rows))
	column.Fill(t.groups[:t.held], &b.group, t.rows)
	column.Fill(t.owners[:t.held], &b.owner, t.rows)
	t.owners[t.held] = noCall
	return t.held > 0
}

// keep adds another data row to a call's rows. The content stays in its table's ring, unless the ring turns.
func (b *block) keep(c *Call, in uint32, p uint) {
	if len(c.Data) == 1 {
		b.arena, b.many, b.rescued = b.arena[:0], append(b.many[:0], c.Data[0]), 0
	}
	if !b.groups[in].words.holds(p) {
		for ; b.rescued < len(b.many); b.rescued++ {
			b.rescue(&b.many[b.rescued])
		}
	}
	b.many = append(b.many, b.dataAt(slot(in)<<32|slot(p), c.Index, c.Start)[0])
	c.Data = b.many
}

// copied appends a copy of a data row, with its content in the arena.
func (b *block) copied(all []Data, d *Data) []Data {
	all = append(all, *d)
	b.rescue(&all[len(all)-1])
	return all
}

// rescue moves the content of a data row to the arena.
func (b *block) rescue(d *Data) {
	if len(d.Bytes) > 0 {
		at := len(b.arena)
		b.arena = append(b.arena, d.Bytes...)
		d.Bytes = b.arena[at:len(b.arena):len(b.arena)]
	}
}

// plainCall returns the call at a batch position, without arguments and data.
func (b *block) plainCall(k int) *Call {
	t, c := &b.rowIndex, &b.plain
	c.Func = t.fn[k]
	b.tie(c, k)
	return c
}

// tie sets the fields of a call that do not depend on its function.
func (b *block) tie(c *Call, k int) {
	t := &b.rowIndex
	c.Index, c.Start, c.End = b.first+uint64(t.at+k), t.start[k], t.end[k]
	t.setRest(c, k)
}

// setRest sets the fields that vary from call to call.
func (t *rowIndex) setRest(c *Call, k int) {
	if rest := t.rest[0]; len(rest) > 0 {
		c.Thread = uint32(rest[k])
	}
	if rest := t.rest[1]; len(rest) > 0 {
		c.Flags = CallFlags(rest[k])
	}
	if rest := t.rest[2]; len(rest) > 0 {
		c.Ret = rest[k]
	}
}

// call returns the call at a batch position, in a block with random access. It is valid until
// the next one.
func (b *block) call(k int) *Call {
	t := &b.rowIndex
	if t.callsOnly {
		return b.plainCall(k)
	}
	c := b.funcs[t.fn[k]].call(b, uint(t.row[k]))
	b.tie(c, k)
	c.Data = nil
	if k < len(t.data) && (b.dataOf == nil || b.dataOf[c.Func]) {
		switch s := t.data[k]; {
		case s&oneRow != 0:
			c.Data = b.dataAt(s, c.Index, c.Start)
		case s != 0:
			b.many, b.arena = b.many[:0], b.arena[:0]
			for _, s := range t.order[uint32(s):][:s&^severalRows>>32] {
				b.many = b.copied(b.many, &b.dataAt(s, c.Index, c.Start)[0])
			}
			c.Data = b.many
		}
	}
	return c
}

// thread returns the thread of the call at a batch position.
func (b *block) thread(k int) uint32 {
	if rest := b.rowIndex.rest[0]; len(rest) > 0 {
		return uint32(rest[k])
	}
	return b.plain.Thread
}

// like returns a call with the values that all calls of the block share.
func (b *block) like() Call {
	if b.n == 0 {
		return Call{}
	}
	return Call{Thread: uint32(b.calls[callThread].At(0)), Flags: CallFlags(b.calls[callFlags].At(0)), Ret: b.calls[callRet].At(0)}
}

// dataAt returns the row in a slot as all the data of a call. It is valid until its table's next row.
func (b *block) dataAt(s slot, call uint64, start int64) []Data {
	in, p := s&^oneRow>>32, uint(uint32(s))
	g, t := b.groups[in], &b.turns[in]
	if !g.words.holds(p) {
		g.refill(p)
		t.take(g)
	}
	d := &t.data[0]
	d.Call, d.Time = call, t.time+start
	point(&d.Bytes, t.content, p&uint(t.last)*uint(t.stride))
	if t.addrs != nil {
		d.Addr = t.addrs[p%ringRows]
	}
	if t.more {
		g.set(d, p, start)
	}
	return t.data[:]
}

// point makes a slice begin a number of bytes after a base. Its length stays.
func point[T any](s *[]T, to unsafe.Pointer, bytes uint) {
	*(*unsafe.Pointer)(unsafe.Pointer(s)) = unsafe.Add(to, bytes)
}

// datum returns row i of data. It is valid until the next one.
func (b *block) datum(i int) *Data {
	owner, start := b.ownersOf()[i], b.t0
	if owner < uint64(b.n) {
		start = b.rowIndex.start[b.reach(int(owner))]
	}
	b.arena = b.arena[:0]
	b.many = b.copied(b.many[:0], &b.dataAt(b.slotsOf()[i], b.first+owner, start)[0])
	return &b.many[0]
}

// lateCalls returns the range of calls in earlier chunks whose data the block holds.
func (b *block) lateCalls() (late lateRange) {
	for i := range b.rows {
		if b.late(i) {
			late.add(b.first + b.ownersOf()[i])
		}
	}
	return late
}

// call returns the call in a row, valid until the next one.
func (f *funcBlock) call(b *block, row uint) *Call {
	if !f.args.holds(row) {
		f.refill(b, row)
	}
	return f.at(row)
}

// at returns the call in a row of the window, without thread, flags and times.
func (f *funcBlock) at(row uint) *Call {
	c := &f.one
	point(&c.Args, f.ring, row&f.args.last*f.size)
	if len(f.wrote) > 0 {
		c.Outs = f.wrote[row%ringRows]
	}
	return c
}

// refill makes the ring contain a row.
func (f *funcBlock) refill(b *block, row uint) {
	w := &f.args
	if w.end == 0 {
		w.begin()
		f.one = b.plain
		f.one.Func = f.id
		f.ring, f.size, f.wrote = nil, 0, f.wrote[:0]
		if !b.noArgs && w.width > 0 {
			f.one.Args = w.slice(0)
			f.ring, f.size = unsafe.Pointer(unsafe.SliceData(w.ring)), uint(w.width)*8
		}
		if len(f.outs) > 0 {
			f.beginOuts()
		}
	}
	at, n := w.refill(row)
	if len(f.outs) > 0 {
		f.storeOuts(n, at)
	}
}

// beginOuts prepares the outputs of the calls in the ring. If all calls have all of them, only the values change later.
func (f *funcBlock) beginOuts() {
	width := len(f.outs)
	f.wrote, f.given = resize(f.wrote, ringRows), resize(f.given, ringRows*width)
	const even = unsafe.Sizeof(Out{})%8 == 0
	f.all = even && !slices.ContainsFunc(f.outs, func(o outBlock) bool { return o.bitmap != nil })
	for i := range f.wrote {
		f.wrote[i] = f.given[i*width:][:width:width]
		for k := range f.outs {
			f.wrote[i][k].Param = f.outs[k].param
		}
	}
}

// storeOuts sets the outputs of n calls, starting with a given row.
func (f *funcBlock) storeOuts(n, row int) {
	var values [ringRows]uint64
	width, at := len(f.outs), row%ringRows
	if f.all {
		const words = int(unsafe.Sizeof(Out{}) / 8)
		for k := range f.outs {
			first := &f.given[at*width+k].Value
			f.outs[k].values.Scatter(unsafe.Slice(first, ((n-1)*width)*words+1), words*width, row, n)
		}
		return
	}
	wrote := f.wrote[at : at+n]
	for i := range wrote {
		wrote[i] = f.given[(at+i)*width:][:0:width]
	}
	for k := range f.outs {
		o := &f.outs[k]
		column.Fill(values[:len(wrote)], &o.values, row)
		for i := range wrote {
			if o.has(uint(row + i)) {
				wrote[i] = append(wrote[i], Out{o.param, values[i]})
			}
		}
	}
	for i := range wrote {
		if len(wrote[i]) == 0 {
			wrote[i] = nil
		}
	}
}

func (o *outBlock) has(row uint) bool { return o.bitmap == nil || o.bitmap[row/8]>>(row%8)&1 != 0 }

func (w *words) reset(width, n int) {
	w.first = resize(w.first, width)
	clear(w.first)
	w.vary = w.vary[:0]
	w.width, w.n, w.end = width, n, 0
	rows := ringRows
	for rows > ringLeast && rows*width > ringWords {
		rows /= 2
	}
	w.last = uint(rows) - 1
}

// least is the lowest field that may follow: varying columns come by ascending field.
func (w *words) least() int {
	if k := len(w.vary); k > 0 {
		return w.vary[k-1].at + 1
	}
	return 0
}

// add decodes a column.
func (b *block) add(w *words, c column.Column) error {
	at := int(c.Field)
	if at < w.least() {
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

// slice returns the row at a position of the ring.
func (w *words) slice(i int) []uint64 { return w.ring[i*w.width:][:w.width:w.width] }

// holds reports if row i is in the ring.
func (w *words) holds(i uint) bool { return w.end == (i|w.last)+1 }

// refill makes the ring contain row i, and returns the first row and the length of the loaded window.
func (w *words) refill(i uint) (at, n int) {
	at = int(i &^ w.last)
	n = min(int(w.last)+1, w.n-at)
	w.end = (i | w.last) + 1
	for k := range w.vary {
		v := &w.vary[k]
		if n == 1 {
			w.ring[v.at] = v.values.At(at)
		} else {
			v.values.Scatter(w.ring[v.at:], w.width, at, n)
		}
	}
	return at, n
}

// begin makes the ring, with the constant words.
func (w *words) begin() {
	w.ring = resize(w.ring, min(int(w.last)+1, w.n)*w.width)
	for rest := w.ring; len(rest) > 0; {
		rest = rest[copy(rest, w.first):]
	}
}

// refill makes the ring contain the row before next.
func (t *groupTurn) refill(g *groupBlock) {
	g.refill(uint(t.next - 1))
	t.end = uint32(g.words.end)
	t.take(g)
}

// take makes the data refer to the ring.
func (t *groupTurn) take(g *groupBlock) {
	w := &g.words
	t.more, t.last, t.stride, t.content, t.addrs = g.more, uint32(w.last), 0, nil, nil
	if g.varies[dataAddr] {
		t.addrs = &g.addrs
	}
	if w.width > 0 {
		content := column.WordBytes(w.ring)
		t.stride, t.content = uint32(w.width)*8, unsafe.Pointer(unsafe.SliceData(content))
		t.data[0].Bytes = content[:g.like.Len:g.like.Len]
	}
}

// refill makes the ring contain a row.
func (g *groupBlock) refill(p uint) {
	w := &g.words
	if w.end == 0 {
		w.begin()
		g.more = g.lens != nil
		for k, varies := range g.varies {
			g.more = g.more || varies && k != dataAddr
		}
	}
	at, n := w.refill(p)
	if g.varies[dataTime] {
		column.Fill(g.times[at%ringRows:][:n], &g.vary[dataTime], at)
	}
	if g.varies[dataAddr] {
		column.Fill(g.addrs[at%ringRows:][:n], &g.vary[dataAddr], at)
	}
}

// set sets the varying properties of a row in the ring, other than address and word content.
func (g *groupBlock) set(d *Data, p uint, start int64) {
	if g.varies[dataTime] {
		d.Time = g.times[p%ringRows] + start
	}
	for _, k := range [...]int{dataKind, dataItem, dataBlob, dataLen} {
		if g.varies[k] {
			set(d, k, g.vary[k].At(int(p)))
		}
	}
	if g.lens != nil {
		d.Bytes = g.string(int(p))
	}
}

// string returns the content of a row in a table without words.
func (g *groupBlock) string(p int) []byte {
	if g.lens == nil || g.lens[p] == 0 {
		return nil
	}
	at := uint64(g.starts[p])
	return g.text[at : at+g.lens[p] : at+g.lens[p]]
}

// fits reports if the call at a position of a block's batch matches, judged without its arguments.
func (m *matcher) fits(b *block, i int) bool {
	t := &b.rowIndex
	if m.funcs != nil && !m.funcs[t.fn[i]] || m.threads != nil && !m.threads[b.thread(i)] {
		return false
	}
	return t.start[i] < m.To && (m.From <= 0 || t.end[i] >= m.From)
}

// holds reports if a call that fits matches.
func (m *matcher) holds(c *Call) bool {
	return (m.Handles == nil || m.names(c)) && (m.Task == nil || m.made(c))
}

// made reports if the call made the task.
func (m *matcher) made(c *Call) bool {
	return slices.Contains(c.Outs, Out{TaskParam, uint64(m.Task.Stream)<<32 | uint64(m.Task.Task)})
}
