package record_test

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/record"
)

// A framework finds a library with its tool's name, behind those that the user preloads.
func TestFrameworksFindATool(t *testing.T) {
	for marks, name := range map[record.Marks]string{record.MarkRanges: "libmspti.so", record.MarkMemory: "libascend_kernel_hook.so", "": ""} {
		r, _, out := run(t, record.Options{Capture: record.Capture{Marks: marks}}, "/bin/sh", "-c", `echo "$LD_PRELOAD"; cat /proc/self/maps`)
		preload, maps, _ := strings.Cut(out, "\n")
		list := strings.Split(preload, ":")
		if last := list[len(list)-1]; strings.HasSuffix(last, "/"+name) != (name != "") || name != "" && !strings.Contains(maps, last) || name == "" && len(list) != 1 {
			t.Errorf("%q: the program gets LD_PRELOAD=%s", marks, preload)
		}
		if got := r.Meta().Tracer.Marks; got != string(marks) {
			t.Errorf("%q: the trace says %q", marks, got)
		}
	}
}
