package blame

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// A Race is a pair of accesses by two processes to memory that they share. At least one writes. They may have run at the same time: neither had
// certainly ended when the other one was issued, and no wait for a notify or an event of the other process can have put them in order. If nothing
// failed, it is a hint. The accesses of kernels are not in the trace: a launch with the address among its arguments may read or write there.
type Race struct {
	Call          // the later call
	Writes bool   `json:"writes"`          // the later call writes
	Names  bool   `json:"names,omitempty"` // the later call launches a kernel with the address: it reads, writes or neither
	Other  Call   `json:"other"`           // the earlier call
	Wrote  bool   `json:"wrote"`           // the earlier call writes
	Named  bool   `json:"named,omitempty"` // the earlier call launches a kernel with the address
	Place  Place  `json:"place"`           // the address in the memory that the other process exported
	Bytes  uint64 `json:"bytes"`           // that both access, 0 if that is not known
	Races  int    `json:"races"`           // such pairs in the same two processes and the same memory
}

// unsure reports whether the accesses of one of the calls are not known.
func (x *Race) unsure() bool { return x.Names || x.Named }

// A BareRead is a read of another process's memory without a wait for that process, unlike almost all other reads into the same place. If nothing failed,
// it is a hint.
type BareRead struct {
	Call
	Place  Place  `json:"place"`  // the address in the memory that the other process exported
	Bytes  uint64 `json:"bytes"`  // that it reads
	Owner  int    `json:"owner"`  // process that exported the memory
	Signal string `json:"signal"` // that the process waited for at other times
	Waited int    `json:"waited"` // reads after a wait since the read before them
	Reads  int    `json:"reads"`  // reads into the same places, but the first ones
}

// maxShared limits the accesses that are kept for each memory, the first ones.
const maxShared = 1 << 12

// sharing has the accesses to memory that processes share, and the waits for each other's objects.
type sharing struct {
	exported map[string]*timeline.Object           // memory by key
	origin   map[*timeline.Object]*timeline.Object // exported memory by the imported one
	accesses map[*timeline.Object][]*sharedAccess  // by exported memory
	waits    map[uint32][]*shared                  // by process
	signals  map[*timeline.Object]bool             // exported objects
	reads    map[readKey]*readHabit
	tasks    map[uint64][]*shared // by call
	unknown  bool                 // a graph waits, at an unknown time
}

// readKey identifies reads from a memory to the same place.
type readKey struct {
	memory  *timeline.Object
	process uint32
	to      uint64
}

type readHabit struct {
	waits  int           // of the process, before the latest read
	n      int           // reads, without the first one
	waited int           // of them after a wait since the read before
	bare   *sharedAccess // the first one that was not
}

// minReads is the number of reads that show a habit. At most one in rareReads may be without a wait.
const minReads, rareReads = 5, 5

// shared is a task of one process.
type shared struct {
	process uint32
	start   int64  // of the call
	from    int64  // when the task began, at the earliest
	end     int64  // when it ended, at the latest
	signal  string // that a wait is for
}

type sharedAccess struct {
	shared
	call         *Call
	memory       *timeline.Object // the exported one
	offset, size uint64
	writes       bool
	names        bool // of a kernel: it may read or write from offset on
}

// conflicts reports whether both may access the same bytes, and one of them may write.
func (a *sharedAccess) conflicts(b *sharedAccess) bool {
	return a.process != b.process && (a.writes || b.writes || a.names || b.names) && max(a.offset, b.offset) < min(a.offset+a.size, b.offset+b.size)
}

func newSharing() sharing {
	return sharing{exported: map[string]*timeline.Object{}, origin: map[*timeline.Object]*timeline.Object{}, signals: map[*timeline.Object]bool{},
		accesses: map[*timeline.Object][]*sharedAccess{}, waits: map[uint32][]*shared{}, tasks: map[uint64][]*shared{}, reads: map[readKey]*readHabit{}}
}

// comparable reports whether the times of all processes in a trace are those of one clock.
func comparable(meta *format.Meta, m *api.Model) bool {
	if m.Simulator.Virtual(meta.Env) {
		return false
	}
	return len(meta.Merged) == 0 || !slices.ContainsFunc(meta.Merged[1:], func(x format.Merged) bool { return !x.OneClock })
}

