package lab

import (
	"encoding/binary"
	"iter"
	"math"
	mathbits "math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline/access"
)

// A step is a call, reduced to the facts that a closure depends on. Objects and lanes are numbers.
type step struct {
	index           uint64 // call
	start, end      int64
	fn              *api.Func
	process, thread uint32
	is              stepFlags
	lane            int // that gets the task or is waited for, 0 for none
	graph           int // graph, task group, or stream that began the capture, if the task is captured, or if the call ends a capture or belongs to an update
	updated         int // graph whose update the host waits for
	event           int // event, notify or counter of a record, wait, reset or synchronization
	uses            []int
	made            []int
	ended           []int
	shows           []int // host-visible memory whose content comes with the call
	areas           []area
	flag            flag // of a value wait
}

type stepFlags uint8

const (
	stepOK       stepFlags = 1 << iota
	stepQueries            // it returns facts and changes nothing
	stepSignals            // it records or awaits a notify, or awaits a value in memory
	stepAwaited            // an earlier call sets what it waits for
	stepLacks              // its arguments are unknown
	stepByStream           // its task is captured, and graph is the stream that began the capture
	stepWaits              // a synchronization that has returned, or a poll that returned complete
)

// An area is memory that a call accesses. Aliases, such as two mappings for the same physical memory, share a root.
type area struct {
	object, root int
	kind         access.Kind
	exact        bool // lo and hi are offsets in the root; otherwise the whole root is meant
	lo, hi       uint64
	all          bool // a write overwrites the whole root
}

// A flag is a word in memory that a stream waits for, or that a call sets.
type flag struct {
	root   int
	offset uint64
	value  uint64
}

// slabSize is a slab's size before compression, in bytes.
const slabSize = 1 << 18

// timeUnit is the precision for times in a journal, in nanoseconds: starts are rounded down, ends up if the call waits. Other calls have no end there.
const timeUnit = 1 << 10

// A journal holds steps in compressed slabs, for passes in both directions. A program that repeats itself takes a few bytes a step.
type journal struct {
	funcs []*api.Func // by id
	size  int         // of a slab
	slabs []slab      // compressed
	open  slab        // the newest steps
	enc   *zstd.Encoder
	dec   *zstd.Decoder
	last  previous
	buf   slab
}

// previous has the values from the previous step in a slab to which a step is relative.
type previous struct {
	index  uint64
	start  int64
	newest int // object that a step has made
}

// near is the distance to the newest object up to which objects have relative numbers, which repeat with the program.
const near = 1 << 12

// relative returns the number for an object in a slab.
func (p *previous) relative(o int) uint64 {
	if d := p.newest - o; d >= 0 && d < near {
		return uint64(d)<<1 | 1
	}
	return uint64(o) << 1
}

// absolute reverses relative.
func (p *previous) absolute(n uint64) int {
	if n&1 == 1 {
		return p.newest - int(n>>1)
	}
	return int(n >> 1)
}

// made takes in the objects that a step has made.
func (p *previous) made(objects []int) {
	for _, o := range objects {
		p.newest = max(p.newest, o)
	}
}

// A slab has times apart, since they do not repeat.
type slab struct {
	facts, times []byte
	digest
}

func newJournal(m *api.Model, size int) (*journal, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(slabSize))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	j := &journal{size: size, enc: enc, dec: dec}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		for int(f.ID) >= len(j.funcs) {
			j.funcs = append(j.funcs, nil)
		}
		j.funcs[f.ID] = f
	}
	return j, nil
}

func (j *journal) close() { j.dec.Close() }

