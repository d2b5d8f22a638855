package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// program launches kernels by number on one stream, with varying times.
type program struct {
	*sequence
	r  *rand.Rand
	on uint64 // stream

	first bool // step, which does more
}

const kernels = 40

func newProgram(t *testing.T) *program {
	p := &program{newSequence(t), rand.New(rand.NewPCG(1, 2)), strA, false}
	p.Stream(strA)
	p.Stream(strB)
	for i := range uint64(kernels) {
		p.function(fn+i, fmt.Sprintf("k%d", i))
	}
	return p
}

func (p *program) launch(kernels ...int) {
	for _, k := range kernels {
		p.Now += p.r.Int64N(500)
		p.Then("aclrtLaunchKernel", testtrace.A(fn+uint64(k), 1, devA, 0, p.on))
	}
}

func (p *program) sync() {
	p.Now += p.r.Int64N(5000)
	p.Then("aclrtSynchronizeStream", testtrace.A(p.on))
}

func (p *program) toHost() {
	p.Then("aclrtMemcpyAsync", testtrace.A(host, 64, devA, 64, 2, p.on))
}

func (p *program) toDevice() {
	p.Then("aclrtMemcpyAsync", testtrace.A(devA, 64, host, 64, 1, p.on))
}

// layers launches n layers with six kernels each, between a head and a tail.
func (p *program) layers(n int) {
	p.launch(0, 1)
	for range n {
		p.launch(2, 3, 4, 3, 5, 6)
	}
	p.launch(7, 8)
}

// A step ended at the first of several waits in a row, so the critical path began with the rest of the step before it.
func TestStepEndsAfterTheLastWait(t *testing.T) {
	p := newProgram(t)
	const steps = 10
	var want []int64
	for range steps {
		p.on = strA
		p.toDevice()
		p.launch(0, 1)
		p.on = strB
		p.launch(2)
		for _, p.on = range []uint64{strA, strB} {
			p.sync()
		}
		p.Then("aclrtMemcpy", testtrace.A(host, 64, devA, 64, 2))
		want = append(want, p.Now)
		p.Now += 20_000
	}
	var got []int64
	for _, s := range p.Load().Steps().List {
		got = append(got, s.To)
	}
	if len(got) != steps {
		t.Fatalf("%d steps end at %d, want %d", len(got), got, want)
	}
	for i := range got {
		if got[i] < want[i] || got[i] > want[i]+20_000 {
			t.Errorf("step %d ends at %d, want %d to %d", i, got[i], want[i], want[i]+20_000)
		}
	}
}

