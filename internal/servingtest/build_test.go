package servingtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/testenv"
)

// A header of an example was a prerequisite of all C libraries: a change of one compiled everything again.
func TestLibrariesDontDependOnExamples(t *testing.T) {
	rules := run(t, nil, "make", "-C", testenv.Root(t), "-pnq").text
	if !regexp.MustCompile(`(?m)^bin/examples/serving:.* examples/serving/serving\.h`).MatchString(rules) {
		t.Error("the program does not depend on its header")
	}
	if r := regexp.MustCompile(`(?m)^lib/[^:]*:.* (examples/\S+\.h)`).FindStringSubmatch(rules); r != nil {
		t.Errorf("%s is a prerequisite: %.80s", r[1], r[0])
	}
}

// The program is an example to read: it had grown beyond what a reader takes in at once.
func TestProgramStaysSmall(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testenv.Root(t), "examples/serving/*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	const most = 1200
	lines := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(b, []byte("\n"))
	}
	if lines > most {
		t.Errorf("%d lines, want at most %d", lines, most)
	}
}

// A rank that was killed, or whose peer did not come, left its file in the current folder. The next run of the peer took it for the one of its own run.
func TestRankAloneLeavesNoFile(t *testing.T) {
	serving := testenv.Built(t, "bin/examples/serving")
	rank := func(dir, n string, env ...string) *exec.Cmd {
		cmd := exec.Command(serving, "--ranks", "2", "--steps", "1")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env, "RANK="+n, "LD_LIBRARY_PATH="+filepath.Join(testenv.Root(t), "lib"))...)
		return cmd
	}
	dir := t.TempDir()
	empty := func(when string) {
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("rank 0 %s leaves %v, %v", when, files, err)
		}
	}
	if out, err := rank(dir, "0", "HCCL_CONNECT_TIMEOUT=1").CombinedOutput(); err == nil || !strings.Contains(string(out), "HcclCommInitRootInfo") {
		t.Errorf("rank 0 alone ends with %v\n%s", err, out)
	}
	empty("alone")
	killed := rank(dir, "0")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	var folder unix.Stat_t
	if err := unix.Stat(dir, &folder); err != nil {
		t.Fatal(err)
	}
	testenv.Wait(t, "rank 0 gives its root information", func() bool {
		sockets, err := os.ReadFile("/proc/net/unix")
		_, old := os.Stat(filepath.Join(dir, "root"))
		return old == nil || err == nil && strings.Contains(string(sockets), fmt.Sprintf("@example %x %x\n", folder.Dev, folder.Ino))
	})
	_ = killed.Process.Kill()
	_ = killed.Wait()
	empty("killed")
	first, second := rank(dir, "0"), rank(dir, "1")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := second.CombinedOutput()
	if err := errors.Join(err, first.Wait()); err != nil {
		t.Errorf("the next run ends with %v\n%s", err, out)
	}
}