// add appends a step.
func (j *journal) add(s *step) {
	if len(j.open.facts) >= j.size {
		j.buf.facts = j.enc.EncodeAll(j.open.facts, j.buf.facts[:0])
		j.buf.times = j.enc.EncodeAll(j.open.times, j.buf.times[:0])
		j.slabs = append(j.slabs, slab{slices.Clone(j.buf.facts), slices.Clone(j.buf.times), j.open.digest})
		j.open = slab{facts: j.open.facts[:0], times: j.open.times[:0]}
	}
	if len(j.open.facts) == 0 {
		j.last = previous{}
	}
	start := s.start / timeUnit
	j.open.times = binary.AppendUvarint(j.open.times, uint64(start-j.last.start))
	if s.is&stepWaits != 0 {
		j.open.times = binary.AppendUvarint(j.open.times, uint64((s.end+timeUnit-1)/timeUnit-start))
	}
	b := j.open.facts
	number := func(v uint64) { b = binary.AppendUvarint(b, v) }
	list := func(l []int) {
		number(uint64(len(l)))
		for _, o := range l {
			number(j.last.relative(o))
		}
	}
	b = binary.AppendVarint(b, int64(s.index-j.last.index))
	j.last.index, j.last.start = s.index, start
	number(uint64(s.fn.ID))
	number(uint64(s.process))
	number(uint64(s.thread))
	b = append(b, byte(s.is))
	number(uint64(s.lane))
	number(uint64(s.graph))
	number(uint64(s.updated))
	number(uint64(s.event))
	for _, l := range [][]int{s.made, s.uses, s.ended, s.shows} {
		list(l)
		j.last.made(s.made)
	}
	number(uint64(len(s.areas)))
	for _, a := range s.areas {
		number(j.last.relative(a.object))
		number(j.last.relative(a.root))
		bits := byte(a.kind)
		if a.exact {
			bits |= 8
		}
		if a.all {
			bits |= 16
		}
		if b = append(b, bits); a.exact {
			number(a.lo)
			number(a.hi - a.lo)
		}
	}
	if s.is&stepSignals != 0 && s.event == 0 {
		number(uint64(s.flag.root))
		number(s.flag.offset)
		number(s.flag.value)
	}
	j.open.facts = b
	j.open.add(s)
}