func TestStepsOfEachSource(t *testing.T) {
	for _, c := range []struct {
		name   string
		tell   func(p *program)
		source step.Source
		want   int
		first  int // kernel that begins the first step
	}{
		{"with a synchronization", func(p *program) {
			p.launch(20, 21, 22)
			for range 7 {
				p.layers(12)
				p.sync()
			}
		}, step.Found, 7, 0},
		{"with a copy to the host and a synchronization in the middle", func(p *program) {
			for range 7 {
				p.layers(4)
				p.toHost()
				p.sync()
				p.launch(9, 10, 11)
				p.sync()
			}
		}, step.Found, 7, 0},
		{"with a stream for each request", func(p *program) {
			for i := range uint64(7) {
				p.on = strA + 0x10000 + i
				p.Stream(p.on)
				p.layers(12)
				p.toHost()
				p.sync()
				p.Then("aclrtDestroyStream", testtrace.A(p.on))
			}
		}, step.Found, 7, 0},
		{"on two streams in turn", func(p *program) {
			for i := range 12 {
				p.on = []uint64{strA, strB}[i%2]
				p.layers(3)
				p.sync()
			}
		}, step.Found, 12, 0},
		{"mostly on one of two streams", func(p *program) {
			for i := range 12 {
				p.on = []uint64{strA, strA, strB}[i%3]
				p.layers(3)
				p.sync()
			}
		}, step.Found, 12, 0},
		{"on a pool of streams", func(p *program) {
			pool := []uint64{strA, strB, strA + 0x20000, strB + 0x20000}
			p.Stream(pool[2])
			p.Stream(pool[3])
			for i := range 16 {
				p.on = pool[i%len(pool)]
				p.layers(3)
				p.sync()
			}
		}, step.Found, 16, 0},
		{"each on two streams", func(p *program) {
			for range 9 {
				p.on = strA
				p.layers(3)
				p.on = strB
				p.launch(20, 21, 22)
				p.on = strA
				p.sync()
			}
		}, step.Found, 9, 0},
		{"without any", func(p *program) {
			p.launch(20, 21, 22)
			for range 9 {
				p.layers(30)
			}
			p.sync()
		}, step.Found, 9, 0},
		{"many in a time between two synchronizations", func(p *program) {
			for range 5 {
				for range 20 {
					p.layers(1)
				}
				p.toHost()
				p.sync()
			}
		}, step.Found, 100, 0},
		{"with layers of two kernels", func(p *program) {
			for range 20 {
				for range 10 {
					p.launch(1, 2)
				}
				p.toHost()
				p.sync()
			}
		}, step.Found, 20, 1},
		{"with a synchronization after each kernel", func(p *program) {
			for range 20 {
				p.toDevice()
				for range 30 {
					p.launch(1)
					p.sync()
					p.launch(2)
					p.sync()
				}
				p.toHost()
				p.sync()
			}
		}, step.Found, 20, 1},
		{"of two kernels after an input", func(p *program) {
			for range 10 {
				for range 10 {
					p.toDevice()
					p.launch(1, 2)
				}
				p.sync()
			}
		}, step.Found, 100, 1},
		{"of one kernel after an input, without a wait", func(p *program) {
			for i := range 30 {
				p.toDevice()
				p.launch(1, 1, 1, 1, 1, 1)
				if i%10 == 7 {
					p.toHost()
				}
			}
		}, step.Found, 30, 1},
		{"with more now and then", func(p *program) {
			for i := range 40 {
				p.layers(6)
				if i%3 == 1 {
					p.launch(30)
				}
				if p.r.IntN(4) == 0 {
					p.launch(31, 32)
				}
				p.launch(9)
				p.sync()
			}
		}, step.Found, 40, 0},
		{"without any, and with more now and then", func(p *program) {
			for i := range 40 {
				p.layers(6)
				if i%3 == 1 {
					p.launch(30)
				}
				if p.r.IntN(4) == 0 {
					p.launch(31, 32)
				}
				p.launch(9)
			}
			p.sync()
		}, step.Found, 40, 0},
		{"behind others to warm up", func(p *program) {
			p.launch(20, 21, 22, 20, 23)
			p.sync()
			for i := range 10 {
				if i < 2 {
					p.launch(33, 34, 35, 36, 33, 34, 35, 36)
				}
				p.layers(5)
				p.sync()
			}
		}, step.Found, 10, -1},
		{"with an evaluation after every tenth", func(p *program) {
			for i := range 40 {
				p.layers(5)
				p.sync()
				if i%10 == 9 {
					p.launch(35, 36, 37)
					p.sync()
				}
			}
		}, step.Found, 40, 0},
		{"random launches", func(p *program) {
			for range 800 {
				p.launch(p.r.IntN(8))
			}
		}, step.None, 0, 0},
		{"random launches with synchronizations", func(p *program) {
			for range 40 {
				for range 50 {
					p.launch(p.r.IntN(4))
				}
				p.sync()
			}
		}, step.None, 0, 0},
		{"one kernel again and again", func(p *program) {
			for range 100 {
				p.launch(1)
			}
			p.sync()
		}, step.None, 0, 0},
		{"two that are alike", func(p *program) {
			for range 2 {
				p.layers(12)
				p.sync()
			}
		}, step.None, 0, 0},
		{"few in a long program", func(p *program) {
			for range 500 {
				p.launch(p.r.IntN(20))
			}
			for range 4 {
				p.layers(2)
				p.sync()
			}
		}, step.None, 0, 0},
		{"by graphs with eager prompts between", func(p *program) { // the prompts were taken for the steps
			const graph = 0x9000
			p.Then("aclmdlRICaptureBegin", testtrace.A(strA, 1))
			p.layers(3)
			p.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
			for i := range 35 {
				if i%4 == 3 {
					p.layers(3)
				} else {
					p.Then("aclmdlRIExecuteAsync", testtrace.A(graph, strA))
				}
				p.launch(30, 31, 32)
				p.toHost()
				p.sync()
			}
		}, step.Found, 35, -1},
		{"by graphs in every other step", func(p *program) { // 17 of 30 were found
			const graph = 0x9000
			p.Then("aclmdlRICaptureBegin", testtrace.A(strA, 1))
			p.launch(2, 3, 4, 5)
			p.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
			for i := range 30 {
				p.toDevice()
				p.launch(0)
				for range 5 {
					if i%2 == 0 {
						p.Then("aclmdlRIExecuteAsync", testtrace.A(graph, strA))
					} else {
						p.launch(2, 3, 4, 5)
					}
				}
				p.launch(1)
				p.toHost()
				p.sync()
			}
		}, step.Found, 30, -1},
		{"with two inputs each and an optimizer", func(p *program) {
			for i := range 40 {
				p.toDevice()
				p.layers(2)
				if i%2 == 1 {
					p.launch(20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)
				}
				p.toHost()
				p.sync()
			}
		}, step.Found, 20, 0},
		{"by graphs after a long prompt", func(p *program) { // whose step was not found: a graph is shorter than its kernels
			const graph = 0x9000
			p.Then("aclmdlRICaptureBegin", testtrace.A(strA, 1))
			p.layers(30)
			p.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
			for i := range 20 {
				p.toDevice()
				if i == 0 {
					p.layers(30)
				} else {
					p.Then("aclmdlRIExecuteAsync", testtrace.A(graph, strA))
				}
				p.launch(30, 31, 32)
				p.toHost()
				p.sync()
			}
		}, step.Found, 20, -1},
		{"by graphs of parts, each size after a warm-up run", func(p *program) { // the last warm-up run was a step, with the inputs before it
			capture := func(graph uint64, kernels ...int) {
				p.Then("aclmdlRICaptureBegin", testtrace.A(strA, 1))
				p.launch(kernels...)
				p.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
			}
			p.toDevice()
			for size := range uint64(3) {
				p.launch(0, 1, 2, 10, 3, 4, 5, 10, 3, 4, 6)
				p.sync()
				capture(0x9000+16*size, 0, 1, 2)
				p.launch(10)
				capture(0x9001+16*size, 3, 4, 5)
				capture(0x9002+16*size, 3, 4, 6)
				p.sync()
			}
			for i := range 24 {
				p.toDevice()
				if i%5 == 0 {
					p.launch(0, 1, 2, 10, 3, 4, 5, 10, 3, 4, 6)
				} else {
					for part := range uint64(3) {
						p.Then("aclmdlRIExecuteAsync", testtrace.A(0x9000+16*uint64(i%3)+part, strA))
						if part < 2 {
							p.launch(10)
						}
					}
				}
				p.launch(7, 8)
				p.toHost()
				p.sync()
			}
		}, step.Found, 24, 0},
		{"nothing", func(p *program) { p.sync() }, step.None, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t)
			c.tell(p)
			tl := p.Load()
			s := tl.Steps()
			if s.Source != c.source || len(s.List) != c.want || (s.Why == "") != (c.want > 0) {
				t.Fatalf("%d steps, %s, %q; want %d, %s", len(s.List), s.Source, s.Why, c.want, c.source)
			}
			checkSteps(t, tl)
			if c.want == 0 || c.first < 0 {
				return
			}
			for i := range tl.Calls {
				if tl.Calls[i].Start < s.List[0].From {
					continue
				}
				if k := tl.Calls[i].Kernel; k != "" {
					if want := fmt.Sprintf("k%d", c.first); k != want {
						t.Errorf("the first step begins with %s, want %s", k, want)
					}
					break
				}
			}
		})
	}
}

