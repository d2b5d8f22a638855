package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/sim"
	"github.com/acltrace/acltrace/sim/model"
)

// Simulator is what is simulated and how.
type Simulator struct {
	Device    *sim.Description    `json:"device,omitempty"` // this and the next two where it has a model of times
	Model     *model.Model        `json:"model,omitempty"`
	Presets   []string            `json:"presets,omitempty"`
	Counts    map[string]Counts   `json:"counts"` // by layer
	Functions []SimulatedFunction `json:"functions"`
}

// Counts are the functions of a layer.
type Counts struct {
	Known     int `json:"known"`
	Simulated int `json:"simulated"`
}

// SimulatedFunction is one function of the runtime.
type SimulatedFunction struct {
	Name      string `json:"name"`
	Layer     string `json:"layer"`
	Simulated bool   `json:"simulated"`
	Task      string `json:"task,omitempty"`  // that it puts on a stream
	Waits     string `json:"waits,omitempty"` // what it waits for, or asks for
	Doc       string `json:"doc"`
}

// NewSimulator describes the simulator: the functions of the runtime whose names begin with one of the given, or all. The model of times
// is nil where it has none.
func NewSimulator(m *api.Model, cost *model.Model, names []string) (*Simulator, error) {
	s := &Simulator{Counts: map[string]Counts{}}
	if cost != nil {
		d := sim.Describe()
		s.Device, s.Model, s.Presets = &d, cost, model.Presets()
	}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		if f.Form != nil {
			continue
		}
		c := s.Counts[f.Layer]
		c.Known++
		if f.Simulated {
			c.Simulated++
		}
		s.Counts[f.Layer] = c
		wanted := len(names) == 0
		for _, n := range names {
			wanted = wanted || strings.HasPrefix(f.Name, n)
		}
		if wanted {
			s.Functions = append(s.Functions, SimulatedFunction{f.Name, f.Layer, f.Simulated, f.Task.String(), f.Sync.String(), f.Doc})
		}
	}
	if len(s.Functions) == 0 {
		return nil, fmt.Errorf("no function of the runtime begins with %s", strings.Join(names, " or "))
	}
	return s, nil
}

// Text writes the form for people.
func (s *Simulator) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { Printf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	if s.Model != nil {
		s.times(row)
	}
	for _, layer := range slices.Sorted(maps.Keys(s.Counts)) {
		if n := s.Counts[layer]; n.Simulated > 0 {
			row("functions of "+layer, "%d of %d are simulated; the others return an error and say their name on stderr", n.Simulated, n.Known)
		}
	}
	Printf(t, "\n")
	Printf(t, "FUNCTION\tSIMULATED\tPUTS ON A STREAM\tWAITS OR ASKS\n")
	for _, f := range s.Functions {
		yes := "no"
		if f.Simulated {
			yes = "yes"
		}
		Printf(t, "%s\t%s\t%s\t%s\n", f.Name, yes, f.Task, f.Waits)
	}
	return t.Flush()
}

// times writes the device and how long what takes on it.
func (s *Simulator) times(row func(name, format string, args ...any)) {
	row("device", "%s with %s of memory, up to %d of them; none was involved in making it", s.Device.SoC, Bytes(s.Device.Memory), s.Device.Devices)
	row("limits", "%d streams a device, %d unfinished tasks a stream, %d events, %d notifies, %d blocks a launch",
		s.Device.Streams, s.Device.Depth, s.Device.Events, s.Device.Notifies, s.Device.Blocks)
	c := s.Model
	row("times", "model %s (presets: %s)", c.Name, strings.Join(s.Presets, ", "))
	row("", "%s", c.Source)
	row("launch", "%v until an idle stream begins, %v between tasks", Duration(c.Launch.Latency), Duration(c.Launch.Overhead))
	row("cores", "%s cube, %s vector; %s streams at once", some(c.Cores.Cube), some(c.Cores.Vector), some(c.Streams))
	for k := range model.NumCopyKinds {
		var sizes []string
		for _, z := range c.Copies[k].Sizes {
			upTo := ""
			if z.UpTo > 0 {
				upTo = " up to " + Bytes(z.UpTo)
			}
			sizes = append(sizes, fmt.Sprintf("%v and %g GB/s%s", Duration(z.Latency), z.Rate, upTo))
		}
		row(strings.ReplaceAll(k.String(), "_", " "), "%s", strings.Join(sizes, ", then "))
	}
	for _, k := range c.Kernels {
		cores := k.Cores
		if cores == "" {
			cores = "vector"
		}
		how := fmt.Sprintf("%v", Duration(k.Fixed))
		if k.Duration > 0 {
			how = fmt.Sprintf("%v", Duration(k.Duration))
		} else {
			if k.Block > 0 {
				how += fmt.Sprintf(", %v for each row of blocks", Duration(k.Block))
			}
			if k.Rate > 0 {
				how += fmt.Sprintf(", %g GB/s", k.Rate)
			}
		}
		row("kernel "+k.Name, "%s, on %s cores", how, cores)
	}
}

// some is a number of a model, of which 0 is no limit.
func some(n int) string {
	if n == 0 {
		return "any number of"
	}
	return fmt.Sprint(n)
}
