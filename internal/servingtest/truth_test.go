package servingtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
)

type counts map[string]uint64

func (c counts) add(others counts) {
	for k, n := range others {
		c[k] += n
	}
}

func (c counts) sum() (n uint64) {
	for _, x := range c {
		n += x
	}
	return n
}

// truth is what the program did.
type truth struct {
	pid      int
	threads  map[string]int // by role
	streams  []stream
	graphs   map[string]counts // launches of captured graphs, by address
	outside  counts            // launches before the first step
	steps    []step
	updates  int // launches that changed a task of a graph
	runs     int
	live     map[string]allocation // when it called aclrtGetMemInfo
	faulty   bool
	named    []string // that must be named beside those in the table of faults
	launches counts   // of all streams, outside graphs
	inGraphs counts   // launches in all runs of graphs
	// shapes are launches by operator and tensors, outside graphs and in them. With a queue that prepares operators they are not known.
	shapes, shapesInGraphs counts
}

type stream struct {
	handle, role string
	launches     counts // outside graphs
}

type step struct {
	kind, how string
	eager     counts
	inGraphs  counts
}

type allocation struct {
	bytes uint64
	owner string
}

// parse reads the lines that the program wrote, each with fields that tabs end.
func parse(t *testing.T, text string) *truth {
	t.Helper()
	x := &truth{threads: map[string]int{}, graphs: map[string]counts{}, outside: counts{}, launches: counts{}, inGraphs: counts{}, shapes: counts{}, shapesInGraphs: counts{}}
	allocated := map[string]allocation{}
	var captured, capturedShapes counts
	shapesOf := map[string]counts{} // in graphs
	updating := false
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\t\n"), "\t")
		number := func(i int) int {
			n, err := strconv.Atoi(f[i])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return n
		}
		switch f[0] {
		case "process":
			x.pid = number(1)
		case "thread":
			x.threads[f[1]] = number(2)
		case "stream":
			x.streams = append(x.streams, stream{handle: f[1], role: f[2], launches: counts{}})
		case "allocate":
			allocated[f[1]] = allocation{uint64(number(2)), f[3]}
		case "free":
			delete(allocated, f[1])
		case "live":
			x.live = maps.Clone(allocated)
		case "graph":
			captured, capturedShapes = counts{}, counts{}
			x.graphs[f[1]], shapesOf[f[1]] = captured, capturedShapes
		case "captured":
			captured, capturedShapes = nil, nil
		case "tensors":
			switch {
			case updating:
			case capturedShapes != nil:
				capturedShapes[shapeKey(f[1], f[2])]++
			default:
				x.shapes[shapeKey(f[1], f[2])]++
			}
		case "update", "updated":
			updating = f[0] == "update"
		case "launch":
			x.launch(f[1], f[2], captured, updating)
		case "run":
			x.runs++
			x.inGraphs.add(x.graphs[f[1]])
			x.shapesInGraphs.add(shapesOf[f[1]])
			x.steps[len(x.steps)-1].inGraphs.add(x.graphs[f[1]])
		case "step":
			x.steps = append(x.steps, step{kind: f[1], how: f[2], eager: counts{}, inGraphs: counts{}})
		case "fault":
			x.faulty = true
		case "named":
			x.named = append(x.named, f[1])
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return x
}

// shapeKey names an operator with the different tensors that it has, in any order: a description has tensors that are changed in place twice.
func shapeKey(operator, tensors string) string {
	all := strings.FieldsFunc(strings.NewReplacer("(", ";", ")", ";", "{", ";", "}", ";", "-> ", ";", ", ", ";").Replace(tensors), func(r rune) bool { return r == ';' })
	all = slices.DeleteFunc(all, func(s string) bool { return strings.TrimSpace(s) == "" || s == "none" })
	slices.Sort(all)
	return operator + " " + strings.Join(slices.Compact(all), " ")
}

func (x *truth) launch(kernel, handle string, captured counts, updating bool) {
	switch {
	case updating:
		x.updates++
		return
	case captured != nil:
		captured[kernel]++
		return
	case len(x.steps) > 0:
		x.steps[len(x.steps)-1].eager[kernel]++
	default:
		x.outside[kernel]++
	}
	x.launches[kernel]++
	for _, s := range x.streams {
		if s.handle == handle {
			s.launches[kernel]++
		}
	}
}

// A config is one way to run the program.
type config struct {
	flags string // of the program
	probe string // shim or ebpf
	clock string // real or virtual
	fault string
	more  string // flags of record
}

func (c *config) name() string {
	return strings.NewReplacer("--", "", " ", ",").Replace(strings.TrimSpace(c.flags+" "+c.fault)) + "/" + c.probe + "/" + c.clock
}

func (c *config) ranks() int {
	if strings.Contains(c.flags, "--ranks 2") {
		return 2
	}
	return 1
}

// output is the result of a command.
type output struct {
	text, errs string
	code       int
}

// run runs a command, which may fail.
func run(t *testing.T, env []string, name string, args ...string) output {
	t.Helper()
	out, err := runIn("", env, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func runIn(dir string, env []string, name string, args ...string) (output, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), env...), dir
	var text, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		return output{}, fmt.Errorf("%v does not end\n%s%s", args, &text, &errs)
	}
	if cmd.ProcessState == nil {
		return output{}, err
	}
	return output{text.String(), errs.String(), cmd.ProcessState.ExitCode()}, nil
}

