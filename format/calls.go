package format

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/acltrace/acltrace/internal/minheap"
)

// Calls iterates over the calls that match f in file order. In it, the calls of a thread are in the order
// of their start, except that a call follows the calls that it encloses. The call and all its parts must not be changed and are
// reused for the next step: Clone calls to keep them. Damaged chunks are left out and listed by Damage; an error
// comes only from the file system, and ends the iteration. Chunks are decoded ahead on other processors; Calls holds
// only a few of them.
func (r *Reader) Calls(f *Filter) iter.Seq2[*Call, error] { return r.callsAhead(f, maxAhead) }

// callsAhead is Calls with a limit of blocks that are decoded ahead.
func (r *Reader) callsAhead(f *Filter, ahead int) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		m := newMatcher(f, r.schema)
		l := r.newLoader(m, ahead)
		defer l.close()
		for {
			b, _, err := l.next()
			if err != nil {
				yield(nil, err)
			}
			if b == nil {
				return
			}
			if !b.passOn(m, yield) {
				return
			}
		}
	}
}

// passOn passes the matching calls to yield, and releases the block. It returns false if yield did.
func (b *block) passOn(m *matcher, yield func(*Call, error) bool) bool {
	defer release(b)
	if m.all() {
		m = nil
	}
	return b.each(m, yield)
}

// cursor is a block whose calls are passed on by start time.
type cursor struct {
	b     *block
	order []uint32
	index int // index of the chunk: calls with one start time are in file order
}

func (c *cursor) start() int64 { return c.b.rowIndex.start[c.order[0]] }

// Before implements minheap.Ordered.
func (c *cursor) Before(o *cursor) bool {
	return cmp.Or(cmp.Compare(c.start(), o.start()), c.index-o.index) < 0
}

// CallsByStart is Calls in the order of Start. It holds only chunks that overlap in time.
func (r *Reader) CallsByStart(f *Filter) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		m := newMatcher(f, r.schema)
		l := r.newLoader(m, maxAhead)
		defer l.close()
		chunks := l.chunks
		// earliest[i] is the earliest start in chunk i and all later ones: earlier calls can be passed on.
		earliest := make([]int64, len(chunks)+1)
		earliest[len(chunks)] = math.MaxInt64
		for i := len(chunks) - 1; i >= 0; i-- {
			earliest[i] = min(earliest[i+1], chunks[i].entry.TMin)
		}
		var open minheap.Heap[*cursor]
		defer func() {
			for open.Len() > 0 {
				release(open.Pop().b)
			}
		}()
		next := 0
		for {
			for next < len(chunks) && (open.Len() == 0 || open.Min().start() >= earliest[next]) {
				b, at, err := l.next()
				if err != nil {
					yield(nil, err)
					return
				}
				if b == nil {
					next = len(chunks)
					break
				}
				next = at + 1
				if open.Len() == 0 && b.ordered() && chunks[at].entry.TMax <= earliest[next] {
					if !b.passOn(m, yield) {
						return
					}
				} else if c := r.cursor(b, m, at); c != nil {
					open.Push(c)
				}
			}
			if open.Len() == 0 {
				return
			}
			// Pass on calls of the first block until another block or a later chunk may be earlier.
			c := open.Pop()
			limit := earliest[next]
			if open.Len() > 0 {
				limit = min(limit, open.Min().start())
			}
			n, starts := 1, c.b.rowIndex.start
			for n < len(c.order) && starts[c.order[n]] < limit {
				n++
			}
			for _, k := range c.order[:n] {
				if !yield(c.b.call(int(k)), nil) {
					release(c.b)
					return
				}
			}
			if c.order = c.order[n:]; len(c.order) > 0 {
				open.Push(c)
			} else {
				release(c.b)
			}
		}
	}
}

// cursor returns nil if no call in the block matches.
func (r *Reader) cursor(b *block, m *matcher, index int) *cursor {
	order := make([]uint32, 0, b.n)
	sorted := true
	b.randomize()
	if b.n > 0 {
		b.reach(0) // makes the batch hold all calls
	}
	starts := b.rowIndex.start
	for i := range b.n {
		if m.fits(b, i) && (m.Handles == nil && m.Task == nil || m.holds(b.call(i))) {
			if n := len(order); n > 0 && starts[i] < starts[order[n-1]] {
				sorted = false
			}
			order = append(order, uint32(i))
		}
	}
	if len(order) == 0 {
		release(b)
		return nil
	}
	if !sorted {
		slices.SortStableFunc(order, func(i, j uint32) int { return cmp.Compare(starts[i], starts[j]) })
		runs := 1
		for i, k := range order[1:] {
			if k < order[i] {
				runs += 2 // back, and forth again
			}
		}
		b.narrow(max(len(order)/runs, 1))
	}
	return &cursor{b, order, index}
}

