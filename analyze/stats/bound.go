package stats

import (
	"path/filepath"
	"strings"
)

// Bound says what most of a typical step waits for. It follows launches from the thread that hands them to the runtime to the thread that they come
// from.
type Bound struct {
	By       string  `json:"by"`                        // device, loader, host, queue or waits
	Thread   string  `json:"thread"`                    // thread that waits for the device, loads, runs its own code, or hands on launches
	Share    float64 `json:"share"`                     // part of the step that this takes
	Busy     float64 `json:"busy,omitempty"`            // for waits: largest part of the waiting for which the device had work
	Blocked  float64 `json:"blocked,omitempty"`         // part of the step in which a loading thread does not run
	Python   bool    `json:"python,omitempty"`          // the thread's program is Python
	Launcher string  `json:"launcher,omitempty"`        // thread that launches, if it is another one and hands launches on
	Waits    float64 `json:"launcher_waits,omitempty"`  // part of the step for which it waits
	EveryNS  int64   `json:"launch_every_ns,omitempty"` // mean time between two launches or runs of graphs
}

// Values of Bound.By.
const (
	ByDevice = "device"
	ByLoader = "loader"
	ByHost   = "host"
	ByQueue  = "queue"
	ByWaits  = "waits" // waits for the device return long after its work, whose times are measured
)

const (
	boundShare  = 0.5 // least part of a step
	loaderShare = 0.3
)

// mean returns the parts of a typical step on a thread.
func (x *Splitter) mean(d *doing) Parts {
	of := d.sum
	for i := range of {
		of[i] /= x.n
	}
	return partsOf(&of, x.took/x.n)
}

// driver returns the thread from which the launches of the main thread come, and its index: the main thread itself, unless it launches most and
// mostly waits between calls. A thread that makes calls for the launches comes before one that only works more, as the loader's does.
func (x *Splitter) driver() (*doing, int) {
	main, at := x.main()
	if main == nil || x.n == 0 || !x.divided {
		return main, at
	}
	p := x.mean(main)
	if by, _ := x.mostLaunches(); by != main || main.issued.typical.launches == 0 || 2*p.BlockedNS <= p.OwnNS+p.BlockedNS {
		return main, at
	}
	n := main.issued.typical.launches
	if d, i := x.busiest(at, p.busy()/2, n/callsForLaunches, n/callsForLaunches); d != nil {
		return d, i
	}
	if d, i := x.busiest(at, p.busy(), 0, n/2); d != nil {
		return d, i
	}
	return main, at
}

// callsForLaunches is the largest number of launches for each call of the thread from which they come, in a framework that asks the runtime about
// each operator.
const callsForLaunches = 4

// busiest returns the busiest other thread in a thread's process, and its index, or nil. The thread is busy for more than least, makes at least that many calls,
// and launches at most so often itself. A thread that serves callbacks does nothing while it waits for one.
func (x *Splitter) busiest(of int, least, calls, launches int64) (d *doing, at int) {
	for i := range x.threads {
		t := &x.threads[i]
		if i == of || !x.known(t) || t.polls || x.w.Process(uint32(i)) != x.w.Process(uint32(of)) ||
			int64(t.calls.typical()) < calls || t.issued.typical.launches > launches {
			continue
		}
		if q := x.mean(t); q.busy() > least {
			d, at, least = t, i, q.busy()
		}
	}
	return d, at
}

// busy returns the time in which a thread works, in calls or between them.
func (p *Parts) busy() int64 { return p.OwnNS + p.LaunchingNS + p.CopyingNS + p.OtherNS }

// launcher returns the thread that launches most in typical steps, and its index: the main thread, if it launches. The main thread makes the steps, and
// may leave the launches to another one.
func (x *Splitter) launcher() (*doing, int) {
	if main, at := x.main(); main.issued.typical.launches > 0 {
		return main, at
	}
	return x.mostLaunches()
}

// mostLaunches returns the thread of the main thread's process that launches most in typical steps, and its index: the main thread, if none does.
func (x *Splitter) mostLaunches() (*doing, int) {
	main, at := x.main()
	most, by := main, at
	for i := range x.threads {
		t := &x.threads[i]
		if t.some && x.w.Process(uint32(i)) == x.w.Process(uint32(at)) && t.issued.typical.launches > most.issued.typical.launches {
			most, by = t, i
		}
	}
	return most, by
}

const (
	// shortPace is the longest mean time between two launches of short kernels, and manyLaunches the least number of launches in such a step.
	shortPace    = 50_000
	manyLaunches = 10
)

// outpaced returns the finding that the device finishes kernels as fast as the host launches them, so that they are short: in typical steps the host
// launches often, and hardly waits for the device. It returns nil otherwise.
func (x *Splitter) outpaced() *Finding {
	main, _ := x.main()
	if main == nil || x.n == 0 {
		return nil
	}
	l, _ := x.launcher()
	n, waits := l.issued.typical.launches, float64(max(main.sum[PartWaiting], l.sum[PartWaiting]))/float64(max(x.took, 1))
	if n < manyLaunches*x.n || x.took/n > shortPace || waits > worthShare {
		return nil
	}
	return &Finding{Kind: ShortTasks, CostNS: l.sum[PartLaunching], EveryNS: x.took / n, Count: uint64(n / x.n), Share: waits}
}

