package record_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// loopProgram builds testdata/loops.c and returns the beginning of its command.
func loopProgram(t *testing.T) []string {
	t.Helper()
	lib := testenv.CompileC(t, "libms_tools_ext.so", []string{source("loops.c")}, "-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libms_tools_ext.so")
	program := testenv.CompileC(t, "loops", []string{source("loops.c")}, lib, "-pthread", "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))
	return []string{program, testenv.CompileC(t, "kernels.o", []string{source("loops.c")}, "-DBINARY", "-c")}
}

// Steps are the program's own: as many, and each begins with the copies of its inputs. A loop whose launches and waits were on two threads lost its
// first or last step, and its inputs counted to the step before.
func TestStepsAreTheProgramsOwn(t *testing.T) {
	t.Setenv("ACLSIM_DEVICES", "2")
	program := loopProgram(t)
	for _, c := range []struct {
		kind    string
		queues  string // modes of the task queue
		steps   []int
		others  int // steps of other kinds, after each five
		marked  bool
		inputs  int  // copies from the host in a step
		prompts bool // are steps of another kind
	}{
		{kind: "train", queues: "02", steps: []int{20}, inputs: 2},
		{kind: "train-runs-on", queues: "01", steps: []int{20}, inputs: 2},
		{kind: "train-pageable", queues: "01", steps: []int{20}, inputs: 2},
		{kind: "train-clips", queues: "01", steps: []int{20}, inputs: 2},
		{kind: "train-marks", queues: "0", steps: []int{20}, inputs: 2, marked: true},
		{kind: "accumulate", queues: "1", steps: []int{20}, inputs: 8},
		{kind: "accumulate-runs-on", queues: "01", steps: []int{20}, inputs: 8},
		{kind: "evaluate", queues: "1", steps: []int{20, 60}, others: 3, inputs: 2},
		{kind: "evaluate-runs-on", queues: "01", steps: []int{20}, others: 3, inputs: 2},
		{kind: "infer", queues: "1", steps: []int{20}, inputs: 2},
		{kind: "bare", queues: "0", steps: []int{20}},
		{kind: "two-devices", queues: "1", steps: []int{20}},
		{kind: "threads", queues: "0", steps: []int{20}},
		{kind: "ranks", queues: "1", steps: []int{20}, inputs: 2},
		{kind: "decode", queues: "1", steps: []int{7, 13, 19}, inputs: 2, prompts: true},
		{kind: "decode-outputs", queues: "01", steps: []int{13}, inputs: 2, prompts: true},
		{kind: "decode-pieces", queues: "01", steps: []int{13}, inputs: 2, prompts: true},
		{kind: "prompts", queues: "1", steps: []int{20}, inputs: 2},
	} {
		for _, n := range c.steps {
			for _, queue := range strings.Split(c.queues, "") {
				t.Run(fmt.Sprintf("%s/%d/queue %s", c.kind, n, queue), func(t *testing.T) {
					t.Parallel()
					r, res, out := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, append(program, c.kind, strconv.Itoa(n), queue)...)
					if res.ExitCode != 0 || strings.Fields(out)[0] != strconv.Itoa(n) {
						t.Fatalf("%+v, %s", res, out)
					}
					l, err := timeline.Load(r, acl.Model)
					if err != nil {
						t.Fatal(err)
					}
					s := l.Steps()
					typical := 0
					for _, x := range s.List {
						if x.Typical || x.WarmUp { // a busy machine
							typical++
						}
					}
					source, want, others, prompts := step.Found, n, n/5*c.others, 0
					if c.marked {
						source = step.Marked
					}
					if c.prompts {
						prompts = (n + 6) / 7
					}
					if s.Source != source || len(s.List) != want+others || typical != want-prompts {
						t.Fatalf("%s (%s): %d steps, %d typical; want %d and %d", s.Source, s.Why, len(s.List), typical, want+others, want-prompts)
					}
					if c.inputs > 0 && !c.marked {
						inputsFirst(t, l, c.inputs)
					}
				})
			}
		}
	}
}

// inputsFirst checks that steps begin with a number of copies from the host, and have no other ones.
func inputsFirst(t *testing.T, l *timeline.Timeline, inputs int) {
	t.Helper()
	s := l.Steps()
	copies, first := make([]int, len(s.List)), make([]string, len(s.List))
	for i := range l.Tasks {
		k := &l.Tasks[i]
		at := s.At(k.Issued)
		if at < 0 || k.Process != s.Process {
			continue
		}
		if k.Name == "copy HtoD" {
			copies[at]++
		}
		if first[at] == "" {
			first[at] = k.Name
		}
	}
	for i := range copies {
		if s.List[i].Typical && copies[i] != inputs || first[i] != "copy HtoD" {
			t.Errorf("step %d begins with %s and copies %d times from the host, want %d", i, first[i], copies[i], inputs)
		}
	}
}

// --steps counts over all threads: launches and waits of a framework with a task queue are on two. One step was recorded. The runs of graphs were no
// marks.
func TestStepsOfTwoThreads(t *testing.T) {
	program := loopProgram(t)
	for kind, marker := range map[string]string{"train": "", "train-pageable": "", "accumulate": "", "infer": "", "decode": "aclmdlRIExecuteAsync"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			command := append(slices.Clone(program), kind, "15", "1")
			block := record.Limits{Buffers: record.Buffers{Block: true}}
			whole, _, _ := run(t, record.Options{Limits: block}, command...)
			l, err := timeline.Load(whole, acl.Model)
			if err != nil {
				t.Fatal(err)
			}
			count := func(l *timeline.Timeline, from, to int64) (launches, runs, inputs int) {
				for i := range l.Tasks {
					switch k := &l.Tasks[i]; {
					case k.Issued < from || k.Issued >= to:
					case k.Kind == api.Kernel:
						launches++
					case k.Kind == api.GraphRun:
						runs++
					case k.Name == "copy HtoD":
						inputs++
					}
				}
				return launches, runs, inputs
			}
			r, res, _ := run(t, record.Options{Limits: block, Steps: record.Steps{Marker: marker, Range: &record.StepRange{First: 4, Last: 8}}}, command...)
			if res.Missed != nil {
				t.Fatalf("%+v", res.Missed)
			}
			part, err := timeline.Load(r, acl.Model)
			if err != nil {
				t.Fatal(err)
			}
			launches, runs, inputs := count(part, 0, math.MaxInt64)
			if marker != "" {
				if runs != 5 {
					t.Errorf("%d runs of graphs in 5 steps", runs)
				}
				return
			}
			s := l.Steps().List
			if n, _, in := count(l, s[4].From, s[9].From); launches != n || inputs != in || n == 0 {
				t.Errorf("steps 4 to 8 have %d launches and %d inputs, want %d and %d", launches, inputs, n, in)
			}
		})
	}
}