// checkSteps checks that steps follow each other, and that each call belongs to the step in which it began.
func checkSteps(t *testing.T, tl *timeline.Timeline) {
	t.Helper()
	s := tl.Steps()
	calls := make([]int, len(s.List)+1)
	told := 0
	walk(t, tl, nil, &timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			at := s.At(h.Start)
			last := len(s.List) - 1
			if h.Step != at && (at != -1 || h.Step < last || h.Start < s.List[last].To) {
				t.Errorf("call %d is in step %d, want %d", h.Index, h.Step, at)
			}
			if k != nil && k.Step != h.Step || told > h.Step && h.Step >= 0 || at >= 0 && told != at {
				t.Errorf("call %d of step %d with %d steps told", h.Index, h.Step, told)
			}
			if h.Step >= 0 {
				calls[h.Step]++
			}
			return nil
		},
		Step: func(x *step.Step) error {
			if x.Open != (told == len(s.List)) || !x.Open && *x != s.List[told] || x.Index != told {
				t.Errorf("step %d is %+v", told, x)
			}
			told++
			return nil
		},
	})
	for i, step := range s.List {
		if step.From >= step.To || calls[i] == 0 || i > 0 && step.From < s.List[i-1].To {
			t.Errorf("step %d with %d calls is %+v", i, calls[i], step)
		}
	}
	if s.At(-1) != -1 || s.At(tl.End+1) != -1 {
		t.Error("a step before or behind the trace")
	}
}

