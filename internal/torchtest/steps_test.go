package torchtest

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// --steps records the program's own steps, although programs wait while they start, and several times in a step. A recorder that finds out late that a
// step waits several times has recorded some steps before them.
func TestChosenStepsAreThePrograms(t *testing.T) {
	source := regexp.MustCompile(`src=(0x[0-9a-f]+), count=1024,`)
	for _, c := range []struct {
		manners string
		before  int // steps that may come before them
	}{
		{manners: "early"}, {manners: "tensors"}, {"twice early", 3}, {"norm tensors", 3}, {manners: "marked early"}, {manners: "silent early"}, {manners: "captured"},
	} {
		t.Run(c.manners, func(t *testing.T) {
			t.Parallel()
			o := (&run{program: "chosen.py " + c.manners, queue: 1, way: shim, flags: []string{"--steps", "5:10"}}).ok(t)
			b, err := exec.Command(testenv.Built(t, "bin/acltrace"), "cat", o.trace).Output()
			if err != nil {
				t.Fatal(err)
			}
			batches := strings.Fields(o.text)
			var got []int
			for _, m := range source.FindAllStringSubmatch(string(b), -1) {
				if i := slices.Index(batches, m[1]); i >= 0 {
					got = append(got, i)
				}
			}
			if n := len(got); n < 6 || n > 6+c.before || !slices.Equal(got[n-6:], []int{5, 6, 7, 8, 9, 10}) {
				t.Errorf("batches %v", got)
			}
		})
	}
}
