package otelexport

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
)

// A real collector receives the call stacks of a recording with --stacks, innermost frame first.
func TestStackTraces(t *testing.T) {
	program := testenv.CompileC(t, "stack", []string{filepath.Join(testenv.Root(t), "record/testdata/stack.c")}, "-fno-omit-frame-pointer", "-fno-inline", "-rdynamic")
	trace := filepath.Join(t.TempDir(), "run.aclt")
	if out, err := exec.Command(testenv.Built(t, "bin/acltrace"), "record", "-q", "--sim", "--stacks", "16", "-o", trace, "--", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, url, file := oteltest.StartCollector(t, "file")
	if _, err := Send(t.Context(), r, acl.Model, &Options{Endpoint: url[GRPC], Protocol: GRPC, NoSteps: true}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]int{}
	stack := regexp.MustCompile(`^inner\+0x[0-9a-f]+ \(stack\)\n(one_way|other_way)\+0x[0-9a-f]+ \(stack\)\nmain\+0x[0-9a-f]+ \(stack\)(\n|$)`)
	for _, span := range oteltest.Parse(t, lines) {
		if span.Attrs["code.function.name"] != "aclrtGetDevice" {
			continue
		}
		text, _ := span.Attrs["code.stacktrace"].(string)
		if m := stack.FindStringSubmatch(text); m != nil {
			ways[m[1]]++
		} else {
			t.Fatalf("stack %q", text)
		}
	}
	if ways["one_way"] != 100 || ways["other_way"] != 100 {
		t.Errorf("stacks %v", ways)
	}
}
