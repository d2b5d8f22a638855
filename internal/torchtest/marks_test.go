package torchtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// A device's toolkit enables marks only for its own tool, so the framework made none. The flag preloads a library of its tool's name, which makes it do so.
func TestMarksWithoutATool(t *testing.T) {
	python := python(t)
	root := filepath.Join(t.TempDir(), "root")
	if b, err := exec.Command(testenv.Built(t, "bin/acltrace"), "sim", "--root", root).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, b)
	}
	programs := filepath.Join(testenv.Root(t), "internal/torchtest/programs")
	for _, name := range []string{"libmspti.so", "libms_tools_ext.so"} {
		lib := filepath.Join(root, "lib64", name)
		if err := os.Remove(lib); err != nil {
			t.Fatal(err)
		}
		built := testenv.CompileC(t, name, []string{filepath.Join(programs, "marks.c")}, "-shared", "-fPIC", "-Wl,-soname,"+name)
		if err := os.Rename(built, lib); err != nil {
			t.Fatal(err)
		}
	}
	for flag, want := range map[string]int{"none": 0, "ranges": 8} {
		trace := filepath.Join(t.TempDir(), "run.aclt")
		const command = `. "$1/set_env.sh" && export TASK_QUEUE_ENABLE=1 && exec "$3" record --framework-marks "$2" -q -o "$4" -- "$5" "$6"`
		if b, err := exec.Command("sh", "-c", command, "sh", root, flag, testenv.Built(t, "bin/acltrace"), trace, python, filepath.Join(programs, "marks.py")).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, b)
		}
		var s struct {
			Steps  struct{ Count, Typical int }
			Ranges []struct {
				Name        string
				Count, Open int
			}
		}
		read(t, &s, "stats", trace)
		ranges, open := 0, 0
		for _, r := range s.Ranges {
			ranges, open = ranges+r.Count, open+r.Open
		}
		if ranges != 3*want || open > 0 || s.Steps.Count != 8 {
			t.Errorf("%s: %d ranges, want %d; %d open, %d steps", flag, ranges, 3*want, open, s.Steps.Count)
		}
	}
}
