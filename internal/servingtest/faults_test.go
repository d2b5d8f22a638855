package servingtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testenv"
)

// short are the faults of the short matrix, one of each kind, with an index in numbers.
var short = map[string]int{"capture-unjoined": 1, "notify-lost": 0, "no-context": 1, "used-after-free": 0, "event-leaked": 1, "memory-grows": 0, "falls-eager": 1, "captured-lengths": 0}

// A fault is a row of the program's table.
type fault struct {
	name, reported string
	named          []string // the first is the culprit
	feature, flags string
}

// numbers are those of the program: some faults were none with more layers, more sizes or one thread.
var numbers = []string{"--steps 30", "--steps 47 --seed 31 --sizes 8 --layers 3 --queue 0 --at 29"}

// TestFaults makes each fault of the program's table, and looks for its cause in the output of the feature that should name it.
func TestFaults(t *testing.T) {
	n := 0
	for line := range strings.Lines(run(t, nil, testenv.Built(t, "bin/examples/serving"), "--fault", "list").text) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		f := fault{c[0], c[1], strings.Fields(c[2]), c[3], c[4]}
		if _, ok := short[f.name]; !soak() && !ok {
			continue
		}
		for i, flags := range numbers {
			if !soak() && i != short[f.name] {
				continue
			}
			t.Run(f.name+strings.Repeat(", other numbers", i), func(t *testing.T) {
				look := features[f.feature]
				if look == nil {
					t.Skipf("no feature for %s (%s)", f.name, f.reported)
				}
				n++
				c := config{flags: flags + " " + f.flags, probe: "shim", clock: "real", fault: f.name}
				if f.feature == "stats" || f.feature == "diff" {
					c.clock = "virtual" // no machine's load
				} else if soak() && n%4 == 0 {
					uprobes(t)
					c.probe = "ebpf"
				}
				ranks := c.record(t)
				if !slices.ContainsFunc(ranks, func(r recording) bool { return r.truth.faulty }) {
					t.Fatal("the program has not made the fault")
				}
				look(t, &c, &f, ranks)
				if f.feature == "blame" && ranks[0].code != 0 { // hints are not in the page
					f.inPage(t, ranks)
				}
			})
		}
	}
}

// features look for the culprit in the output of one feature.
var features = map[string]func(t *testing.T, c *config, f *fault, ranks []recording){
	"blame": func(t *testing.T, c *config, f *fault, ranks []recording) {
		out := acltrace(t, "blame", ranks[0].trace)
		f.check(t, out, ranks)
		// The first call that blame suspects is the culprit.
		type call struct{ Func, Kernel string }
		b := query[struct {
			Failure              *call
			Suspects, Races, Odd []call
			BareReads            []call `json:"bare_reads"`
		}](t, "blame", ranks[0].trace)
		all := slices.Concat(b.Suspects, b.Races, b.BareReads, b.Odd)
		if len(all) == 0 && b.Failure != nil {
			all = []call{*b.Failure}
		}
		if !strings.Contains(out.text, "no suspect: nothing in the trace is evidence") { // then all tasks in flight are listed
			all = all[:min(len(all), 1)]
		}
		named := func(x call) bool { return slices.Contains(f.named, x.Func) || slices.Contains(f.named, x.Kernel) }
		if strings.HasPrefix(f.named[0], "acl") && !slices.ContainsFunc(all, named) {
			t.Errorf("blame lists %+v first, want one of %q\n%s", all, f.named, out.text)
		}
	},
	"where": func(t *testing.T, c *config, f *fault, ranks []recording) {
		b := acltrace(t, "blame", ranks[0].trace)
		f.check(t, b, ranks)
		_, next, _ := strings.Cut(b.text, "device#")
		_, at, _ := strings.Cut(next, "bytes at ")
		at, _, _ = strings.Cut(at, "\n")
		if w := acltrace(t, "where", "--addr", at, ranks[0].trace); w.code != 0 || !strings.Contains(w.text, "aclrtMalloc") {
			t.Errorf("where --addr %s ends with %d\n%s%s\n%s", at, w.code, w.text, w.errs, b.text)
		}
	},
	"strict": func(t *testing.T, c *config, f *fault, ranks []recording) {
		f.check(t, acltrace(t, "replay", "--strict", ranks[0].trace), ranks)
	},
	"stats": func(t *testing.T, c *config, f *fault, ranks []recording) {
		s := query[stats.Stats](t, "stats", ranks[0].trace)
		out := acltrace(t, "stats", ranks[0].trace)
		for _, x := range s.Findings { // in the words of --json too
			out.text += string(x.Kind) + "\n"
		}
		f.check(t, out, ranks)
	},
	"diff": func(t *testing.T, c *config, f *fault, ranks []recording) {
		good := config{flags: c.flags, probe: c.probe, clock: c.clock}
		out := acltrace(t, "diff", good.record(t)[0].trace, ranks[0].trace)
		if f.check(t, out, ranks); out.code != 3 {
			t.Errorf("diff ends with %d", out.code)
		}
	},
	"ranks": func(t *testing.T, c *config, f *fault, ranks []recording) {
		f.check(t, acltrace(t, "blame", merge(t, ranks)), ranks)
	},
	"merge": func(t *testing.T, c *config, f *fault, ranks []recording) {
		f.check(t, acltrace(t, "stats", merge(t, ranks)), ranks)
	},
}

// inPage requires that the page alone names the culprit of a failure.
func (f *fault) inPage(t *testing.T, ranks []recording) {
	t.Helper()
	out := acltrace(t, "export", "html", "-o", "-", ranks[0].trace)
	_, data, _ := strings.Cut(out.text, `"blame":`)
	report, _, _ := strings.Cut(data, `"runs":[`)
	if out.code != 0 {
		t.Fatalf("export html ends with %d\n%s", out.code, out.errs)
	}
	f.check(t, output{text: report}, ranks)
}

// check requires each thing that the program names.
func (f *fault) check(t *testing.T, out output, ranks []recording) {
	t.Helper()
	want := f.named
	for _, r := range ranks {
		want = append(want, r.truth.named...)
	}
	for _, w := range want {
		if !strings.Contains(out.text+out.errs, strings.ReplaceAll(w, "_", " ")) && !strings.Contains(out.text+out.errs, w) {
			t.Errorf("%q is not named (exit code %d)\n%s%s", w, out.code, out.text, out.errs)
			return
		}
	}
}
