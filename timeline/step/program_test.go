package step_test

import (
	"math"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/timeline/step"
)

// ops returns the ops of a program, one a letter, each 10 ns after the one before:
//
//	a…z  a kernel on lane 0     A…Z  a kernel on lane 1     G  a graph of five kernels on lane 0
//	<    a copy from the host   >    a copy to the host, which waits
//	.    a wait for lane 0      :    a wait for the device  ;  a wait for lane 1  !  a wait for an event on lane 0
//	-    another task on lane 0
//
// A digit before a letter is the thread; 0 without.
func ops(program string) (out []step.Op) {
	thread := uint32(0)
	for _, r := range program {
		d := step.Op{Start: 10 * int64(len(out)), End: 10*int64(len(out)) + 5, What: uint64(r), Thread: thread, Process: 1}
		switch {
		case r >= '0' && r <= '9':
			thread = uint32(r - '0')
			continue
		case r == 'G':
			d.Class, d.Launches = step.Launch, 5
		case r >= 'a' && r <= 'z':
			d.Class, d.Launches = step.Launch, 1
		case r >= 'A' && r <= 'Z':
			d.Class, d.Launches, d.Lane = step.Launch, 1, 1
		case r == '<':
			d.Class = step.CopyIn
		case r == '>':
			d.Class, d.Host = step.CopyOut, true
		case r == '.':
			d.Class = step.Sync
		case r == ':':
			d.Class, d.Lane = step.Sync, step.AllLanes
		case r == ';':
			d.Class, d.Lane = step.Sync, 1
		case r == '!':
			d.Class, d.Event = step.Sync, true
		}
		out, thread = append(out, d), 0
	}
	return out
}

func lanes() []step.Lane {
	return []step.Lane{{Process: 1, Name: "stream 0"}, {Process: 1, Name: "stream 1"}}
}

// learned returns the rule for a program.
func learned(program string) *step.Rule {
	l := step.NewLearner(lanes, uint64(len(program)))
	for _, d := range ops(program) {
		l.Op(d)
	}
	return l.Rule()
}

// cut returns a program with its steps: [typical], (another) and {open}.
func cut(f *step.Finder, program string) string {
	var steps []step.Step
	pass := func(now int64) {
		for s := f.Pass(now); s != nil; s = f.Pass(now) {
			steps = append(steps, *s)
		}
	}
	all := ops(program)
	for i := range all {
		pass(all[i].Start)
		f.See(&all[i], nil)
	}
	f.Finish(10 * int64(len(all)))
	pass(math.MaxInt64)
	var out strings.Builder
	at, letters := 0, strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, program)
	until := func(end int64) {
		for ; at < len(all) && all[at].Start < end; at++ {
			out.WriteByte(letters[at])
		}
	}
	for i, s := range steps {
		until(s.From)
		brackets := "()"
		switch {
		case s.Index != i:
			brackets = "??"
		case s.Open:
			brackets = "{}"
		case s.Typical:
			brackets = "[]"
		}
		out.WriteByte(brackets[0])
		until(s.To)
		out.WriteByte(brackets[1])
	}
	until(math.MaxInt64)
	return out.String()
}

// The steps of programs, and what ends them. The programs have no names for their steps.
func TestProgramsHaveSteps(t *testing.T) {
	for _, c := range []struct{ program, want, by string }{
		{"a.a.", "a.a.", ""},
		{"a.a.a.", "[a.][a.][a.]", "waits"},
		{"xyab.ab.ab.", "xy[ab.][ab.][ab.]", "waits"},
		{"ab.ab.abcdefg.ab.ab.", "ab.ab.abcdefg.ab.ab.", ""}, // half the launches are in another step
		{"<ab.<ab.<ab.<a", "[<ab.][<ab.][<ab.]{<a}", "waits"},
		{"<ab><ab><ab>", "[<ab>][<ab>][<ab>]", "copies to the host"},
		{"abababab", "[ab][ab][ab][ab]", "a kernel"},
		{"xyzxyzabababababab", "xyzxyz[ab][ab][ab][ab][ab][ab]", "a kernel"},
		{"ababababa", "[ab][ab][ab][ab]{a}", "a kernel"},
		{"ab.>ab.>ab.>", "[ab.>][ab.>][ab.>]", "copies to the host"},
		{"ab>.ab>.ab>.", "[ab>.][ab>.][ab>.]", "waits"},
		{"a<b.a<b.a<b.a<b.", "a[<b.a][<b.a][<b.a]{<b.}", "copies of inputs"},
		{"ab.-ab.-ab.-", "[ab.-][ab.-][ab.-]", "a kernel"},
		{"abAB.;abAB.;abAB.;", "[abAB.][;abAB.][;abAB.]{;}", "waits"},
		{"ABCa.;ABCa.;ABCa.;", "[ABCa.;][ABCa.;][ABCa.;]", "waits"},
		{"ab:ab:ab:", "[ab:][ab:][ab:]", "waits"},
		{"ab!ab!ab!", "[ab!][ab!][ab!]", "waits"},
		{"1a1b2.1a1b2.1a1b2.", "[ab.][ab.][ab.]", "waits"},
		{"1a1b2!1a1b2!1a1b2!", "[ab][!ab][!ab]!", "a kernel"}, // another thread waits for events at any time
		{"<G.<G.<G.aaaaaaaaaa", "[<G.][<G.][<G.]{aaaaaaaaaa}", "waits"},
		{"abcd>abcd>abcd>abcdefgh.abcd>abcd>abcd>abcdefgh.abcd>abcd>abcd>abcdefgh.", "[abcd>abcd>abcd>abcdefgh.][abcd>abcd>abcd>abcdefgh.][abcd>abcd>abcd>abcdefgh.]", "waits"},
		{"<abc<abc<abcxyz<abc<abc<abcxyz<abc<abc<abcxyz<abc<abc<abcxyz", "[<abc<abc<abcxyz][<abc<abc<abcxyz][<abc<abc<abcxyz][<abc<abc<abcxyz]", "copies of inputs"},
		{"a1Aa1Aa1Aa1A", "aAaAaAaA", ""}, // threads that never wait for each other
	} {
		r := learned(c.program)
		if got := cut(step.New(r), c.program); got != c.want || r.By() != c.by || (r.Why == "") != (r.Source == step.Found) {
			t.Errorf("%q, by %s, %s", got, r.By(), r.Why)
			t.Errorf("%q, by %s", c.want, c.by)
		}
	}
}
