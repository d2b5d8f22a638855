package servingtest

import (
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
