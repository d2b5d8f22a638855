package timeline_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// A task on a captured stream goes into a graph and does not run, and a run of the graph is one task.
func TestCapturedTasksRunWithTheGraph(t *testing.T) {
	const graph = 0x77
	s := newSequence(t)
	s.Stream(strA)
	s.Stream(strB)
	s.function(fn, "Add")
	launch := func(stream uint64) { s.Then("aclrtLaunchKernel", testtrace.A(fn, 8, devA, 16, stream)) }
	launch(strA)
	s.Then("aclmdlRICaptureBegin", testtrace.A(strA, 0))
	launch(strA)
	launch(strB) // not captured
	s.Then("aclrtRecordEvent", testtrace.A(ev, strA))
	s.Then("aclrtStreamWaitEvent", testtrace.A(strB, ev))
	launch(strB) // captured since the wait
	s.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	launch(strB)
	s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, strA))
	s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(strB, 0x99))
	launch(strB)
	s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(strB))
	launch(strB)
	// A capture that fails captures nothing.
	s.Then("aclmdlRICaptureBegin", testtrace.A(strA, 0), testtrace.Fails(107003))
	launch(strA)
	tl := s.Load()
	var got, kept []string
	for _, task := range tl.Tasks {
		got = append(got, task.Name)
		for _, inside := range tl.Graphs[task.Object] {
			kept = append(kept, inside.Name)
		}
	}
	if want := []string{"Add", "Add", "Add", "graph", "Add", "Add"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
	if want := []string{"Add", "record", "wait", "Add"}; !slices.Equal(kept, want) {
		t.Errorf("tasks of the graph %q, want %q", kept, want)
	}
}

// TestCapturedInto captures several streams into an existing graph. All their tasks are in the graph, each after the tasks that it waits for. A
// LiveWalk reports the same tasks.
func TestCapturedInto(t *testing.T) {
	const graph = 0x77
	s := newSequence(t)
	s.Stream(strA)
	s.Stream(strB)
	s.function(fn, "Add")
	launch := func(stream uint64) { s.Then("aclrtLaunchKernel", testtrace.A(fn, 8, devA, 16, stream)) }
	s.Then("aclmdlRIBuildBegin", testtrace.A(0x7ffe0000, 0), testtrace.Outs("modelRI", graph))
	s.Then("aclmdlRICaptureToModelRIBegin", testtrace.A(strA, graph, 0))
	s.Then("aclmdlRICaptureToModelRIBegin", testtrace.A(strB, graph, 0))
	launch(strA)
	launch(strB)
	s.Then("aclrtRecordEvent", testtrace.A(ev, strB))
	s.Then("aclmdlRICaptureEnd", testtrace.A(strB, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	s.Then("aclrtStreamWaitEvent", testtrace.A(strA, ev))
	launch(strA)
	s.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, strA))
	tl := s.Load()
	var after [][]int
	for _, inside := range tl.Graphs[tl.Tasks[len(tl.Tasks)-1].Object] {
		after = append(after, inside.After)
	}
	if want := [][]int{nil, nil, {1}, {0, 2}, {3}}; !reflect.DeepEqual(after, want) {
		t.Errorf("tasks of the graph come after %v, want %v", after, want)
	}
	tasks := 0
	f := timeline.NewLiveWalk(acl.Model, &timeline.Visitor{Task: func(*timeline.Task) error { tasks++; return nil }}, nil)
	f.Thread(format.Thread{})
	for c, err := range tl.Reader.CallsByStart(nil) {
		if err == nil {
			err = f.Call(c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Finish(tl.End); err != nil || tasks != len(tl.Tasks) {
		t.Errorf("%v: %d tasks while it was recorded, want %d", err, tasks, len(tl.Tasks))
	}
}

// TestCopiesWithoutAddresses checks that copies by symbols and descriptors use the device.
func TestCopiesWithoutAddresses(t *testing.T) {
	const symbol = 0x560000002000
	s := newSequence(t)
	s.Then("aclrtMemcpyToSymbol", testtrace.A(symbol, host, 64, 0, 1))
	s.Then("aclrtMemcpyFromSymbolAsync", testtrace.A(host, 64, symbol, 32, 0, 2, strA))
	s.Then("aclrtMemcpyAsyncWithDesc", testtrace.A(devA, 6, strA))
	var got []string
	for _, task := range s.Load().Tasks {
		got = append(got, fmt.Sprintf("%s %d", task.Name, task.Bytes))
	}
	if want := []string{"copy HtoD 64", "copy DtoH 32", "copy DtoD 0"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
}