// bound returns what most of a typical step waits for, nil if the trace does not show it.
func (x *Splitter) bound() *Bound {
	main, at := x.main()
	if main == nil || x.n == 0 {
		return nil
	}
	driver, from := x.driver()
	p, q, took := x.mean(main), x.mean(driver), x.took/x.n
	part := func(ns int64) float64 { return min(float64(ns)/float64(max(took, 1)), 1) }
	out := &Bound{Python: x.python(from)}
	out.Thread, _ = x.thread(from)
	launcher, by := x.launcher()
	if n := launcher.issued.typical.launches; n > 0 {
		out.EveryNS = x.took / int64(n)
	}
	hands := x.mean(launcher)
	if driver != launcher {
		out.Launcher, _ = x.thread(by)
		out.Waits = part(hands.BlockedNS)
	}
	own := q.OwnNS
	if driver != main {
		own += p.OwnNS
	}
	switch load, blocked := driver.gaps.loading(x.n); {
	case part(max(p.WaitingNS, q.WaitingNS)) >= boundShare:
		if out.By, out.Share = ByDevice, part(q.WaitingNS); p.WaitingNS > q.WaitingNS {
			out.Share, out.Launcher = part(p.WaitingNS), ""
			out.Thread, _ = x.thread(at)
		}
	case !x.divided:
		return nil
	case part(load) >= loaderShare:
		out.By, out.Share, out.Blocked = ByLoader, part(load), part(blocked)
	case part(handing(&hands)) >= boundShare && driver == main && (launcher == main && main.calls.none(PartWaiting) && x.feeds(at) || launcher != main && part(p.BlockedNS+p.WaitingNS) >= boundShare):
		out.By, out.Share, out.Launcher, out.Waits = ByQueue, part(handing(&hands)), "", 0
		out.Thread, _ = x.thread(by)
	case part(own) >= boundShare:
		out.By, out.Share = ByHost, part(q.OwnNS)
	default:
		return nil
	}
	return out
}

// late makes a bound by the device one by waits, if the devices had work for less than half of the time for which typical steps wait. waited is that time.
func (b *Bound) late(devices []Device, waited int64) {
	if b.By != ByDevice || len(devices) == 0 || waited <= 0 {
		return
	}
	busy := int64(0)
	for i := range devices {
		if d := &devices[i]; d.Measured < d.Tasks {
			return
		}
		busy += devices[i].BusyAtMostNS
	}
	if 2*busy < waited {
		b.By, b.Busy = ByWaits, float64(busy)/float64(waited)
	}
}

// handing returns the time in which a thread hands on launches.
func handing(p *Parts) int64 { return p.OwnNS + p.LaunchingNS + p.OtherNS }

// loading returns the longest mean time of a gap before a copy to the device, and the part in which the thread did not run. A gap that only a few
// steps have does not count.
func (g *gaps) loading(n int64) (ns, blocked int64) {
	for i := range g.places {
		p := &g.places[i]
		if p.latest.upToCopy <= 0 || p.latest.upToCopy >= nearCopy {
			continue
		}
		if gap := g.mean(i, n, p.latest); gap.NS > ns && !gap.Rare(n) {
			ns, blocked = gap.NS, gap.BlockedNS
		}
	}
	return ns, blocked
}

// none reports whether no call of typical steps has the activity.
func (c *topCalls) none(what Part) bool { return c.most(what, true) == nil }

// feeds reports whether another thread of the process waits for the device or copies in typical steps, as the one that fills a queue of launches.
func (x *Splitter) feeds(launcher int) bool {
	for i := range x.threads {
		d := &x.threads[i]
		if i != launcher && d.some && x.w.Process(uint32(i)) == x.w.Process(uint32(launcher)) && !(d.calls.none(PartWaiting) && d.calls.none(PartCopying)) {
			return true
		}
	}
	return false
}

// python reports whether a thread's program is a Python interpreter.
func (x *Splitter) python(thread int) bool {
	list := x.w.Reader.Processes()
	p := int(x.w.Process(uint32(thread)))
	return p < len(list) && strings.HasPrefix(filepath.Base(list[p].Program()), "python")
}

// stall returns the gap that is long in a few typical steps alone, and its thread; nil for none. A gap before a copy to the device comes first: a batch was late. It is
// on the thread that makes the steps or on the one from which its launches come.
// Without such a copy it is only reported for a thread that does not make the steps, if it takes as long as a step: the thread may make no call for most of each step,
// and the thread that makes the steps has slow steps instead.
func (x *Splitter) stall() (out *Gap, thread string) {
	main, at := x.main()
	driver, from := x.driver()
	if driver == nil || x.n == 0 {
		return nil, ""
	}
	see := func(d *doing, i int) {
		for _, g := range d.gaps.stalls(x.n) {
			if least := x.took / x.n; g.Copy && 2*g.LongNS < least || !g.Copy && (d == main || g.LongNS < least) {
				continue
			}
			if out == nil || g.Copy && !out.Copy || g.Copy == out.Copy && g.LongNS*g.Steps > out.LongNS*out.Steps {
				out = &g
				thread, _ = x.thread(i)
			}
		}
	}
	see(driver, from)
	if main != driver {
		see(main, at)
	}
	return out, thread
}
