package stats

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/timeline"
)

// Device sums up the tasks on all streams of a device of a process.
type Device struct {
	Process      int    `json:"process"`         // process id
	Rank         *int   `json:"rank,omitempty"`  // rank of the process
	Device       int    `json:"device"`          // device number, -1 if not known
	Tasks        uint64 `json:"tasks"`           // number of tasks on its streams
	Measured     uint64 `json:"measured"`        // tasks with a measured time; other tasks are bracketed by calls
	SpanNS       int64  `json:"span_ns"`         // time from the first task's start to the last task's end
	BusyAtMostNS int64  `json:"busy_at_most_ns"` // time in which any stream may have had work; exact if all tasks are measured
	IdleTimes    int    `json:"idle_times"`      // number of times without work

	LongestIdle *Idle `json:"longest_idle,omitempty"` // longest of these times; next is empty if it was also idle time of no stream in idle
}

// IdleNS returns the time in which the device certainly had no work.
func (d *Device) IdleNS() int64 { return d.SpanNS - d.BusyAtMostNS }

// devices sums up tasks by device.
type devices struct {
	byPlace map[devicePlace]*deviceSum
	latest  *deviceSum
}

type devicePlace struct {
	process uint32
	device  int
}

type deviceSum struct {
	devicePlace
	tasks, measured uint64
	first, last     int64
	busy            union
}

func (x *devices) task(l *timeline.Lane, k *timeline.Task) {
	at := devicePlace{l.Process, l.Device}
	if x.latest == nil || x.latest.devicePlace != at {
		if x.latest = x.byPlace[at]; x.latest == nil {
			x.latest = &deviceSum{devicePlace: at, first: k.From}
			if x.byPlace == nil {
				x.byPlace = map[devicePlace]*deviceSum{}
			}
			x.byPlace[at] = x.latest
		}
	}
	d := x.latest
	if d.tasks++; k.Measured {
		d.measured++
	}
	d.first, d.last = min(d.first, k.From), max(d.last, k.To)
	d.busy.add(k.From, k.To)
}

// list returns the devices, ordered by process and number.
func (x *devices) list(w *timeline.Walk) []Device {
	out := []Device{}
	for at, d := range x.byPlace {
		g := Device{Process: w.PID(at.process), Rank: rankOf(w, at.process), Device: at.device, Tasks: d.tasks, Measured: d.measured, SpanNS: d.last - d.first, BusyAtMostNS: d.busy.length(), IdleTimes: max(d.busy.closed+len(d.busy.open)-1, 0)}
		if p := d.busy.longestGap(); p.to > p.from {
			g.LongestIdle = &Idle{Process: g.Process, Time: p.from, NS: p.to - p.from, Step: -1}
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Device, b.Device))
	})
	return out
}

// A union adds up periods that may overlap and come in any order. It forgets the oldest ones if there are many: a later period that overlaps
// those is cut.
type union struct {
	open   []period // disjoint, in the order of time
	floor  int64    // end of the forgotten periods
	sum    int64    // of the forgotten periods
	closed int      // forgotten periods
	gap    period   // longest time between forgotten periods
}

type period struct{ from, to int64 }

// maxPeriods bounds the periods of a union, 64 KiB.
const maxPeriods = 4096

func (u *union) add(from, to int64) {
	from = max(from, u.floor)
	if to <= from {
		return
	}
	// i is the first period that ends at from or later, j the first after it that begins beyond to.
	i := len(u.open)
	for i > 0 && u.open[i-1].to >= from {
		i--
	}
	j := i
	for j < len(u.open) && u.open[j].from <= to {
		from, to = min(from, u.open[j].from), max(to, u.open[j].to)
		j++
	}
	u.open = slices.Replace(u.open, i, j, period{from, to})
	if len(u.open) > maxPeriods {
		u.gap = u.longestGap()
		for _, p := range u.open[:maxPeriods/2] {
			u.sum += p.to - p.from
			u.floor = p.to
		}
		u.closed += maxPeriods / 2
		u.open = slices.Delete(u.open, 0, maxPeriods/2)
	}
}

// longestGap returns the longest time between two periods.
func (u *union) longestGap() period {
	longest := u.gap
	for i := 1; i < len(u.open); i++ {
		if p := (period{u.open[i-1].to, u.open[i].from}); p.to-p.from > longest.to-longest.from {
			longest = p
		}
	}
	return longest
}

// length returns the time that the periods cover.
func (u *union) length() int64 {
	sum := u.sum
	for _, p := range u.open {
		sum += p.to - p.from
	}
	return sum
}
