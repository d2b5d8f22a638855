package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A decoder that runs graphs for several sizes had no steps, or the warm-up runs before the captures were its steps.
func TestDecodeByGraphsHasAStepForEachRun(t *testing.T) {
	const graph = 0x9000
	for _, sizes := range []int{1, 3, 8, 35} {
		for _, steps := range []int{7, 300} {
			for _, order := range []string{"round", "random", "blocks", "unknown"} {
				t.Run(fmt.Sprintf("%d of %d %s", steps, sizes, order), func(t *testing.T) {
					p := newProgram(t)
					for k := range sizes {
						if order == "unknown" {
							break // captured before the recording
						}
						for range 1 + k%3 {
							p.layers(3)
							p.sync()
						}
						p.Then("aclmdlRICaptureBegin", testtrace.A(strA, 1))
						p.layers(3)
						p.launch(9 + k%kernels/2) // each size has a kernel of its own
						p.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", uint64(graph+k)))
					}
					r := rand.New(rand.NewPCG(uint64(sizes), 7))
					for i := range steps {
						g := i * 7 % sizes
						switch order {
						case "random", "unknown":
							g = r.IntN(sizes)
						case "blocks": // a batch stays as large for a while
							g = i * sizes / steps
						}
						p.toDevice()
						p.Then("aclmdlRIExecuteAsync", testtrace.A(uint64(graph+g), strA))
						p.launch(20, 21)
						p.toHost()
						p.sync()
					}
					tl := p.Load()
					s := tl.Steps()
					typical := 0
					for _, x := range s.List {
						if x.Typical {
							typical++
						}
					}
					if s.Source != step.Found || len(s.List) != steps || typical != steps {
						t.Errorf("%d steps, %d typical, %s (%s)", len(s.List), typical, s.Source, s.Why)
					}
					if steps < 300 || order == "unknown" {
						return
					}
					live := 0
					f := timeline.NewLiveWalk(acl.Model, &timeline.Visitor{Step: func(x *step.Step) error {
						live++
						return nil
					}}, nil)
					for _, th := range tl.Reader.Threads() {
						f.Thread(th)
					}
					for c, err := range tl.Reader.CallsByStart(nil) {
						if err != nil {
							t.Fatal(err)
						}
						if err := f.Call(c); err != nil {
							t.Fatal(err)
						}
					}
					if live < steps/2 || live > steps {
						t.Errorf("%d steps while recording", live)
					}
				})
			}
		}
	}
}

// Graphs with other kernels, such as those of prefill and decode, differ.
func TestGraphsWithOtherKernelsDiffer(t *testing.T) {
	p := newProgram(t)
	for k, body := range [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}} {
		p.Then("aclmdlRICaptureBegin", testtrace.A(strA, 1))
		p.launch(body...)
		p.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9000+uint64(k)))
	}
	for range 20 { // no call separates the steps
		p.Then("aclmdlRIExecuteAsync", testtrace.A(0x9000, strA))
		p.Then("aclmdlRIExecuteAsync", testtrace.A(0x9001, strA))
	}
	if s := p.Load().Steps(); s.Source != step.Found || len(s.List) != 20 {
		t.Errorf("%d steps, %s (%s)", len(s.List), s.Source, s.Why)
	}
}

// Eager steps before a capture of the same kernels are steps, but for the warm-up runs.
func TestEagerStepsBeforeACaptureStaySteps(t *testing.T) {
	p := newProgram(t)
	for range 40 {
		p.layers(3)
		p.sync()
	}
	p.Then("aclmdlRICaptureBegin", testtrace.A(strA, 1))
	p.layers(3)
	p.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", 0x9000))
	if s := p.Load().Steps(); s.Source != step.Found || len(s.List) < 37 {
		t.Errorf("%d steps, %s (%s)", len(s.List), s.Source, s.Why)
	}
}