func TestWarmUpIsNotTypical(t *testing.T) {
	p := newProgram(t)
	for i := range 10 {
		if i < 2 {
			p.launch(30, 31, 32, 33, 34, 35, 36, 37, 38, 30, 31, 32, 33, 34, 35, 36)
		}
		p.layers(2)
		p.sync()
	}
	for i, s := range p.Load().Steps().List {
		// Calls before the first synchronization are a step only if they resemble the other steps.
		if s.Typical != (i >= 2) && i > 0 {
			t.Errorf("step %d: typical %v", i, s.Typical)
		}
	}
}

// ranges returns functions that begin a range with the next number, from 1, and end one.
func (p *program) ranges() (begin func(name string) uint64, end func(id uint64)) {
	last := uint64(0)
	return func(name string) uint64 {
			last++
			id := last
			p.Then("mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", name), func(_ *api.Func, c *format.Call) { c.Ret = id })
			return id
		}, func(id uint64) {
			p.Then("mstxRangeEnd", testtrace.A(id))
		}
}

// Of two kinds of ranges with half of the launches each, those that are named steps are the steps, in any order.
func TestNamedRangesAreSteps(t *testing.T) {
	for _, names := range [][2]string{{"step", "forward"}, {"forward", "step"}} {
		p := newProgram(t)
		begin, end := p.ranges()
		for range 4 {
			for _, n := range names {
				r := begin(n)
				p.launch(1, 2)
				p.sync()
				end(r)
			}
		}
		s := p.Load().Steps()
		if s.Source != step.Marked || len(s.List) != 4 || s.List[0].Name != "step" {
			t.Errorf("%q: %s, %d steps", names, s.Source, len(s.List))
		}
	}
}

func TestMarkedSteps(t *testing.T) {
	p := newProgram(t)
	begin, end := p.ranges()
	begin("train")
	for i := range 4 {
		end(begin("load"))
		step := begin(fmt.Sprintf("step %d", i))
		forward := begin("forward")
		p.launch(p.r.IntN(30), p.r.IntN(30), p.r.IntN(30))
		end(forward)
		p.sync()
		end(step)
	}
	end(1)
	tl := p.Load()
	s := tl.Steps()
	var names []string
	for _, x := range s.List {
		names = append(names, x.Name)
	}
	if want := []string{"step 0", "step 1", "step 2", "step 3"}; s.Source != step.Marked || !slices.Equal(names, want) {
		t.Errorf("%s %q, want %q", s.Source, names, want)
	}
	checkSteps(t, tl)
}

