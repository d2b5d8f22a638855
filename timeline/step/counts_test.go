package step_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/step"
)

// calls maps the letters of a program to functions; other words in a program begin ranges with that name, or make marks.
var calls = map[string]string{"a": "aclrtLaunchKernel", "g": "aclmdlRIExecuteAsync", ".": "aclrtSynchronizeStream", ":": "aclrtSynchronizeDevice",
	"!": "aclrtSynchronizeEvent", "~": "aclrtDestroyStream", "{": "aclmdlRICaptureBegin", "}": "aclmdlRICaptureEnd", "<": "aclrtMemcpyAsync"}

func function(t *testing.T, word string) (*api.Func, string) {
	t.Helper()
	name, ok := calls[word]
	if label := ""; !ok {
		if name, label = "mstxRangeStartA", word; strings.HasPrefix(word, "m:") {
			name, label = "mstxMarkA", word[2:]
		}
		return named(t, name), label
	}
	return named(t, name), ""
}

func named(t *testing.T, name string) *api.Func {
	t.Helper()
	for i := range acl.Model.Funcs {
		if f := &acl.Model.Funcs[i]; f.Name == name {
			return f
		}
	}
	t.Fatalf("no function %s", name)
	return nil
}

// A counter returns the step of each call as soon as it has the call.
func TestCounterReturnsStepsAtOnce(t *testing.T) {
	for _, c := range []struct{ marker, program, want, by string }{
		{"", "a . a . . a a :", "0 0 1 1 2 2 2 2", "calls of aclrtSynchronizeStream"}, // the first function that waits
		{"", ". : a a : a . :", "0 0 0 0 0 1 1 1", "calls of aclrtSynchronizeDevice"},
		{"", "a ! ~ a", "0 0 0 0", "waits for the device after a launch, or copies of inputs: it has neither"},
		{"", "g . g .", "0 0 1 1", "calls of aclrtSynchronizeStream"},
		{"", "< a < a < a < a . < a", "0 0 1 1 2 2 3 3 3 4 4", "4 KiB copies from the host"}, // a loop that waits now and then, or never
		{"", "a < < a < a < < a a <", "0 0 0 0 1 1 2 2 2 2 3", "4 KiB copies from the host"},
		{"", "a <2 a < a <2 a < a <2 a < a <2", "0 0 0 0 0 1 1 1 1 2 2 2 2 3", "8 KiB copies from the host"}, // the first size that comes three times
		{"", "< a < a . < a < a .", "0 0 1 1 0 1 1 1 1 1", "calls of aclrtSynchronizeStream"},                // two inputs in a step
		{"", "< a < a step1 a step2 < a < a", "0 0 1 1 0 0 1 1 1 1 1", "ranges and marks with step or iter in their names"},
		{"", "< a < a < a { a } < a < a < a <", "0 0 1 1 2 2 0 0 0 0 0 1 1 2 2 3", "4 KiB copies from the host"},
		{"", "a step1 a . iter2 m:Step3 other .", "0 0 0 0 1 2 2 2", "ranges and marks with step or iter in their names"},
		{"", "a . a . a . a . step1 a . step2", "0 0 1 1 2 2 3 3 4 4 4 5", "calls of aclrtSynchronizeStream"}, // later ranges change nothing
		// What a program waits for while it starts.
		{"", "a : step1 a : step2 a", "0 0 0 0 0 1 1", "ranges and marks with step or iter in their names"},
		{"", "a : a . a . a . a .", "0 0 1 1 1 1 2 2 3 3", "calls of aclrtSynchronizeStream"},
		{"", "a : a : a . a . a . a .", "0 0 1 1 2 2 2 2 2 2 3 3", "calls of aclrtSynchronizeStream"},
		{"", "a : < a < a < a < a . < a", "0 0 1 1 1 1 2 2 3 3 3 4 4", "4 KiB copies from the host"},
		{"", "a : < a < a a . < a < a a .", "0 0 1 1 1 1 1 1 1 1 1 1 1 1", "calls of aclrtSynchronizeStream"}, // two inputs in a step
		{"", "a : < a < . a < . a < . a", "0 0 1 1 1 1 1 2 2 2 3 3 3", "4 KiB copies from the host"},          // waits for copies
		{"", "a : { a } : g . g . g .", "0 0 0 0 0 0 0 0 1 1 2 2", "calls of aclrtSynchronizeStream"},
		{"", "a . a a a . a a a . a", "0 0 1 1 1 0 1 1 1 1 2", "calls of aclrtSynchronizeStream"}, // the first tensors
		// A validation waits by another function.
		{"", "a : a : a : a : a . a . a . a . a . a :", "0 0 1 1 2 2 3 3 4 4 4 4 4 4 4 4 4 4 4 4", "calls of aclrtSynchronizeDevice"},
		// Several waits in a step: the launches before them alternate. They may do so for another reason, and stop.
		{"", "a a a a . a . a a a a . a . a a a a . a . a a a a . a .", "0 0 0 0 0 1 1 2 2 2 2 2 3 3 4 4 4 4 2 3 3 3 3 3 3 3 4 4",
			"calls of aclrtSynchronizeStream after most launches of a step"},
		{"", strings.Repeat("a a a a . a . ", 3) + "a a a a . a . " + strings.Repeat("a . ", 8) + "a .",
			"0 0 0 0 0 1 1 2 2 2 2 2 3 3 4 4 4 4 2 3 3 3 3 3 3 3 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 5 5", "calls of aclrtSynchronizeStream"},
		{"", "a . { a } . g . { a } g .", "0 0 0 0 0 0 0 0 1 1 1 1 1", "calls of aclrtSynchronizeStream"},
		{"", "step1 { a } step2 a", "0 0 0 0 1 1", "ranges and marks with step or iter in their names"},
		{"tick", "a . tick1 a tack tick2 . m:tick", "-1 -1 0 0 0 1 1 2", "ranges and marks whose names begin with tick"},
		{"aclrtSynchronizeDevice", "a : . step1 : : a", "0 0 1 1 1 2 3", "calls of aclrtSynchronizeDevice"},
		{"aclrtLaunchKernel", "a . a { a } g", "0 1 1 2 2 3 3", "calls of aclrtLaunchKernel"},
		{"aclrtDestroyStream", "a ~ a ~ a", "0 0 1 1 2", "calls of aclrtDestroyStream"},
	} {
		count := step.NewCounter(acl.Model, c.marker)
		var got []string
		launched := false
		for _, word := range strings.Fields(c.program) {
			var input uint64
			if size, copies := strings.CutPrefix(word, "<"); copies { // "<2" copies 2 times 4 KiB
				input, word = max(1, uint64(len(size))*2)*4096, "<"
			}
			f, name := function(t, word)
			got = append(got, fmt.Sprint(count.See(f, name, input)))
			launched = launched || word == "a" || word == "g"
			if count.Launched() != launched {
				t.Errorf("%q: launched %v", c.program, count.Launched())
			}
		}
		if s := strings.Join(got, " "); s != c.want || count.By(acl.Model) != c.by {
			t.Errorf("%q with %q: %s, by %s; want %s, by %s", c.program, c.marker, s, count.By(acl.Model), c.want, c.by)
		}
	}
}