// see follows the calls that share memory, access it, or wait.
func (x *sharing) see(r *format.Reader, m *api.Model, s *timeline.State, e *timeline.Event, accesses []access.Access) {
	if e.Fn == nil || !e.OK() {
		return
	}
	switch e.Fn.Shares {
	case api.Export:
		for _, u := range e.Uses {
			if u.Object.Kind.Memory() && u.Offset == 0 {
				x.exported[timeline.ExportKey(e.Call)] = u.Object
			}
			x.signals[u.Object] = true
		}
	case api.Import:
		o := x.exported[timeline.ImportKey(e.Fn, e.Call)]
		for _, u := range e.Uses {
			if o != nil && u.Object.Created == e.Call.Index {
				x.origin[u.Object], x.origin[o] = o, o
			}
		}
	}
	if len(x.origin) == 0 || e.Fn.Task == api.NoTask && e.Fn.Sync == api.NoSync {
		return
	}
	var inside []*sharedAccess
	for _, a := range accesses {
		names := a.Kind == access.Names && e.Fn.Task == api.Kernel
		if o, offset, ok := s.FindEnd(e.Process, a.Addr); ok && (a.Size > 0 || names) && x.origin[o] != nil {
			inside = append(inside, &sharedAccess{memory: x.origin[o], offset: offset, size: max(a.Size, 1), writes: a.Kind == access.Writes, names: names})
		}
	}
	task := shared{process: e.Process, start: e.Call.Start, from: e.Call.Start, end: e.Call.End}
	if x.waitsFor(e) || e.Fn.Task == api.Wait && len(inside) > 0 {
		x.unknown = x.unknown || e.Captured != nil
		x.waits[e.Process] = append(x.waits[e.Process], &task)
		task.signal = "memory"
		for _, u := range e.Uses {
			if x.signals[u.Object.Exported()] {
				task.signal = objectName(u.Object)
			}
		}
		x.tasks[e.Call.Index] = append(x.tasks[e.Call.Index], &task)
		return
	}
	for _, k := range inside {
		if e.Captured == nil && !k.writes && !k.names && k.memory.Process != e.Process {
			x.read(r, m, e, k, accesses)
		}
		most := maxShared
		if k.names {
			most /= 2 // leave room for known accesses
		}
		if e.Captured == nil && len(x.accesses[k.memory]) < most {
			k.shared, k.call = task, describe(r, m, e)
			x.accesses[k.memory] = append(x.accesses[k.memory], k)
			x.tasks[e.Call.Index] = append(x.tasks[e.Call.Index], &k.shared)
		}
	}
}

// read follows the reads of another process's memory.
func (x *sharing) read(r *format.Reader, m *api.Model, e *timeline.Event, k *sharedAccess, accesses []access.Access) {
	i := slices.IndexFunc(accesses, func(a access.Access) bool { return a.Kind == access.Writes })
	if i < 0 {
		return
	}
	key, waits := readKey{k.memory, e.Process, accesses[i].Addr}, len(x.waits[e.Process])
	h := x.reads[key]
	if h == nil {
		x.reads[key] = &readHabit{waits: waits}
		return
	}
	h.n++
	if waits > h.waits {
		h.waited++
	} else if h.bare == nil {
		h.bare = k
		k.call = describe(r, m, e)
	}
	h.waits = waits
}

// waitsFor reports whether a call or its task waits for an event or a notify that processes share.
func (x *sharing) waitsFor(e *timeline.Event) bool {
	if e.Fn.Task != api.Wait && e.Fn.Sync == api.NoSync {
		return false
	}
	return slices.ContainsFunc(e.Uses, func(u timeline.Use) bool { return x.signals[u.Object.Exported()] })
}

// ordered reports whether b may have waited for something that came after a: by then b's process had issued a wait whose end was not known when a
// was issued.
func (x *sharing) ordered(a, b *shared) bool {
	return slices.ContainsFunc(x.waits[b.process], func(w *shared) bool { return w.start <= b.start && w.end > a.start })
}

