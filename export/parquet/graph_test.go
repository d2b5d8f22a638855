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

// Regression: calls and tasks had no thread name and no graph, calls no stream, and there was no table of steps or graphs.
func TestTablesOfStepsAndGraphs(t *testing.T) {
	dir := written(t, testtrace.Graphs(t, 3))
	steps, err := parquet.ReadFile[Step](filepath.Join(dir, "steps.parquet"))
	if err != nil || len(steps) != 40 {
		t.Fatal(len(steps), err)
	}
	for i := range steps[:39] {
		s := &steps[i]
		if int(s.Step) != i || s.Source != "found" || s.PID == 0 || s.Open || !s.Typical || s.DurationNS < 1_000 || s.Start != (testtrace.StartWall+s.StartNS)/1000 {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	graphs, err := parquet.ReadFile[Graph](filepath.Join(dir, "graphs.parquet"))
	if err != nil || len(graphs) != 4 {
		t.Fatal(len(graphs), err)
	}
	ids := map[int64]bool{}
	for i := range graphs {
		g := &graphs[i]
		ids[g.Graph] = true
		if g.Runs != 10 || *g.Tasks != 4 || *g.Kernels != "3 attention, 1 mlp" || *g.Launches != 4 || g.Ended != nil || g.PID == 0 {
			t.Errorf("graph %d: %+v", i, g)
		}
	}
	calls, err := parquet.ReadFile[Call](filepath.Join(dir, "calls.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		c := &calls[i]
		switch c.Function {
		case "aclrtSynchronizeStream":
			if c.Stream == nil || *c.Stream != "stream 1" || c.Graph != nil {
				t.Errorf("%+v", c)
			}
		case "aclmdlRIExecuteAsync":
			if c.Stream == nil || *c.Stream != "stream 1" || c.Graph == nil || !ids[*c.Graph] {
				t.Errorf("%+v", c)
			}
		case "aclmdlRICaptureEnd":
			if c.Stream != nil || c.Graph == nil || !ids[*c.Graph] {
				t.Errorf("%+v", c)
			}
		case "aclrtSetDevice":
			if c.Stream != nil || c.Graph != nil {
				t.Errorf("%+v", c)
			}
		}
	}
}

// Calls and tasks of a rank had steps of another one.
func TestTablesHaveStepsOfOneProcess(t *testing.T) {
	dir := written(t, testtrace.Job(t))
	steps, err := parquet.ReadFile[Step](filepath.Join(dir, "steps.parquet"))
	if err != nil || len(steps) < testtrace.JobSteps {
		t.Fatal(len(steps), err)
	}
	for _, s := range steps {
		if s.PID != 4001 {
			t.Errorf("%+v", s)
		}
	}
	calls, err := parquet.ReadFile[Call](filepath.Join(dir, "calls.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := parquet.ReadFile[Task](filepath.Join(dir, "tasks.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	inCalls, inTasks := map[int32]int{}, map[int32]int{}
	for _, c := range calls {
		if c.Step != nil {
			inCalls[c.PID]++
		}
	}
	for _, k := range tasks {
		if k.Step != nil {
			inTasks[k.PID]++
		}
	}
	if len(inCalls) != 1 || inCalls[4001] != 4*testtrace.JobSteps || len(inTasks) != 1 || inTasks[4001] != 3*testtrace.JobSteps {
		t.Errorf("calls in steps by process: %v, tasks: %v", inCalls, inTasks)
	}
}
