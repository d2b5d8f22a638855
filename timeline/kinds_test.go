package timeline_test

import (
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// train launches a training step after its inputs, and a part of it may wait for further inputs. Its kernels are those of evaluate and others.
func (p *program) train(middle bool) {
	p.toDevice()
	p.toDevice()
	p.layers(2)
	if p.first {
		for range 3 {
			p.launch(30, 31, 32, 33, 34, 35, 36, 37, 38, 39)
		}
	}
	if middle {
		p.toDevice()
	}
	for range 2 {
		p.launch(10, 11, 12, 13, 14, 15, 16, 13, 12, 10)
	}
	p.launch(17, 18, 19, 17, 18, 19)
}

func (p *program) evaluate(middle bool) {
	p.toDevice()
	p.toDevice()
	p.layers(2)
	if middle {
		p.toDevice()
	}
	p.launch(20)
}

func (p *program) wait(waits bool) {
	if waits {
		p.sync()
		p.toHost()
	}
}

// A training with evaluations has steps of two kinds. Each evaluation and the training since the last one were one step.
func TestEvaluationsAreSteps(t *testing.T) {
	for _, c := range []struct {
		name              string
		steps, every, of  int  // training steps, those before an evaluation, and its batches
		trains, evaluates bool // wait
		once              bool // an evaluation waits at its end
		middle            bool // inputs come in the middle too
	}{
		{name: "both wait", steps: 20, every: 5, of: 3, trains: true, evaluates: true},
		{name: "neither waits", steps: 20, every: 5, of: 3, once: true},
		{name: "an evaluation waits at its end", steps: 20, every: 5, of: 3, trains: true, once: true},
		{name: "batches of evaluations wait", steps: 20, every: 5, of: 3, evaluates: true},
		{name: "many evaluations", steps: 60, every: 10, of: 12, trains: true, evaluates: true},
		{name: "two short ones", steps: 20, every: 10, of: 1, trains: true, evaluates: true},
		{name: "inputs in the middle", steps: 20, every: 5, of: 3, trains: true, evaluates: true, middle: true},
		{name: "inputs in the middle without a wait", steps: 20, every: 5, of: 3, middle: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t)
			for i := range c.steps {
				p.first = i == 0
				p.train(c.middle)
				p.wait(c.trains)
				for b := 0; i%c.every == c.every-1 && b < c.of; b++ {
					p.evaluate(c.middle)
					p.wait(c.evaluates || c.once && b == c.of-1)
				}
			}
			p.sync()
			tl := p.Load()
			checkSteps(t, tl)
			checkKinds(t, tl.Steps(), c.steps, c.steps/c.every*c.of)
		})
	}
}

// A framework waits before it copies pageable memory. The time before this wait was the last step's.
func TestStepBeginsBeforeTheWaitForItsCopy(t *testing.T) {
	p := newProgram(t)
	var loads []int64
	pageable := func() {
		p.Now += 100_000
		loads = append(loads, p.Now)
		p.Now += 2_000_000
		p.Then("aclrtSynchronizeStream", testtrace.A(p.on))
		p.Then("aclrtMemcpy", testtrace.A(devA, 64, host, 64, 1))
	}
	for i := range 20 {
		pageable()
		p.layers(2)
		p.launch(10, 11, 12, 13, 14, 15, 16, 13, 12, 10, 17, 18, 19, 17, 18, 19)
		for range i % 5 / 4 * 3 {
			pageable()
			p.layers(2)
		}
	}
	p.sync()
	s := p.Load().Steps()
	checkKinds(t, s, 20, 12)
	for i, x := range s.List {
		if i > 0 && (x.From > loads[i] || x.From < loads[i]-100_000) {
			t.Errorf("step %d begins at %d, want %d", i, x.From, loads[i])
		}
	}
}

func checkKinds(t *testing.T, s *timeline.Steps, typical, others int) {
	t.Helper()
	n := 0
	for _, x := range s.List {
		if x.Typical {
			n++
		}
	}
	if n != typical || len(s.List) != typical+others {
		t.Errorf("%d steps by %s, %d typical: want %d and %d others: %s", len(s.List), s.By(), n, typical, others, s.Why)
	}
}

// Pieces of a step with inputs of their own are no steps.
func TestPiecesAreNoSteps(t *testing.T) {
	for name, body := range map[string]func(p *program){
		"accumulated gradients": func(p *program) {
			for range 4 {
				p.train(false)
			}
			p.launch(30, 31, 32, 30, 31, 32, 30, 31, 32, 30, 31, 32, 30, 31, 32, 30, 31, 32)
		},
		"two models in turn": func(p *program) {
			p.train(false)
			p.toDevice()
			p.launch(30, 31, 32, 33, 34, 35, 36, 37, 38)
		},
	} {
		for _, waits := range []bool{false, true} {
			p := newProgram(t)
			for range 20 {
				body(p)
				p.wait(waits)
			}
			p.sync()
			t.Run(name, func(t *testing.T) { checkKinds(t, p.Load().Steps(), 20, 0) })
		}
	}
}
