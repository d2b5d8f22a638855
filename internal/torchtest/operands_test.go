package torchtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Without descriptions, launches have the tensors that the framework made for their operators, in the order of the operator's parameters, and those of a kept
// executor when it made none.
func TestOperandsOfKeptExecutors(t *testing.T) {
	want := []string{
		"15 aclnnCat ({float32[3,3], float32[3,3]}, float32[3,6])", "15 aclnnCat ({float32[4,3], float32[4,3]}, float32[4,6])",
		"15 aclnnInplaceCopy (float32[6,3], float32[6,3] strides [1,6])", "15 aclnnInplaceCopy (float32[6,4], float32[6,4] strides [1,6])",
		"15 aclnnMatmul (float32[3,8], float32[8,3], float32[3,3])", "15 aclnnMatmul (float32[4,8], float32[8,3], float32[4,3])",
		"15 aclnnMuls (float32[3,3], float32[3,3])", "15 aclnnMuls (float32[4,3], float32[4,3])",
		"15 aclnnRelu (float32[3,3], float32[3,3])", "15 aclnnRelu (float32[4,3], float32[4,3])",
	}
	for queue := range 3 {
		o := (&run{program: "operands.py", queue: queue, way: shim, flags: []string{"--operators", "all"}}).ok(t)
		var shapes struct {
			Groups []struct {
				Name, Shapes string
				Launches     int
			}
		}
		read(t, &shapes, "stats", "--by", "shape", o.trace)
		var got []string
		for _, g := range shapes.Groups {
			got = append(got, fmt.Sprintf("%d %s %s", g.Launches, g.Name, g.Shapes))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("queue mode %d:\n%s\nwant\n%s", queue, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if made := o.info(t).Calls.By["aclCreateTensor"]; made == 0 || made >= 30*10 {
			t.Errorf("queue mode %d: %d tensors for 150 operators: no executor was kept", queue, made)
		}
	}
}
