package servingtest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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

// A rank whose peer does not come left its file in the current folder. The next run of the peer took it for the one of its own run.
func TestRankAloneLeavesNoFile(t *testing.T) {
	dir, lib := t.TempDir(), filepath.Join(testenv.Root(t), "lib")
	out, err := runIn(dir, []string{"HCCL_CONNECT_TIMEOUT=1", "RANK=0", "LD_LIBRARY_PATH=" + lib}, testenv.Built(t, "bin/examples/serving"), "--ranks", "2", "--steps", "1")
	if err != nil || out.code == 0 || !strings.Contains(out.errs, "HcclCommInitRootInfo") {
		t.Fatalf("rank 0 alone ends with %d, %v\n%s%s", out.code, err, out.text, out.errs)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("it leaves %v, %v", files, err)
	}
}
