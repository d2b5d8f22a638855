package access

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// guesses tracks the memory that depends on guesses (see Words). A replay that puts allocations elsewhere does not rewrite guesses, so results from
// such memory are unproved.
//
// A copy with a guess, or from dependent memory, makes its target depend. A kernel that reaches dependent memory makes everything that it reaches
// depend. Content without guesses that overwrites memory ends the dependence.
type guesses struct {
	any    bool // some memory depends on a guess
	shared bool // memory with several addresses does
	graph  bool // a graph has a copy with a guess
	last   bool // the latest call depends on one
}

// share notes the memory that a call exports, imports or maps: other addresses may lead to it.
func (f *Flow) share(e *timeline.Event) {
	if e.Fn.Shares == api.NoShare && !slices.ContainsFunc(e.Uses, func(u timeline.Use) bool { return u.Object.Kind == api.Physical }) {
		return
	}
	for _, u := range e.Uses {
		if u.Object.Kind != api.Device && u.Object.Kind != api.Mapped {
			continue
		}
		c := f.of(u.Object)
		c.shared = true
		f.guesses.shared = f.guesses.shared || len(c.guessed) > 0
	}
}

// follow takes in how the regions of a call depend on guesses.
func (f *Flow) follow(e *timeline.Event, regions []Region, guess bool) {
	f.guesses.last = guess
	if !guess && !f.guesses.any {
		return
	}
	runs := Runs(e.Fn)
	depends := guess || e.Fn.Task == api.GraphRun && f.guesses.graph || slices.ContainsFunc(regions, func(r Region) bool {
		return (r.Kind == Reads || r.Kind == Names && runs) && f.Guessed(r.Object, r.Lo, r.Hi)
	})
	f.guesses.last, f.guesses.any = depends, f.guesses.any || depends
	f.guesses.graph = f.guesses.graph || depends && e.Captured != nil
	whole := !rows(e.Fn)
	for _, r := range regions {
		switch {
		case r.Kind == Names && runs && depends:
			f.guessAll(r.Object)
		case r.Kind == Writes && depends && r.Lo < r.Hi:
			f.guess(r.Object, r.Lo, r.Hi)
		case r.Kind == Writes && depends:
			f.guessAll(r.Object)
		case r.Kind == Writes && whole && e.Captured == nil:
			c := f.of(r.Object)
			c.guessed = without(c.guessed, r.Lo, r.Hi)
		}
	}
}

// Depends reports whether the latest call depends on guesses.
func (f *Flow) Depends() bool { return f.guesses.last }

// Store takes in that the content of an object is replaced. guess reports whether the new content has a guess.
func (f *Flow) Store(o *timeline.Object, guess bool) {
	if guess {
		f.guessAll(o)
	} else if c := f.known(o); c != nil {
		c.guessed = nil
	}
}

// rows reports whether the ranges that a function writes may have gaps.
func rows(f *api.Func) bool {
	return slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.CopyDesc != nil || q.Role == api.Writes && q.Size.Pitch >= 0 })
}

func (f *Flow) guess(o *timeline.Object, lo, hi uint64) {
	c := f.of(o)
	c.guessed = with(c.guessed, lo, hi)
	f.guesses.any = true
	f.guesses.shared = f.guesses.shared || c.shared
}

func (f *Flow) guessAll(o *timeline.Object) {
	size := o.Size
	if size == 0 {
		size = math.MaxUint64
	}
	f.guess(o, 0, size)
}

// Guessed reports whether bytes of an object depend on guesses. An empty range means the whole object.
func (f *Flow) Guessed(o *timeline.Object, lo, hi uint64) bool {
	if !f.guesses.any || o == nil {
		return false
	}
	c := f.known(o)
	switch {
	case c == nil:
		return false
	case c.shared && f.guesses.shared:
		return true
	case lo >= hi:
		return len(c.guessed) > 0
	}
	return overlaps(c.guessed, lo, hi)
}

// GraphGuessed reports whether a run of a graph may depend on guesses.
func (f *Flow) GraphGuessed() bool {
	return f.guesses.any && (f.guesses.graph || slices.ContainsFunc(f.captured, func(o *timeline.Object) bool { return f.Guessed(o, 0, 0) }))
}
