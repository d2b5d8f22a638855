package compile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Options are the parameters of Trace. Backend is required; the zero value of each other field is its default.
type Options struct {
	Backend      backend.Backend
	Place        string  // PlaceSame, PlaceMove or PlaceAuto
	Seed         uint64  // for the addresses of PlaceMove
	Guess        bool    // rewrite words that only may be addresses
	Scale        float64 // multiplies recorded times, 0 if they are not kept
	Compare      bool    // results are compared: with the recorded ones, or between repeated runs
	TimeLaunches bool    // the player reads its clock around each kernel launch
	Poison       bool    // fill new device memory with a byte, another one in each run
	Eager        bool    // play the captured launches of a graph instead of the graph, see eager.go
	StubComm     bool    // replace processes that are not in the trace
	Relative     bool    // the plan has paths relative to its folder
	Tolerance    verify.Tolerance
	Limits       Limits
	Progress     func(done, total int) // called now and then with the calls compiled and the total
}

// Values for Options.Place.
const (
	PlaceSame = "same" // at the recorded addresses, or the replay fails
	PlaceMove = "move" // elsewhere, at unrelated addresses; only the simulator can
	PlaceAuto = "auto" // at the recorded addresses if the library can
)

// ParsePlace returns the parts of PlaceSame, PlaceMove, PlaceAuto, or PlaceMove:SEED. Without a seed it chooses one.
func ParsePlace(s string) (place string, seed uint64, err error) {
	place, number, has := strings.Cut(s, ":")
	switch {
	case has && place == PlaceMove:
		if seed, err = strconv.ParseUint(number, 0, 64); err == nil {
			return place, seed, nil
		}
	case has:
	case place == PlaceMove:
		return place, uint64(rand.Uint32()), nil
	case place == PlaceSame, place == PlaceAuto:
		return place, 0, nil
	}
	return "", 0, fmt.Errorf("place %q: want %s, %s, %s:SEED or %s", s, PlaceSame, PlaceMove, PlaceMove, PlaceAuto)
}

// ErrMissing is wrapped by errors about traces that lack data for a bundle or an extract. The error lists it.
var ErrMissing = errors.New("the trace lacks needed data")

// Open opens a trace for a replay. It refuses a trace from another runtime.
func Open(path string, m *api.Model) (*format.Reader, error) {
	r, err := format.Open(path, nil)
	if err != nil {
		return nil, err
	}
	if a := r.Meta().API; a != "" && a != m.Name {
		r.Close()
		return nil, fmt.Errorf("%s: the trace is for %s, not for %s", path, a, m.Name)
	}
	return r, nil
}

// InFile adds the trace's name to an error that lacks it.
func InFile(path string, err error) error {
	if c := (*format.ErrCorrupt)(nil); errors.As(err, &c) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// IgnoredVariable is a recorded variable that a replay does not set.
type IgnoredVariable struct {
	Name   string `json:"name"`   // variable name
	Reason string `json:"reason"` // why it was not set
}

func (v *IgnoredVariable) String() string { return fmt.Sprintf("%q: %s", v.Name, v.Reason) }

// RecordedVariables returns the variables that configure the simulator as recorded, NAME=value sorted by name, and the trace's other
// simulator variables. It omits variables that a replay decides itself.
func RecordedVariables(sim *api.Simulator, meta *format.Meta) (set []string, ignored []IgnoredVariable) {
	for _, name := range slices.Sorted(maps.Keys(meta.Env)) {
		if !strings.HasPrefix(name, sim.Prefix) || sim.Decides(name) {
			continue
		}
		if err := sim.CheckVariable(name, meta.Env[name]); err != nil {
			ignored = append(ignored, IgnoredVariable{name, err.Error()})
			continue
		}
		set = append(set, name+"="+meta.Env[name])
	}
	return set, ignored
}

// Limits bound a replay's resources, since a trace can ask for any amount in a few bytes. The zero value of each field is its default.
type Limits struct {
	Tasks     uint64 // that graphs run; default DefaultTasks
	Threads   int    // that make calls; default DefaultThreads
	Processes int    // the same; default DefaultProcesses
}

// Limit defaults.
const (
	DefaultTasks     = 1 << 24
	DefaultThreads   = 4096
	DefaultProcesses = 64
)

// LimitError reports a trace above one of the Limits.
type LimitError struct {
	What       string // threads, processes or tasks
	Have, Most uint64
}

func (e *LimitError) Error() string {
	have := fmt.Sprintf("%d %s make calls", e.Have, e.What)
	if e.What == "tasks" {
		have = fmt.Sprintf("its graphs run %d tasks", e.Have)
	}
	return fmt.Sprintf("the trace can't be replayed: %s, at most %d are allowed", have, e.Most)
}

// Check counts a trace's tasks, threads and processes before anything is planned, and refuses a trace above the limits. Calls are not
// counted, since their number is bounded by the file size. Without graphs it reads two columns only.
func (l *Limits) Check(r *format.Reader, m *api.Model) error {
	threads, graphs := map[uint32]bool{}, false
	last := ^uint32(0)
	for b, err := range r.Batches(nil, format.FuncColumn|format.ThreadColumn) {
		if err != nil {
			return err
		}
		for i, t := range b.Thread {
			if t != last {
				last, threads[t] = t, true
			}
			if fn := m.Func(api.ID(b.Func[i])); fn != nil && fn.Task == api.GraphRun {
				graphs = true
			}
		}
	}
	if most := cmp.Or(l.Threads, DefaultThreads); len(threads) > most {
		return &LimitError{"threads", uint64(len(threads)), uint64(most)}
	}
	processes := map[uint32]bool{}
	for t := range threads {
		processes[r.Threads()[t].Process] = true
	}
	if most := cmp.Or(l.Processes, DefaultProcesses); len(processes) > most {
		return &LimitError{"processes", uint64(len(processes)), uint64(most)}
	}
	if !graphs {
		return nil
	}
	tasks, err := graphTasks(r, m)
	if most := cmp.Or(l.Tasks, DefaultTasks); err == nil && tasks > most {
		return &LimitError{"tasks", tasks, most}
	}
	return err
}

// graphTasks returns how many tasks all graph runs have, math.MaxUint64 if there are more.
func graphTasks(r *format.Reader, m *api.Model) (uint64, error) {
	w := timeline.NewWalk(r, m, nil)
	sizes, total := map[*timeline.Object]uint64{}, uint64(0)
	err := w.Run(&timeline.Visitor{
		Graph: func(o *timeline.Object, g timeline.Graph) error {
			sizes[o] = g.Size()
			return nil
		},
		Call: func(_ *timeline.HostCall, k *timeline.Task) error {
			if k != nil && k.Kind == api.GraphRun {
				n := sizes[k.Object]
				total += min(n, math.MaxUint64-total)
			}
			return nil
		},
	})
	return total, err
}
