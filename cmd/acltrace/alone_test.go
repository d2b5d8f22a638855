package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// The demo and a replay of its trace need no other file than the program, no PATH and no home.
func TestProgramAlone(t *testing.T) {
	built := testenv.Built(t, "bin/acltrace")
	b, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	dir, tmp := t.TempDir(), t.TempDir()
	program := filepath.Join(dir, "acltrace")
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + tmp, "XDG_STATE_HOME=" + filepath.Join(tmp, "state")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("demo", "--tokens", "3"); strings.Count(out, "identical: 3 results") != 2 || !strings.Contains(out, "tiny_decoder: 3 tokens right (1200 launches)") {
		t.Errorf("demo: %s", out)
	}
	if out := run("replay", "--verify", "demo.aclt"); !strings.Contains(out, "identical: 3 results") {
		t.Errorf("replay: %s", out)
	}
	unpacked, _ := filepath.Glob(filepath.Join(tmp, "acltrace-files-*", "*", "bin", "examples", "tiny_decoder"))
	if len(unpacked) != 1 {
		t.Fatalf("the demo's program is unpacked as %q", unpacked)
	}
	if out := run("record", "--sim", "--api", "acl", "-o", "run.aclt", "--", unpacked[0], "--tokens", "2"); !strings.Contains(out, "tiny_decoder: 2 tokens right") {
		t.Errorf("record: %s", out)
	}
	entries, _ := os.ReadDir(tmp)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "acltrace-files-") && e.Name() != "state" {
			t.Errorf("%s is left in the temporary folder", e.Name())
		}
	}
	if out := run("version"); !regexp.MustCompile(`^acltrace \S+\ncommit   [0-9a-f]{40}, \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\nformat   1\.\d+\nbuild    go\S+, linux/\w+\n$`).MatchString(out) {
		t.Errorf("version: %s", out)
	}
}
