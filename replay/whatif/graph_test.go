package whatif

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/timeline"
)

// Nodes lie on lanes in the order that they depend on each other in, and what they wait for on other lanes has a number.
func TestLanesOf(t *testing.T) {
	node := func(after ...int) timeline.GraphTask { return timeline.GraphTask{Nodes: true, After: after} }
	lanes, crossed := lanesOf([]timeline.GraphTask{node(), node(0), node(0), node(1, 2), node()})
	if !slices.Equal(lanes, []int{0, 0, 1, 0, 2}) || !maps.Equal(crossed, map[int]int32{0: 0, 2: 1}) {
		t.Errorf("lanes %v, waited for %v", lanes, crossed)
	}
	captured := func(lane int) timeline.GraphTask { return timeline.GraphTask{Task: timeline.Task{Lane: lane}} }
	if lanes, crossed = lanesOf([]timeline.GraphTask{captured(7), captured(3), captured(7)}); !slices.Equal(lanes, []int{0, 1, 0}) || len(crossed) != 0 {
		t.Errorf("captured: lanes %v, waited for %v", lanes, crossed)
	}
}

// What a graph holds is known, however it was made: by a capture, by nodes, of another graph, as a part of one, and after nodes were set anew. How
// often a condition runs a part is not.
func TestGraphs(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	t.Setenv("FAKECUDA_KERNELS", testenv.Built(t, "bin/examples/cuda/kernels.so"))
	program := testenv.Built(t, "bin/examples/cuda/driver")
	for name, c := range map[string]struct {
		least       uint64
		unsupported int
	}{"graphs": {2 + 2*2, 0}, "nodes": {4 + 4*4, 0}, "nodes-by-tag": {3 + 3*4, 0}, "graph-memory": {2 + 2*2, 0}, "conditional-node": {1 + 1, 1}} {
		path := filepath.Join(t.TempDir(), "t.aclt")
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program, name}, Sim: true})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%s: %v, %+v", name, err, res)
		}
		r, err := Run(t.Context(), path, cuda.Model, nil)
		if err != nil || r.Tasks < c.least || len(r.Unsupported) != c.unsupported {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

// What a capture puts into a graph that is there comes to what the graph had.
func TestCaptureTo(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	lib := filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1"))
	program := testenv.CompileC(t, "captureto", []string{"../testdata/captureto.c"}, "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"), "-L"+lib, "-lcuda")
	path := filepath.Join(t.TempDir(), "t.aclt")
	res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program}, Sim: true})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	// Two graphs of six tasks are run twice, one of six once.
	if r, err := Run(t.Context(), path, cuda.Model, nil); err != nil || r.Tasks < 2*2*6+6 || len(r.Unsupported) != 1 {
		t.Errorf("%v, %+v", err, r)
	}
}
