package servingtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testenv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// short are the faults of the short matrix: one of each kind.
var short = []string{"capture-copy", "notify-lost", "no-context", "used-after-free", "pinned-reused", "memory-grows", "unfused"}

// TestFaults makes each fault of the program's table, and looks for its cause in the output of the feature that should name it.
func TestFaults(t *testing.T) {
	for line := range strings.Lines(run(t, nil, testenv.Built(t, "bin/examples/serving"), "--fault", "list").text) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		name, reported, feature := c[0], c[1], c[2]
		if !soak() && !slices.Contains(short, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if feature == "none" {
				t.Skipf("no feature yet for %s (%s)", name, reported)
			}
			f := config{flags: c[3] + " --steps 30", probe: "shim", clock: "real", fault: name}
			if feature == "stats" || feature == "diff" {
				f.clock = "virtual" // no machine's load
			}
			if strings.Contains(c[3], "--ranks") {
				f.ranks(t)
				return
			}
			trace, told := f.record(t)
			if told.Culprit == nil {
				t.Fatal("the program has not made the fault")
			}
			features[feature](t, &f, trace, told)
			if feature == "blame" {
				inPage(t, trace, told)
			}
		})
	}
}

// features look for the culprit in the output of one feature.
var features = map[string]func(t *testing.T, c *config, trace string, told *truth){
	"blame": func(t *testing.T, c *config, trace string, told *truth) {
		out := acltrace(t, "blame", trace)
		named(t, out, told)
		// The first call that blame lists is the culprit.
		type call struct{ Func, Kernel string }
		b := query[struct {
			Failure  *call
			Suspects []call
		}](t, "blame", trace)
		if told.Culprit.Call != "" || told.Culprit.Kernel != "" {
			first := b.Failure
			if len(b.Suspects) > 0 {
				first = &b.Suspects[0]
			}
			want := []string{told.Culprit.Call, told.Culprit.Also, told.Culprit.Kernel}
			if first == nil || !slices.Contains(want, first.Func) && !slices.Contains(want, first.Kernel) {
				t.Errorf("blame lists %+v first, want one of %q\n%s", first, want, out.text)
			}
		}
	},
	"where": func(t *testing.T, c *config, trace string, told *truth) {
		b := acltrace(t, "blame", trace)
		named(t, b, told)
		_, next, _ := strings.Cut(b.text, "device#")
		_, at, _ := strings.Cut(next, "bytes at ")
		at, _, _ = strings.Cut(at, "\n")
		if w := acltrace(t, "where", "--addr", at, trace); w.code != 0 || !strings.Contains(w.text, "aclrtMalloc") {
			t.Errorf("where --addr %s ends with %d\n%s%s\n%s", at, w.code, w.text, w.errs, b.text)
		}
	},
	"strict": func(t *testing.T, c *config, trace string, told *truth) {
		named(t, acltrace(t, "replay", "--strict", trace), told)
	},
	"stats": func(t *testing.T, c *config, trace string, told *truth) {
		s := query[stats.Stats](t, "stats", trace)
		out := acltrace(t, "stats", trace)
		switch also := told.Culprit.Also; {
		case also != "" && !slices.ContainsFunc(s.Findings, func(f stats.Finding) bool { return string(f.Kind) == also }):
			t.Errorf("no finding %s\n%s", also, out.text)
		case also == "":
			named(t, out, told)
		}
	},
	"diff": func(t *testing.T, c *config, trace string, told *truth) {
		good := config{flags: c.flags, probe: c.probe, clock: c.clock}
		before, _ := good.record(t)
		out := acltrace(t, "diff", before, trace)
		if named(t, out, told); out.code != 3 {
			t.Errorf("diff ends with %d", out.code)
		}
	},
}

// inPage requires that the page alone names the culprit of a failure.
func inPage(t *testing.T, trace string, told *truth) {
	t.Helper()
	out := acltrace(t, "export", "html", "-o", "-", trace)
	_, data, _ := strings.Cut(out.text, `"blame":`)
	report, _, _ := strings.Cut(data, `"runs":[`)
	if out.code != 0 {
		t.Fatalf("export html ends with %d\n%s", out.code, out.errs)
	}
	named(t, output{text: report}, told)
}

// named requires each thing that the program names.
func named(t *testing.T, out output, told *truth) {
	t.Helper()
	c := told.Culprit
	want := []string{c.Call, c.Kernel, c.Also}
	for _, n := range []int{c.Code, c.OtherTID} {
		if n != 0 {
			want = append(want, itoa(n))
		}
	}
	if c.Code != 0 {
		want = append(want, itoa(c.TID))
	}
	if c.Address != 0 {
		want = append(want, fmt.Sprintf("%#x", c.Address))
	}
	for _, w := range want {
		if !strings.Contains(out.text+out.errs, w) {
			t.Errorf("%q is not named (exit code %d)\n%s%s", w, out.code, out.text, out.errs)
			return
		}
	}
}

// ranks records two ranks and looks for the late one in the statistics of the merged trace.
func (c *config) ranks(t *testing.T) {
	dir := t.TempDir()
	errs := make(chan output, 2)
	record := func(rank int) output {
		args := []string{"-c", `cd "$0" && shift 0 && exec "$@"`, dir, testenv.Built(t, "bin/acltrace"), "record", "-q", "--sim", "-o", fmt.Sprintf("rank%d.aclt", rank), "--",
			testenv.Built(t, "bin/examples/serving")}
		args = append(append(args, strings.Fields(c.flags)...), "--fault", c.fault)
		return run(t, []string{"RANK=" + itoa(rank)}, "sh", args...)
	}
	for rank := range 2 {
		go func() { errs <- record(rank) }()
	}
	for range 2 {
		if out := <-errs; out.code != 0 {
			t.Fatalf("a rank ends with %d\n%s%s", out.code, out.text, out.errs)
		}
	}
	job := filepath.Join(dir, "job.aclt")
	if out := acltrace(t, "merge", "-o", job, filepath.Join(dir, "rank0.aclt"), filepath.Join(dir, "rank1.aclt")); out.code != 0 {
		t.Fatalf("merge ends with %d\n%s", out.code, out.errs)
	}
	if out := acltrace(t, "stats", job); !strings.Contains(out.text, "rank 1") {
		t.Errorf("rank 1 is not named\n%s", out.text)
	}
}
