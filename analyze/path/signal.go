package path

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// signal identifies the event, the notify or the value in memory that a task sets or awaits.
type signal struct {
	object *timeline.Object
	addr   uint64
	value  uint64
	any    bool // any value at the address
}

// signals are the signals of the tasks that a Finder holds. A wait for an event follows the latest record before it (timeline.Task.Follows). A wait
// for a notify or a value may be put on its stream before the task that ends it.
type signals struct {
	of      map[int]signal           // by index of the task
	setters map[signal]*setters      // of notifies and values
	records map[*timeline.Object]int // index of the latest record of an event
}

// setters are the tasks that set a notify or a value.
type setters struct {
	tasks []int   // indices
	ends  []ended // of those with a known end, by end, once they were needed
}

// ended is the end of a task by its position.
type ended struct {
	at   int64
	task int
}

func newSignals() signals {
	return signals{of: map[int]signal{}, setters: map[signal]*setters{}, records: map[*timeline.Object]int{}}
}

// add adds the signal of a task, if it sets or awaits one.
func (s *signals) add(t *task, h *timeline.HostCall, k *timeline.Task) {
	if k.Kind != api.Record && k.Kind != api.Wait && (k.Kind != api.Fill || k.Bytes > 8) {
		return
	}
	of := signal{}
	if k.Object != nil {
		of.object = k.Object.Exported()
	} else if k.Kind == api.Wait {
		of.addr, of.value = valueOf(h, k, api.DevArgs)
	} else if k.Kind == api.Fill {
		of.addr, of.value = valueOf(h, k, api.Fills)
	}
	if of == (signal{}) {
		return
	}
	t.signals, s.of[t.index] = true, of
	if k.Kind == api.Record && of.object.Kind == api.Event {
		s.records[of.object] = t.index
	}
	s.set(t, of)
}

// valueOf returns the address and the value among the arguments of a call.
func valueOf(h *timeline.HostCall, k *timeline.Task, role api.Role) (addr, value uint64) {
	args := words(h)
	for i := range k.Fn.Params {
		switch p := &k.Fn.Params[i]; {
		case int(p.Word) >= len(args):
		case p.Role == role:
			addr = args[p.Word]
		case p.Name == "value":
			value = args[p.Word]
		}
	}
	return addr, value
}

func words(h *timeline.HostCall) []uint64 {
	if h.Raw == nil {
		return nil
	}
	return h.Raw.Args
}

// set adds a task to the setters of its signal.
func (s *signals) set(t *task, of signal) {
	if t.kind == api.Wait || of.object != nil && of.object.Kind == api.Event {
		return
	}
	put := func(of signal) {
		if s.setters[of] == nil {
			s.setters[of] = &setters{}
		}
		s.setters[of].tasks = append(s.setters[of].tasks, t.index)
	}
	put(of)
	if of.addr != 0 {
		put(signal{addr: of.addr, any: true})
	}
}

// latest reports whether a task is the latest record of an event.
func (s *signals) latest(t *task) bool {
	if !t.signals {
		return false
	}
	i, ok := s.records[s.of[t.index].object]
	return ok && i == t.index
}

// forget drops the records of events that the program has destroyed.
func (s *signals) forget() {
	maps.DeleteFunc(s.records, func(o *timeline.Object, _ int) bool { return o.Ended != timeline.NoCall })
}

// keep drops all signals but those of some tasks.
func (s *signals) keep(tasks []task) {
	clear(s.setters)
	if len(s.of) == 0 {
		return
	}
	of := map[int]signal{}
	for i := range tasks {
		if t := &tasks[i]; t.signals {
			of[t.index] = s.of[t.index]
			s.set(t, of[t.index])
		}
	}
	s.of = of
}

// set returns the indices of the tasks that may end the wait of a task for a notify or a value.
func (f *Finder) set(t *task) []int {
	if t.kind != api.Wait || !t.signals {
		return nil
	}
	of := f.signals.of[t.index]
	s := f.signals.setters[of]
	if s == nil && of.addr != 0 {
		s = f.signals.setters[signal{addr: of.addr, any: true}]
	}
	if s == nil {
		return nil
	}
	return s.tasks
}

// setter returns the task that ended the wait of a task for a notify or a value by a moment, and its end; -1 for none. It is the last one until the
// moment that has set this value, or else any value. ok is false if no end is known.
func (f *Finder) setter(t *task, until int64) (task int, end int64, ok bool) {
	of := f.signals.of[t.index]
	s := f.signals.setters[of]
	exact := s != nil && of.addr != 0
	if s == nil && of.addr != 0 {
		s = f.signals.setters[signal{addr: of.addr, any: true}]
	}
	if s == nil {
		return -1, 0, true // an event, the host, or another process
	}
	if s.ends == nil {
		for _, index := range s.tasks {
			k := f.find(index)
			if at, ok := f.end(k, math.MaxInt64); ok {
				s.ends = append(s.ends, ended{at, k})
			}
		}
		slices.SortStableFunc(s.ends, func(a, b ended) int { return cmp.Compare(a.at, b.at) })
	}
	i, _ := slices.BinarySearchFunc(s.ends, until, func(e ended, t int64) int {
		if e.at <= t {
			return -1
		}
		return 1
	})
	switch {
	case i > 0:
		i--
	case len(s.ends) == 0 || !exact:
		return -1, 0, len(s.ends) > 0
	}
	// The clocks of two streams may differ a little: a wait can end before the only task that ends it.
	return s.ends[i].task, min(s.ends[i].at, until), true
}