// learn reads the events chunks that no summary describes, once.
func (r *Reader) learn() error {
	r.learnOnce.Do(func() {
		r.learned = make([]ChunkInfo, len(r.events))
		b := r.block()
		defer release(b)
		for i := range r.events {
			c, info := &r.events[i], &r.learned[i]
			*info = c.info
			if info.Known {
				continue
			}
			ok, err := r.load(b, c, want{noArgs: true})
			if err != nil {
				r.learnErr = err
				return
			}
			if !ok {
				info.Calls = 0
				continue
			}
			info.First, info.Calls, info.rows, info.late = b.first, uint64(b.n), uint64(b.rows), b.lateCalls()
		}
	})
	return r.learnErr
}

// Pieces returns how many pieces of the program's data are in the trace: arguments, strings, copied data, among
// the calls or in blobs.
func (r *Reader) Pieces() (n uint64, err error) {
	err = r.learn()
	for i := range r.learned {
		n += r.learned[i].rows
	}
	return n, err
}

// find returns the chunk with the call.
func (r *Reader) find(call uint64) (int, error) {
	if err := r.learn(); err != nil {
		return 0, err
	}
	for i := range r.learned {
		if c := &r.learned[i]; call-c.First < c.Calls {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s: call %d is not in the trace", r.file.Path(), call)
}

// with loads chunk i, unless it was the last one loaded, and passes it to use.
func (r *Reader) with(i int, use func(*block)) error {
	r.mu.Lock()
	b, at := r.last, r.lastAt
	r.last, r.lastAt = nil, -1
	r.mu.Unlock()
	if b == nil || at != i {
		if b == nil {
			b = r.block()
		}
		ok, err := r.load(b, &r.events[i], want{columns: AllColumns, random: true})
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s: events chunk %d is damaged", r.file.Path(), r.events[i].entry.Seq)
		}
	}
	use(b)
	r.mu.Lock()
	r.last, r.lastAt = b, i
	r.mu.Unlock()
	return nil
}

// Call returns the call with the index, with all data in its chunk.
func (r *Reader) Call(index uint64) (*Call, error) {
	i, err := r.find(index)
	if err != nil {
		return nil, err
	}
	var c Call
	found := false
	err = r.with(i, func(b *block) {
		if found = index-b.first < uint64(b.n); found { // otherwise the summary is wrong about the chunk
			c = *b.call(b.reach(int(index - b.first))).Clone()
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: call %d is not in the trace", r.file.Path(), index)
	}
	return &c, err
}

// Data iterates over data in file order. The data and its bytes are reused for the next
// step. Damage and errors are as for Calls.
func (r *Reader) Data(f *DataFilter) iter.Seq2[*Data, error] {
	return func(yield func(*Data, error) bool) {
		if f == nil {
			f = &DataFilter{}
		}
		b := r.block()
		defer release(b)
		w := want{noArgs: true}
		if !f.Late { // data times are relative to the call's start, unless that is in another chunk
			w.columns = AllColumns
		}
		for k := range r.events {
			c := &r.events[k]
			if c.info.Known && !f.chunk(&c.info) {
				continue
			}
			ok, err := r.load(b, c, w)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := 0; ok && i < b.rows; i++ {
				if f.Late && !b.late(i) {
					continue
				}
				d := b.datum(i)
				if d.Call < f.From || f.To != 0 && d.Call >= f.To {
					continue
				}
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// DataByCall returns copies of the data that f and keep select, by call.
func (r *Reader) DataByCall(f *DataFilter, keep func(*Data) bool) (map[uint64][]Data, error) {
	byCall := map[uint64][]Data{}
	for d, err := range r.Data(f) {
		if err != nil {
			return nil, err
		}
		if keep(d) {
			k := *d
			k.Bytes = slices.Clone(d.Bytes)
			byCall[d.Call] = append(byCall[d.Call], k)
		}
	}
	return byCall, nil
}

// Counts returns the totals, from the summaries if possible, otherwise by reading calls.
func (r *Reader) Counts() (*Counts, error) {
	r.countsOnce.Do(func() {
		total := sums{}
		for _, f := range r.sums {
			total.add(*f)
		}
		if r.countsErr = r.count(total, func(c *eventChunk) bool { return !c.counted }); r.countsErr != nil {
			return
		}
		r.counts = total.counts()
		for _, g := range r.gaps {
			r.counts.GapCalls += g.Calls
		}
	})
	return r.counts, r.countsErr
}

// count adds up the calls of some chunks.
func (r *Reader) count(total sums, which func(*eventChunk) bool) error {
	b := r.block()
	defer release(b)
	for i := range r.events {
		c := &r.events[i]
		if c.entry.Records == 0 || !which(c) {
			continue
		}
		ok, err := r.load(b, c, want{columns: AllColumns, noArgs: true, noData: true})
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for i := range b.n {
			id := b.calls[callFunc].At(i)
			one := FuncCount{Func: uint16(id), Calls: 1, Time: b.calls[callDur].At(i)}
			if CallFlags(b.calls[callFlags].At(i))&Unfinished != 0 {
				one.Unfinished = 1
			} else if r.schema.Func(uint16(id)).Failed(b.calls[callRet].At(i)) {
				one.Failed = 1
			}
			total.add(one)
		}
	}
	return nil
}