// acltrace runs a command of acltrace.
func acltrace(t *testing.T, args ...string) output {
	t.Helper()
	return run(t, nil, testenv.Built(t, "bin/acltrace"), args...)
}

// query decodes the JSON of a command that must succeed.
func query[T any](t *testing.T, args ...string) *T {
	t.Helper()
	out := acltrace(t, append(args, "--json")...)
	x := new(T)
	if err := json.Unmarshal([]byte(out.text), x); err != nil || out.code != 0 {
		t.Fatalf("%v ends with %d, %v\n%.2000s%s", args, out.code, err, out.text, out.errs)
	}
	return x
}

// A recording is the trace of one rank and what it did.
type recording struct {
	trace string
	truth *truth
	code  int // of the program
}

// record records the program, each rank on its own and all together.
func (c *config) record(t *testing.T) []recording {
	t.Helper()
	dir := t.TempDir()
	acltrace, serving := testenv.Built(t, "bin/acltrace"), testenv.Built(t, "bin/examples/serving")
	type result struct {
		output
		err error
	}
	results := make([]chan result, c.ranks())
	for rank := range results {
		args := append([]string{"record", "-q", "--sim", "--probe", c.probe, "-o", fmt.Sprintf("rank%d.aclt", rank)}, strings.Fields(c.more)...)
		args = append(args, "--", serving, "--truth", fmt.Sprintf("rank%d.truth", rank))
		args = append(args, strings.Fields(c.flags)...)
		if c.fault != "" {
			args = append(args, "--fault", c.fault)
		}
		results[rank] = make(chan result, 1)
		go func() {
			out, err := runIn(dir, []string{"ACLSIM_CLOCK=" + c.clock, "RANK=" + strconv.Itoa(rank)}, acltrace, args...)
			results[rank] <- result{out, err}
		}()
	}
	var all []recording
	for rank := range results {
		r := <-results[rank]
		if r.err != nil || c.fault == "" && r.code != 0 {
			t.Fatalf("rank %d ends with %d, %v\n%s%s", rank, r.code, r.err, r.text, r.errs)
		}
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("rank%d.truth", rank)))
		if err != nil {
			t.Fatalf("%v\n%s%s", err, r.text, r.errs)
		}
		all = append(all, recording{filepath.Join(dir, fmt.Sprintf("rank%d.aclt", rank)), parse(t, string(b)), r.code})
	}
	return all
}

// merge merges the traces of all ranks.
func merge(t *testing.T, ranks []recording) string {
	t.Helper()
	job := filepath.Join(t.TempDir(), "job.aclt")
	args := []string{"merge", "-o", job}
	for _, r := range ranks {
		args = append(args, r.trace)
	}
	if out := acltrace(t, args...); out.code != 0 {
		t.Fatalf("merge ends with %d\n%s", out.code, out.errs)
	}
	return job
}

// uprobes skips the test on a machine without them.
func uprobes(t *testing.T) {
	t.Helper()
	u, err := uprobe.Load(acl.Model, &uprobe.Options{CountOnly: true})
	testenv.Uprobes(t, err)
	u.Close()
}

func soak() bool { return os.Getenv("ACLTRACE_SOAK") != "" }
