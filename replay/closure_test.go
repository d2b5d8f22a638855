package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/verify"
)

// launchesIn returns the launches of kernels that have not failed and run on a stream.
func launchesIn(t *testing.T, path string) (launches []uint64) {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if f := acl.Model.Func(api.ID(c.Func)); f != nil && f.Task == api.Kernel && c.Ret == 0 {
			launches = append(launches, c.Index)
		}
	}
	return launches
}

// everyLaunch extracts launches of a trace and replays each extract, with the simulator's search for unordered accesses. It returns the number of
// extracts, and of those without a result in the trace. Nothing may differ, and no result be unproved.
func everyLaunch(t *testing.T, path string, launches []uint64, places ...string) (extracts, blind int) {
	t.Helper()
	dir := t.TempDir()
	var wait sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range 2 {
		wait.Go(func() {
			for {
				mu.Lock()
				k := next
				next++
				mu.Unlock()
				if k >= len(launches) {
					return
				}
				to := filepath.Join(dir, fmt.Sprintf("%d.aclt", launches[k]))
				results, err := extractAndReplay(path, launches[k], to, places)
				mu.Lock()
				extracts++
				if results == 0 {
					blind++
				}
				mu.Unlock()
				if err != nil {
					t.Errorf("%s, call %d: %v", filepath.Base(path), launches[k], err)
				}
			}
		})
	}
	wait.Wait()
	return extracts, blind
}

func extractAndReplay(path string, launch uint64, to string, places []string) (results int, err error) {
	e, err := lab.Extract(context.Background(), path, acl.Model, launch, to, nil)
	if err != nil {
		return 0, err
	}
	defer os.Remove(to)
	for _, place := range places {
		r, err := Run(context.Background(), to, acl.Model, &Options{Verify: true, Place: place, Strict: true, Timeout: testenv.Patience})
		switch want := verify.Identical; {
		case err != nil:
			return 0, err
		case e.Results == 0:
			want = verify.Unproved
			for _, u := range r.Unverified {
				if u.Code != verify.NotRecorded {
					return 0, fmt.Errorf("%s: unproved: %+v", place, u)
				}
			}
			fallthrough
		default:
			if r.Verdict == verify.Different && !slices.ContainsFunc(r.Differences, func(d Difference) bool { return !computedBy(&d, racy) }) {
				continue
			}
			if r.Verdict != want || len(r.Differences) > 0 || len(r.Findings) > 0 {
				return 0, fmt.Errorf("%s: %s; differences %+v, unverified %+v, findings %+v", place, r.Verdict, r.Differences, r.Unverified, r.Findings)
			}
		}
	}
	return e.Results, nil
}

// racy is a kernel of the example histogram, whose blocks race: with many values it has another result in each run.
const racy = "histogram_racy"

// computedBy reports whether a kernel was the last to write a result that differs.
func computedBy(d *Difference, kernel string) bool {
	return len(d.History.Chain) > 0 && d.History.Chain[len(d.History.Chain)-1].Name == kernel
}

// scenes are the scenes of closure.c, with their launches without a result: those that fail, and those whose results only another process reads.
var scenes = map[string]int{
	"values": 0, "notifies": 0, "peers": 0, "threads": 0, "mappings": 0, "epochs": 0, "errors": 1, "processes": 0, "random": 0,
}

// The extract of a launch has the waits and signals, devices, mappings, processes and errors that the launch depends on. Extracts hung or differed
// without them.
func TestExtractClosure(t *testing.T) {
	program := testenv.CompileC(t, "closure", []string{"testdata/closure.c"})
	binary := kernels(t)
	simulate(t)
	t.Setenv("ACLSIM_DEVICES", "2")
	for name, blind := range scenes {
		t.Run(name, func(t *testing.T) {
			path := recorded(t, program, binary, name)
			if r := run(t, path, &Options{Verify: true}); !r.Identical {
				t.Fatalf("the whole: %s, %+v, %+v", r.Verdict, r.Differences, r.Unverified)
			}
			places := []string{compile.PlaceSame, compile.PlaceMove}
			if name == "mappings" {
				places = places[1:] // the whole has other addresses, too
			}
			launches := launchesIn(t, path)
			if n, got := everyLaunch(t, path, launches, places...); n < 2 || got != blind {
				t.Errorf("%d extracts, %d without results, %d were to be", n, got, blind)
			}
		})
	}
}