// steps returns the steps in a slab. They share memory with the previous result.
func (j *journal) steps(slab int, to []step) ([]step, error) {
	in := j.open
	if slab < len(j.slabs) {
		var err error
		if j.buf.facts, err = j.dec.DecodeAll(j.slabs[slab].facts, j.buf.facts[:0]); err != nil {
			return nil, err
		}
		if j.buf.times, err = j.dec.DecodeAll(j.slabs[slab].times, j.buf.times[:0]); err != nil {
			return nil, err
		}
		in = j.buf
	}
	b, times := in.facts, in.times
	to = to[:0]
	var last previous
	number := func() uint64 {
		if len(b) > 0 && b[0] < 0x80 {
			v := b[0]
			b = b[1:]
			return uint64(v)
		}
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	time := func() int64 {
		v, n := binary.Uvarint(times)
		times = times[n:]
		return int64(v)
	}
	list := func(l []int) []int {
		l = l[:0]
		for range number() {
			l = append(l, last.absolute(number()))
		}
		return l
	}
	for len(b) > 0 {
		if len(to) < cap(to) {
			to = to[:len(to)+1]
		} else {
			to = append(to, step{})
		}
		s := &to[len(to)-1]
		by, n := binary.Varint(b)
		b = b[n:]
		last.index += uint64(by)
		last.start += time()
		s.index, s.start = last.index, last.start*timeUnit
		s.fn = j.funcs[number()]
		s.process, s.thread = uint32(number()), uint32(number())
		s.is, b = stepFlags(b[0]), b[1:]
		if s.end = s.start; s.is&stepWaits != 0 {
			s.end += time() * timeUnit
		}
		s.lane, s.graph, s.updated, s.event = int(number()), int(number()), int(number()), int(number())
		s.made = list(s.made)
		last.made(s.made)
		s.uses, s.ended, s.shows = list(s.uses), list(s.ended), list(s.shows)
		s.areas = s.areas[:0]
		for range number() {
			a := area{object: last.absolute(number()), root: last.absolute(number())}
			bits := b[0]
			b = b[1:]
			a.kind, a.exact, a.all = access.Kind(bits&7), bits&8 != 0, bits&16 != 0
			if a.hi = math.MaxUint64; a.exact {
				a.lo = number()
				a.hi = a.lo + number()
			}
			s.areas = append(s.areas, a)
		}
		if s.flag = (flag{}); s.is&stepSignals != 0 && s.event == 0 {
			s.flag = flag{int(number()), number(), number()}
		}
	}
	return to, nil
}

// forward iterates over the steps in order, without the slabs to skip. A step is valid until the next one.
func (j *journal) forward(skip func(*digest) bool) iter.Seq2[*step, error] {
	return j.iterate(false, skip)
}

// backward iterates over the steps from the last to the first.
func (j *journal) backward(skip func(*digest) bool) iter.Seq2[*step, error] {
	return j.iterate(true, skip)
}

func (j *journal) iterate(back bool, skip func(*digest) bool) iter.Seq2[*step, error] {
	return func(yield func(*step, error) bool) {
		var steps []step
		for k := range len(j.slabs) + 1 {
			if back {
				k = len(j.slabs) - k
			}
			if k < len(j.slabs) && skip(&j.slabs[k].digest) {
				continue
			}
			var err error
			if steps, err = j.steps(k, steps); err != nil {
				yield(nil, err)
				return
			}
			for i := range steps {
				if back {
					i = len(steps) - 1 - i
				}
				if !yield(&steps[i], nil) {
					return
				}
			}
		}
	}
}

// A digest describes the steps in a slab, so that most passes can skip it.
type digest struct {
	low, high uint64 // calls
	made, to  int    // first and last object that a step makes: objects are numbered in this order
	ended     few    // older objects that steps end or prepare
	wrote     few    // older memory that steps may write
	events    few    // that steps record
	threads   few    // that select a device
	special   bool   // some step is neither a task, a wait, a query, a selection, nor makes or ends objects
	lacks     bool   // the arguments of a launch are unknown
}

// add takes in a step.
func (d *digest) add(s *step) {
	if d.high == 0 {
		d.low = s.index
	}
	d.low, d.high = min(d.low, s.index), max(d.high, s.index+1)
	d.lacks = d.lacks || s.is&stepLacks != 0
	for _, o := range s.made {
		switch {
		case o%2 == 1:
			d.ended.add(o) // keys and tokens are numbered in an order of their own
		case d.made == 0:
			d.made, d.to = o, o
		default:
			d.to = max(d.to, o)
		}
	}
	older := func(f *few, o int) {
		if d.made == 0 || o < d.made || o > d.to || o%2 == 1 {
			f.add(o)
		}
	}
	for _, o := range s.ended {
		older(&d.ended, o)
	}
	for i := range s.areas {
		if a := &s.areas[i]; a.kind == access.Writes || a.kind == access.Names && access.Runs(s.fn) {
			older(&d.wrote, a.root)
		}
	}
	f := s.fn
	switch {
	case s.is&(stepSignals|stepByStream) != 0, s.graph != 0, s.updated != 0, f.Capture != api.NoCapture, len(s.shows) > 0, f.Initializes, s.resets(), f.Task == api.Reset:
		d.special = true
	case f.Task == api.Record:
		older(&d.events, s.event)
	case f.Task != api.NoTask, f.Sync != api.NoSync:
	case s.selects():
		d.threads.add(int(s.thread))
	case s.is&stepQueries != 0:
	case len(s.uses) > 0:
		for _, o := range s.uses {
			older(&d.ended, o)
		}
	case len(s.made) == 0:
		d.special = true // a setting
	}
}

// few is a small set.
type few struct {
	list []int
	many bool // it has too many elements
}

// any reports whether an element may have a property.
func (f *few) any(is func(int) bool) bool { return f.many || slices.ContainsFunc(f.list, is) }

func (f *few) add(v int) {
	const most = 64
	switch {
	case f.many || slices.Contains(f.list, v):
	case len(f.list) == most:
		f.list, f.many = nil, true
	default:
		f.list = append(f.list, v)
	}
}

// bits is a call set.
type bits []uint64

func (b bits) has(n uint64) bool { return n/64 < uint64(len(b)) && b[n/64]>>(n%64)&1 != 0 }

// set adds a call. It returns false if the set has it.
func (b *bits) set(n uint64) bool {
	if b.has(n) {
		return false
	}
	for uint64(len(*b)) <= n/64 {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
	return true
}

// any reports whether the set has a call from a range.
func (b bits) any(from, to uint64) bool {
	for n := from; n < to && n/64 < uint64(len(b)); n++ {
		if n%64 == 0 && b[n/64] == 0 {
			n += 63
		} else if b.has(n) {
			return true
		}
	}
	return false
}

// last returns the last call, 0 for an empty set.
func (b bits) last() uint64 {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return uint64(i)*64 + 63 - uint64(mathbits.LeadingZeros64(b[i]))
		}
	}
	return 0
}
