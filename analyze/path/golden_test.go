package path

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

// Each part of the paths of random programs, with what its end saves. A path that is not what the golden file has may be as good: read the calls of the step.
func TestGoldenPaths(t *testing.T) {
	for seed := range uint64(8) {
		p := newProgram(t)
		p.random(seed+50, 220)
		tl := p.Load()
		var b strings.Builder
		s, err := New(tl.Reader, acl.Model, &Options{Each: func(path *Path) error {
			fmt.Fprintf(&b, "step %d %s from %d\n%s", path.Step.Index, path.Step.Name, path.Step.From, lines(path.Parts()))
			for _, e := range path.Entries(3) {
				fmt.Fprintf(&b, "  %+v\n", e)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d paths of %d, longest %d\n", s.Paths, s.NS, s.Longest.Step.Index)
		for _, e := range s.Entries {
			fmt.Fprintf(&b, "  %+v\n", e)
		}
		testenv.Golden(t, "random.txtar", fmt.Sprint("seed ", seed), b.String())
	}
}
