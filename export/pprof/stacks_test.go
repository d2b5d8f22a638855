package pprof

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// recorded compiles a program and records it with stacks. It returns both paths.
func recorded(t *testing.T, flags ...string) (program, trace string) {
	t.Helper()
	program, trace = compiled(t, flags...), filepath.Join(t.TempDir(), "run.aclt")
	if out, err := exec.Command(testenv.Built(t, "bin/acltrace"), "record", "-q", "--sim", "--stacks", "16", "-o", trace, "--", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program, trace
}

func compiled(t *testing.T, flags ...string) string {
	t.Helper()
	return testenv.CompileC(t, "stack", []string{filepath.Join(testenv.Root(t), "record/testdata/stack.c")},
		append([]string{"-fno-omit-frame-pointer", "-fno-inline", "-rdynamic", "-Wl,--build-id"}, flags...)...)
}

// profiled exports a trace and returns the profile's path.
func profiled(t *testing.T, trace string) string {
	t.Helper()
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "run.pb.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Write(f, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func parsed(t *testing.T, path string) *profile.Profile {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The program's functions are between thread and call, named by its own symbols, and go tool pprof sums them up.
func TestProgramStacks(t *testing.T) {
	program, trace := recorded(t)
	path := profiled(t, trace)
	out := pprof(t, "-top", "-cum", "-nodecount=1000", "-nodefraction=0", "-sample_index=host_time", "-unit=ns", path)
	cum := map[string]string{}
	for _, m := range topLine.FindAllStringSubmatch(out, -1) {
		cum[m[4]] = m[3]
	}
	if cum["main"] == "" || cum["inner"] == "" || cum["one_way"] == "" || cum["inner"] != cum["aclrtGetDevice"] {
		t.Errorf("%s", out)
	}
	if out := pprof(t, "-traces", "-sample_index=host_time", path); !regexp.MustCompile(`aclrtGetDevice\n\s+inner\n\s+one_way\n\s+main\n(.*\n)*?\s+thread \d+`).MatchString(out) {
		t.Errorf("%s", out)
	}
	p := parsed(t, path)
	for _, m := range p.Mapping {
		if m.File == program && m.Start != 0 && len(m.BuildID) == 40 && m.HasFunctions {
			return
		}
	}
	t.Errorf("no mapping of %s with its build id: %v", program, p.Mapping)
}

// A file with another build id names no frames, here or in go tool pprof.
func TestProgramOfAnotherBuild(t *testing.T) {
	program, trace := recorded(t)
	if err := os.Rename(compiled(t, "-O2"), program); err != nil {
		t.Fatal(err)
	}
	out := pprof(t, "-top", "-cum", "-nodefraction=0", "-sample_index=host_time", profiled(t, trace))
	if strings.Contains(out, "inner") || strings.Contains(out, "main\n") || !strings.Contains(out, "stack+0x") {
		t.Errorf("%s", out)
	}
}

// For a missing file the profile has addresses, so that a viewer can find it elsewhere.
func TestProgramElsewhere(t *testing.T) {
	program, trace := recorded(t)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range parsed(t, profiled(t, trace)).Location {
		if l.Mapping.File == program && l.Address != 0 {
			if n++; len(l.Line) > 0 || l.Mapping.HasFunctions || l.Address < l.Mapping.Start || l.Address >= l.Mapping.Limit || l.Mapping.BuildID == "" {
				t.Errorf("%v in %v", l, l.Mapping)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d places of the program", n)
	}
}
