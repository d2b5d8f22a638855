package parquet

import (
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/acltrace/acltrace/internal/testtrace"
)

// Tables had neither the steps of calls and tasks nor the kernels in graphs.
func TestTablesHaveStepsAndKernelsInGraphs(t *testing.T) {
	dir := written(t, testtrace.Graphs(t, 3))
	tasks, err := parquet.ReadFile[Task](filepath.Join(dir, "tasks.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for i := range tasks {
		k := &tasks[i]
		if k.Kind != "graph" {
			if k.GraphKernels != nil || k.GraphLaunches != nil || k.Step != nil {
				t.Errorf("%+v", k)
			}
			continue
		}
		if k.GraphKernels == nil || *k.GraphKernels != "3 attention, 1 mlp" || *k.GraphLaunches != 4 || k.Step == nil || int(*k.Step) != runs {
			t.Errorf("run %d: %+v", runs, k)
		}
		runs++
	}
	calls, err := parquet.ReadFile[Call](filepath.Join(dir, "calls.parquet"))
	if err != nil || runs != 40 {
		t.Fatal(err, runs)
	}
	inSteps := 0
	for i := range calls {
		if calls[i].Step != nil {
			inSteps++
		}
	}
	if inSteps != 80 {
		t.Errorf("%d calls in steps", inSteps)
	}
}
