package compile

import (
	"cmp"
	"fmt"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Limits bound what a replay takes, since a trace can ask for any amount in a few bytes. The zero value of each field is its default.
type Limits struct {
	Tasks     uint64 // that graphs run; default DefaultTasks
	Threads   int    // that make calls; default DefaultThreads
	Processes int    // the same; default DefaultProcesses
}

// Defaults of Limits.
const (
	DefaultTasks     = 1 << 24
	DefaultThreads   = 4096
	DefaultProcesses = 64
)

// Check counts the tasks, threads and processes of a trace before anything is planned. It refuses a trace with more than the limits. Calls are not counted: a trace has
// as many as its size allows. Traces without graphs are read at a tenth of what their calls cost.
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
		return fmt.Errorf("the trace %w: %d threads make calls, at most %d are allowed; --max-threads=%d allows them", errRefused, len(threads), most, len(threads))
	}
	processes := map[uint32]bool{}
	for t := range threads {
		processes[r.Threads()[t].Process] = true
	}
	if most := cmp.Or(l.Processes, DefaultProcesses); len(processes) > most {
		return fmt.Errorf("the trace %w: %d processes make calls, at most %d are allowed; --max-processes=%d allows them", errRefused, len(processes), most, len(processes))
	}
	if !graphs {
		return nil
	}
	tasks, err := graphTasks(r, m)
	if most := cmp.Or(l.Tasks, DefaultTasks); err == nil && tasks > most {
		return fmt.Errorf("the trace %w: its graphs run %d tasks, at most %d are allowed; --max-tasks=%d allows them", errRefused, tasks, most, tasks)
	}
	return err
}

// graphTasks is how many tasks all runs of graphs have, math.MaxUint64 if there are more.
func graphTasks(r *format.Reader, m *api.Model) (uint64, error) {
	w, err := timeline.NewWalk(r, m, &timeline.WalkOptions{NoSteps: true})
	if err != nil {
		return 0, err
	}
	sizes, total := map[*timeline.Object]uint64{}, uint64(0)
	err = w.Run(&timeline.Visitor{
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