// With a marker, a Finder reports the same steps after the fact: a call of a function ends a step, a range begins one. One process has the steps.
func TestMarkerSteps(t *testing.T) {
	for _, c := range []struct{ marker, program, want string }{
		{"aclrtSynchronizeStream", "a . a . a", "1:12-32 2:32-50 open"},
		{"tick", "a tick1 a tick2 a a", "0:10-30 tick1 1:30-60 tick2 open"},
		{"tick", "a a", ""},
		{"tick", "a 2tick1 a tick2 2tick3 a", "0:10-40 tick1 1:40-60 tick3 open"},
	} {
		f := step.NewByMarker(c.marker)
		if !f.Counts() || f.Rule().By() != c.marker || f.Rule().Source != step.ByMarker {
			t.Errorf("%+v", f.Rule())
		}
		var got []string
		pass := func(now int64) {
			for s := f.Pass(now); s != nil; s = f.Pass(now) {
				text := strings.TrimSpace(fmt.Sprintf("%d:%d-%d %s", s.Index, s.From, s.To, s.Name))
				if s.Open {
					text += " open"
				}
				if s.Typical == s.Open || s.Thread != 9 {
					t.Errorf("%q: %+v", c.program, s)
				}
				got = append(got, text)
			}
		}
		words := strings.Fields(c.program)
		for i, word := range words {
			process := uint32(1)
			if strings.HasPrefix(word, "2") {
				process, word = 2, word[1:]
			}
			fn, name := function(t, word)
			at := int64(10 * i)
			pass(at)
			f.Count(acl.Model, process, fn, &format.Call{Start: at, End: at + 2, Thread: 9}, name)
		}
		f.Finish(int64(10 * len(words)))
		pass(math.MaxInt64)
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q with %s: %s; want %s", c.program, c.marker, s, c.want)
		}
	}
}
