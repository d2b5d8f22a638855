package servingtest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
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
