package whatif

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/sim/model"
)

// The tasks in a graph are known, however it was made: by a capture, by nodes, from another graph, as a part, and after changes to nodes. The
// number of times that a condition runs a part is unknown.
func TestTasksOfGraphsAreKnown(t *testing.T) {
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
		if err != nil || r.Tasks < c.least || len(r.Unsupported) != c.unsupported || r.Model != "h100" {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

// copyModel writes a model in which only copies on a device take time. rate is in bytes per nanosecond.
func copyModel(t *testing.T, rate float64) string {
	t.Helper()
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	c := m.Copies[model.DeviceToDevice]
	c.Sizes = []model.CopySize{{Rate: rate}}
	m.Copies[model.DeviceToDevice] = c
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The order of tasks in a graph is followed, however the graph was made and changed. The program prints how many time units each run takes.
func TestGraphOrder(t *testing.T) {
	program := testenv.CUDA(t, "../testdata/cugraphs.c")
	dir := t.TempDir()
	path := filepath.Join(dir, "t.aclt")
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program}, Sim: true, Stdout: said})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	file := copyModel(t, 1)
	r, err := Run(t.Context(), path, cuda.Model, &Options{Model: file, Base: file})
	if err != nil {
		t.Fatal(err)
	}
	told, err := os.ReadFile(said.Name())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Streams {
		if s.Tasks > 0 {
			got = append(got, strconv.FormatInt(s.VirtualNS/1000, 10))
		}
	}
	if want := strings.Fields(string(told)); len(want) < 15 || !slices.Equal(got, want) {
		t.Errorf("runs took\n%q units, not\n%q", got, want)
	}
	if len(r.Unsupported) != 1 || !strings.Contains(r.Unsupported[0].Reason, "condition") {
		t.Errorf("unsupported: %+v", r.Unsupported)
	}
}

// A capture into an existing graph adds tasks to it.
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

// A default stream and the other streams on its device wait for each other, except non-blocking streams.
func TestDefaultStream(t *testing.T) {
	program := testenv.CUDA(t, "../testdata/cudefault.c")
	path := filepath.Join(t.TempDir(), "t.aclt")
	res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program}, Sim: true})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	file := copyModel(t, 1e-5) // a tenth of a second for each, so long that the host's time does not count
	r, err := Run(t.Context(), path, cuda.Model, &Options{Model: file, Base: file, Pace: replay.PaceASAP})
	if err != nil {
		t.Fatal(err)
	}
	took := map[string]int64{}
	for _, s := range r.Streams {
		if s.Tasks > 0 {
			took[s.Stream] = (s.VirtualNS + 5e7) / 1e8
		}
	}
	if want := map[string]int64{"default stream": 4, "stream 1": 6, "stream 2": 2, "stream 3": 1}; r.Tasks != 9 || !maps.Equal(took, want) {
		t.Errorf("%d tasks, streams took %v tenths of a second, not %v", r.Tasks, took, want)
	}
}
