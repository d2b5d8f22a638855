package access

import (
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// A Flow follows addresses and content from allocation to allocation. It determines the allocations that a kernel can reach: those that its
// arguments name, and those whose addresses earlier calls have copied into reachable memory.
//
// Its memory grows with the number of allocations in a trace, and by little with those that the caller forgets.
type Flow struct {
	contents timeline.ByObject[*content]
	captured []*timeline.Object // memory that graph tasks access, in capture order
	inGraph  map[*timeline.Object]bool
	links    uint64 // see Links
	round    uint64 // searches by reach
	guesses  guesses
}

// content describes an allocation: the bytes that the device has written, and the objects whose addresses it holds.
type content struct {
	whole   bool   // any byte may have been written
	written []Span // otherwise: sorted, without overlaps
	points  map[*timeline.Object]bool
	round   uint64 // latest search that found it
	guessed []Span // bytes that depend on guesses
	shared  bool   // the memory has other addresses, which other objects stand for
}

// A Span is a range of offsets.
type Span struct{ Lo, Hi uint64 }

// NewFlow returns a Flow before the first call.
func NewFlow() *Flow {
	return &Flow{inGraph: map[*timeline.Object]bool{}}
}

// Capture records that a graph task accesses an object. Graph runs access it then.
func (f *Flow) Capture(o *timeline.Object) {
	if !f.inGraph[o] {
		f.inGraph[o] = true
		f.captured = append(f.captured, o)
	}
}

// Call takes in the regions that a successful call accesses. It returns them, followed by the memory that a kernel or a graph reaches besides.
// named are objects that the arguments name by numbers; numbers are the kinds that such objects have. guess reports whether data of the call
// has a guess, see Words. declared reports that a kernel accesses no other memory than the regions.
func (f *Flow) Call(e *timeline.Event, regions []Region, named []*timeline.Object, numbers []api.Object, guess, declared bool) []Region {
	runs := Runs(e.Fn)
	if e.Fn.Task == api.NoTask {
		f.share(e)
	}
	if len(regions) == 0 && !runs {
		return regions
	}
	switch {
	case e.Fn.Task == api.GraphRun:
		for _, o := range f.captured {
			regions = append(regions, Region{Object: o, Kind: Names})
		}
	case !runs || declared:
		f.copy(e, regions, numbers)
	}
	if runs && !declared {
		regions = f.reach(e, regions, named)
	}
	f.follow(e, regions, guess)
	for _, r := range regions {
		switch c := f.of(r.Object); {
		case r.Kind == Names && runs:
			c.whole, c.written = true, nil
		case r.Kind == Writes && !c.whole:
			c.write(r.Lo, r.Hi)
		}
		if e.Captured != nil {
			f.Capture(r.Object)
		}
	}
	return regions
}

// Runs reports whether a function runs kernels, which may write any memory that they reach.
func Runs(f *api.Func) bool { return f.Task == api.Kernel || f.Task == api.GraphRun }

// Written returns the bytes in an allocation that the device has written, or all if any byte may have been written.
func (f *Flow) Written(o *timeline.Object) (spans []Span, all bool) {
	if c := f.known(o); c != nil {
		return c.written, c.whole
	}
	return nil, false
}

// Links counts the pairs of allocations of which the first holds the address of the second. While it stays, kernels with the same arguments
// reach the same memory.
func (f *Flow) Links() uint64 { return f.links }

// Forget drops the content of an object that has ended.
func (f *Flow) Forget(o *timeline.Object) {
	if !f.inGraph[o] {
		f.contents.Delete(o)
	}
}

// known returns an object's content, nil if no call has accessed it.
func (f *Flow) known(o *timeline.Object) *content {
	c, _ := f.contents.Get(o)
	return c
}

func (f *Flow) of(o *timeline.Object) *content {
	c := f.known(o)
	if c == nil {
		c = &content{}
		f.contents.Set(o, c)
	}
	return c
}

// copy records the addresses that a copy, or a call that fills an argument list, brings into memory.
func (f *Flow) copy(e *timeline.Event, regions []Region, numbers []api.Object) {
	var to []*timeline.Object
	for _, r := range regions {
		if r.Kind == Writes {
			to = append(to, r.Object)
		}
	}
	for _, u := range e.Uses {
		if u.Object.Kind == api.ArgsList || slices.Contains(numbers, u.Object.Kind) && u.Object.Created == e.Call.Index {
			to = append(to, u.Object)
		}
	}
	for _, o := range to {
		c := f.of(o)
		for _, r := range regions {
			switch r.Kind {
			case Points, Names:
				f.points(c, r.Object)
			case Reads:
				for q := range f.of(r.Object).points {
					f.points(c, q)
				}
			}
		}
	}
}

func (f *Flow) points(c *content, to *timeline.Object) {
	if c.points == nil {
		c.points = map[*timeline.Object]bool{}
	}
	if !c.points[to] {
		c.points[to] = true
		f.links++
	}
}

// reach appends the objects that a kernel reaches through addresses in memory.
func (f *Flow) reach(e *timeline.Event, regions []Region, named []*timeline.Object) []Region {
	if f.links == 0 {
		return regions
	}
	f.round++
	var next []*timeline.Object
	for _, r := range regions {
		if f.finds(r.Object) {
			next = append(next, r.Object)
		}
	}
	for _, u := range e.Uses {
		if u.Object.Kind == api.ArgsList {
			next = append(next, u.Object)
		}
	}
	next = append(next, named...)
	for len(next) > 0 {
		via := next[0]
		c := f.known(via)
		next = next[1:]
		if c == nil {
			continue
		}
		for o := range c.points {
			if f.finds(o) {
				next = append(next, o)
				regions = append(regions, Region{Object: o, Kind: Names, Via: via})
			}
		}
	}
	return regions
}

// holds reports whether memory holds an address of an object.
func (f *Flow) holds(in, of *timeline.Object) bool {
	c := f.known(in)
	return c != nil && c.points[of]
}

// finds reports whether an object is new to the current search.
func (f *Flow) finds(o *timeline.Object) bool {
	c := f.of(o)
	is := c.round != f.round
	c.round = f.round
	return is
}

// write adds a range to the written bytes.
func (c *content) write(lo, hi uint64) { c.written = with(c.written, lo, hi) }

// with adds a range to sorted spans.
func with(spans []Span, lo, hi uint64) []Span {
	if lo >= hi {
		return spans
	}
	from := sort.Search(len(spans), func(k int) bool { return spans[k].Hi >= lo })
	to := from
	for to < len(spans) && spans[to].Lo <= hi {
		lo, hi = min(lo, spans[to].Lo), max(hi, spans[to].Hi)
		to++
	}
	return slices.Replace(spans, from, to, Span{lo, hi})
}

// without removes a range from sorted spans.
func without(spans []Span, lo, hi uint64) []Span {
	from := sort.Search(len(spans), func(k int) bool { return spans[k].Hi > lo })
	to := from
	var rest []Span
	for to < len(spans) && spans[to].Lo < hi {
		if s := spans[to]; s.Lo < lo {
			rest = append(rest, Span{s.Lo, lo})
		}
		if s := spans[to]; s.Hi > hi {
			rest = append(rest, Span{hi, s.Hi})
		}
		to++
	}
	return slices.Replace(spans, from, to, rest...)
}

// overlaps reports whether sorted spans have a byte of a range.
func overlaps(spans []Span, lo, hi uint64) bool {
	k := sort.Search(len(spans), func(k int) bool { return spans[k].Hi > lo })
	return k < len(spans) && spans[k].Lo < hi
}