// An extract has the launch and its closure alone: calls that order other tasks, or set up other objects, are not in it.
func TestExtractClosureIsSmall(t *testing.T) {
	program := testenv.CompileC(t, "closure", []string{"testdata/closure.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary, "epochs")
	launches := launchesIn(t, path)
	_, first := extract(t, path, launches[0])
	_, last := extract(t, path, launches[2])
	if len(launches) != 3 || first.Calls != last.Calls {
		t.Errorf("%d and %d calls, though the runtime was initialized anew: launches %v", first.Calls, last.Calls, launches)
	}
}

// A launch that waits for a signal of a later call has no extract: the order of the calls would not be the order of the tasks.
func TestExtractRefusesLateSignals(t *testing.T) {
	tw := newTrace(t)
	tw.begin()
	tw.load()
	const other, notify = stream + 0x10000, 0x9000
	tw.malloc(dev, 64)
	tw.call("aclrtCreateStream", []uint64{page}, out(0, other))
	tw.call("aclrtCreateNotify", []uint64{page, 0}, out(0, notify))
	tw.toDevice(dev, pattern(64, 3))
	tw.call("aclrtWaitAndResetNotify", []uint64{notify, stream, 0})
	launch := tw.launch(dev, dev, 64)
	tw.call("aclrtRecordNotify", []uint64{notify, other})
	tw.sync()
	tw.toHost(dev, pattern(64, 4))
	path, to := tw.close(), filepath.Join(t.TempDir(), "one.aclt")
	_, err := lab.Extract(context.Background(), path, acl.Model, launch, to, nil)
	if !errors.Is(err, compile.ErrMissing) || !strings.Contains(err.Error(), "aclrtWaitAndResetNotify: it waits for a signal that no earlier call gives") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("an extract is left")
	}
}

// smallest are the examples at their smallest sizes, usual those at their default sizes.
var (
	smallest = map[string][]string{"vector_add": {"--n", "100"}, "histogram": {"--n", "200"}, "matmul_pipeline": {"--tiles", "2", "--size", "8"}, "tiny_decoder": {"--tokens", "1", "--quiet"}}
	usual    = map[string][]string{"vector_add": nil, "histogram": nil, "matmul_pipeline": nil, "tiny_decoder": {"--quiet"}}
)

// The extract of every launch of every example replays as the launch did in the whole.
func TestExtractEveryLaunch(t *testing.T) { examplesByLaunch(t, smallest) }

func TestSoakExtractEveryLaunch(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes long: make soak")
	}
	examplesByLaunch(t, usual)
}

func examplesByLaunch(t *testing.T, sizes map[string][]string) {
	simulate(t)
	total := 0
	for name, args := range sizes {
		t.Run(name, func(t *testing.T) {
			path := recorded(t, append([]string{testenv.Example(t, name)}, args...)...)
			n, blind := everyLaunch(t, path, launchesIn(t, path), compile.PlaceSame)
			t.Logf("%d extracts, %d without results", n, blind)
			if total += n; n == 0 || n == blind && name != "tiny_decoder" {
				t.Errorf("%d extracts, %d without results", n, blind)
			}
		})
	}
	if total < 16 {
		t.Errorf("%d launches", total)
	}
}

// The extract of every launch of 200 random programs shows the result that the launch had in the whole.
func TestSoakExtractRandom(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes long: make soak")
	}
	program := testenv.CompileC(t, "closure", []string{"testdata/closure.c"})
	binary := kernels(t)
	simulate(t)
	seeds := 200
	if v, err := strconv.Atoi(os.Getenv("ACLTRACE_SEEDS")); err == nil {
		seeds = cmp.Or(v, seeds)
	}
	total := 0
	defer func() { t.Logf("%d extracts", total) }()
	for seed := range seeds {
		path := recorded(t, program, binary, "random", strconv.Itoa(seed+1))
		n, blind := everyLaunch(t, path, launchesIn(t, path), compile.PlaceSame)
		if total += n; n == 0 || blind > 0 {
			t.Errorf("seed %d: %d extracts, %d without results", seed+1, n, blind)
		}
		_ = os.Remove(path)
	}
}

// The extract of a launch after runs of a graph lacked its capture, if the program had asked for the graph while capturing, and the updates of its tasks.
// An update that only other work orders is refused.
func TestExtractHasGraphsWithTheirUpdates(t *testing.T) {
	program := testenv.CompileC(t, "graph", []string{"testdata/graph.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary)
	launches := launchesIn(t, path)
	last := launches[len(launches)-1:]
	if n, blind := everyLaunch(t, path, last, compile.PlaceSame, compile.PlaceMove); n != 1 || blind != 0 {
		t.Errorf("%d extracts, %d without results", n, blind)
	}
	path = recorded(t, program, binary, "loose")
	launches = launchesIn(t, path)
	if _, err := lab.Extract(context.Background(), path, acl.Model, launches[len(launches)-1], filepath.Join(t.TempDir(), "e.aclt"), nil); err == nil ||
		!strings.Contains(err.Error(), "whose update the host has not waited for") {
		t.Error(err)
	}
}

// Values order a graph and other work, as in a decoder: the extract has those that other work writes. It is refused if other work waits for a value
// that the graph writes.
func TestExtractOfGraphsThatWaitForValues(t *testing.T) {
	program := testenv.CompileC(t, "external_value", []string{"testdata/external_value.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary)
	launches := launchesIn(t, path)
	if n, blind := everyLaunch(t, path, launches[len(launches)-1:], compile.PlaceSame, compile.PlaceMove); n != 1 || blind != 0 {
		t.Errorf("%d extracts, %d without results", n, blind)
	}
	path = recorded(t, program, binary, "writes")
	launches = launchesIn(t, path)
	const want = "aclrtValueWait: it waits for a signal that no earlier call gives, unless a run of a graph does"
	if _, err := lab.Extract(context.Background(), path, acl.Model, launches[len(launches)-1], filepath.Join(t.TempDir(), "e.aclt"), nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// The extract of a launch after runs of a graph lacked the events by which the graph waits for other work, and other work for the graph. It is refused, and so is
// one with an update that such an event orders.
func TestExtractRefusesGraphsWithExternalEvents(t *testing.T) {
	program := testenv.CompileC(t, "external", []string{"testdata/external.c"})
	binary := kernels(t)
	simulate(t)
	for _, c := range []struct{ args, want string }{
		{"", "call 12 orders a graph and other work by an event"},
		{"updates", "whose update the host has not waited for"},
	} {
		path := recorded(t, append([]string{program, binary}, strings.Fields(c.args)...)...)
		launches := launchesIn(t, path)
		if _, err := lab.Extract(context.Background(), path, acl.Model, launches[len(launches)-1], filepath.Join(t.TempDir(), "e.aclt"), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