// races returns the accesses that nothing can have put in order, the first one for each memory and pair of processes. Known accesses go first.
func (x *sharing) races() (out []*Race, of []*sharedAccess) {
	type group struct {
		memory *timeline.Object
		a, b   uint32
	}
	first := map[group]int{} // in out
	for memory, all := range x.accesses {
		for j, b := range all {
			for _, a := range all[:j] {
				if !a.conflicts(b) || a.end <= b.from || b.end <= a.from || x.ordered(&a.shared, &b.shared) || x.ordered(&b.shared, &a.shared) {
					continue
				}
				from, to := max(a.offset, b.offset), min(a.offset+a.size, b.offset+b.size)
				race := Race{Call: *b.call, Writes: b.writes, Names: b.names, Other: *a.call, Wrote: a.writes, Named: a.names, Bytes: to - from}
				if race.unsure() {
					race.Bytes = 0
				}
				g := group{memory, min(a.process, b.process), max(a.process, b.process)}
				i, known := first[g]
				if !known {
					i, first[g] = len(out), len(out)
					out, of = append(out, &race), append(of, &sharedAccess{memory: memory, offset: from})
				} else if out[i].unsure() && !race.unsure() {
					out[i], of[i].offset = &race, from
				}
				if out[i].unsure() == race.unsure() {
					out[i].Races++
				}
			}
		}
	}
	return out, of
}

// bareReads lists the first read without a wait of each process and memory, if almost all other reads come after one.
func (b *blamer) bareReads() error {
	type group struct {
		memory  *timeline.Object
		process uint32
	}
	sums := map[group]*readHabit{}
	for k, h := range b.sharing.reads {
		g := group{k.memory, k.process}
		if sums[g] == nil {
			sums[g] = &readHabit{}
		}
		sum := sums[g]
		sum.n, sum.waited = sum.n+h.n, sum.waited+h.waited
		if h.bare != nil && (sum.bare == nil || h.bare.call.Index < sum.bare.call.Index) {
			sum.bare = h.bare
		}
	}
	for g, h := range sums {
		if h.bare == nil || h.waited < minReads || rareReads*(h.n-h.waited) > h.n {
			continue
		}
		p, err := placeOf(b.r, b.m, g.memory, g.memory.Handle+h.bare.offset)
		if err != nil {
			return err
		}
		waits := b.sharing.waits[g.process]
		b.rep.BareReads = append(b.rep.BareReads, BareRead{Call: *h.bare.call, Place: *p, Bytes: h.bare.size, Owner: b.r.Processes()[g.memory.Process].PID,
			Signal: waits[len(waits)-1].signal, Waited: h.waited, Reads: h.n})
	}
	slices.SortFunc(b.rep.BareReads, func(a, c BareRead) int { return cmp.Compare(a.Index, c.Index) })
	return nil
}

// races finds unordered accesses of two processes to the memory that they share.
func (b *blamer) races() error {
	x := &b.sharing
	if !b.unfailed || len(x.accesses) == 0 || x.unknown {
		return nil
	}
	if err := b.bareReads(); err != nil || !comparable(b.r.Meta(), b.m) {
		return err
	}
	w := timeline.NewWalk(b.r, b.m, nil)
	err := w.Run(&timeline.Visitor{Task: func(k *timeline.Task) error {
		for _, task := range x.tasks[k.Call] {
			if task.from, task.end = k.From, k.To; k.Open {
				task.end = math.MaxInt64
			}
		}
		return nil
	}})
	if err != nil {
		return err
	}
	races, of := x.races()
	for i, race := range races {
		p, err := placeOf(b.r, b.m, of[i].memory, of[i].memory.Handle+of[i].offset)
		if err != nil {
			return err
		}
		race.Place = *p
		b.rep.Races = append(b.rep.Races, *race)
	}
	slices.SortFunc(b.rep.Races, func(a, c Race) int { return cmp.Compare(a.Start, c.Start) })
	b.rep.Races = b.rep.Races[:min(len(b.rep.Races), maxSuspects)]
	return nil
}