// TestTokensAreSteps records a real program.
func TestTokensAreSteps(t *testing.T) {
	bin, example := testenv.Built(t, "bin/acltrace"), testenv.Example(t, "tiny_decoder")
	path := filepath.Join(t.TempDir(), "run.aclt")
	if out, err := exec.Command(bin, "record", "--sim", "-o", path, "--", example, "--tokens", "6", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	s := tl.Steps()
	if s.Source != step.Found || len(s.List) != 6 {
		t.Fatalf("%d steps, %s (%s)", len(s.List), s.Source, s.Why)
	}
	checkSteps(t, tl)
	for _, x := range s.List {
		launches := 0
		for i := range tl.Calls {
			if c := &tl.Calls[i]; c.Kernel != "" && c.Start >= x.From && c.Start < x.To {
				launches++
			}
		}
		if launches != 400 || !x.Typical {
			t.Errorf("step %d has %d launches, typical %v", x.Index, launches, x.Typical)
		}
	}
}

// TestStepsOfAnything checks that the steps of random programs are consistent.
func TestStepsOfAnything(t *testing.T) {
	for seed := range uint64(60) {
		p := newProgram(t)
		p.r = rand.New(rand.NewPCG(seed, 3))
		names := 1 + p.r.IntN(6)
		for range p.r.IntN(12) {
			body := p.r.Perm(kernels)[:names]
			for range 1 + p.r.IntN(6) {
				p.launch(body...)
				switch p.r.IntN(4) {
				case 0:
					p.sync()
				case 1:
					p.toHost()
				}
			}
		}
		tl := p.Load()
		if s := tl.Steps(); len(s.List) > 0 == (s.Source == step.None) || len(s.List) > 0 && len(s.List) < 3 {
			t.Errorf("seed %d: %d steps, %s", seed, len(s.List), s.Source)
		}
		checkSteps(t, tl)
	}
}

// TestOneStep checks that a single range is a step if its name says so and nothing repeats.
func TestOneStep(t *testing.T) {
	for name, want := range map[string]step.Source{"ProfilerStep#13": step.Marked, "warm up": step.None} {
		p := newProgram(t)
		p.Then("mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", name), func(_ *api.Func, c *format.Call) { c.Ret = 1 })
		p.launch(1, 2, 3, 4)
		p.sync()
		p.Then("mstxRangeEnd", testtrace.A(1))
		tl := p.Load()
		if s := tl.Steps(); s.Source != want || want == step.Marked && (len(s.List) != 1 || s.List[0].Name != name) {
			t.Errorf("%s: %s %+v", name, s.Source, s.List)
		}
	}
}

// Steps are of one process: calls and tasks of another process had a step, and after the last one a step that the trace does not have.
func TestOtherProcessesHaveNoSteps(t *testing.T) {
	tl := testtrace.Job(t)
	if n, of := len(tl.Steps().List), tl.Steps().Rule.Process; n != testtrace.JobSteps || of != 0 {
		t.Fatalf("%d steps of process %d", n, of)
	}
	own, during := 0, 0
	walk(t, tl, nil, &timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error {
		switch other := tl.Reader.ProcessOf(h.Thread) != 0; {
		case other && (h.Step >= 0 || k != nil && k.Step >= 0), !other && h.Step != h.During, k != nil && k.Step != h.Step:
			t.Errorf("call %d of thread %d in step %d, during step %d", h.Index, h.Thread, h.Step, h.During)
		case other && h.During >= 0:
			during++
		case h.Step >= 0:
			own++
		}
		return nil
	}})
	if own < 4*testtrace.JobSteps || during < 2*testtrace.JobSteps {
		t.Errorf("%d calls in steps, %d of another process during steps", own, during)
	}
}
