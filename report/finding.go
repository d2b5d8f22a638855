package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/human"
)

// firstScreen is the number of lines that the answer and the findings take at most.
const firstScreen = 24

// findingsText writes the findings, each with the command that shows it, in a number of lines. It returns the first command, "" if there are
// no findings.
func findingsText(w io.Writer, path string, s *stats.Stats, lines int, o *TextOptions) (first string) {
	list := s.Findings
	if len(list) == 0 {
		return ""
	}
	Printf(w, "\nFINDINGS, by cost; waits without device times last\n")
	lines -= 3 // the last one says how many are left out
	for i := range list {
		f := &list[i]
		cost := any(human.Duration(f.CostNS))
		if f.CostNS == 0 {
			cost = Bad("!")
		}
		const indent = 9
		text := wrap(sprintf("%7s  %s", cost, findingText(s, f)), o.width(), indent)
		if lines -= strings.Count(text, "\n") + 2; lines < 0 && i > 0 {
			Printf(w, "(%s: --json has all)\n", human.Plural(len(list)-i, "more finding"))
			break
		}
		at := command(path, s, f)
		first = cmp.Or(first, at)
		writeMarked(w, text+"\n")
		Printf(w, "%*s%s\n", indent, "", at)
	}
	return first
}

// command returns the command that shows a finding.
func command(path string, s *stats.Stats, f *stats.Finding) string {
	on := func(words ...string) string { return acltrace(append(words, path)...) }
	if f.Graph != nil {
		return on("cat", "--call", callsOf(f.Graph))
	}
	switch f.Kind {
	case stats.Killed:
		return on("blame")
	case stats.Outlived:
		return on("blame")
	case stats.FailedCalls:
		if f.Fault {
			return on("blame")
		}
		return on("cat", "--failed")
	case stats.Unfinished:
		return on("blame")
	case stats.LostCalls:
		return on("info")
	case stats.Relaunched, stats.HiddenWaits, stats.NoEnd, stats.UnusedGraphs:
		return on("cat", "--call", number(*f.Call))
	case stats.Grows:
		return on("stats", "--memory")
	case stats.PilesUp:
		return on("cat", "--func", f.Func)
	case stats.SlowSteps:
		return on(slowCommand(s, *f.Step)...)
	case stats.OddSteps, stats.EagerSteps:
		return on("cat", "--step", fmt.Sprint(*f.Step))
	case stats.Waits:
		if s.Timed() || f.Func == "" {
			break // the path has the tasks
		}
		if f.Step != nil {
			return on("cat", "--step", fmt.Sprint(*f.Step), "--func", f.Func)
		}
		return on("cat", "--func", f.Func)
	case stats.Copies:
		if f.Count == 0 {
			break
		}
		if f.Step != nil {
			return on("cat", "--step", fmt.Sprint(*f.Step), "--func", f.Func)
		}
		return on("cat", "--func", f.Func)
	case stats.Stalls:
		return on(aroundGap(f.Gap, f.Thread)...)
	case stats.SyncReads, stats.PageableCopies, stats.Synchronizes, stats.EmptiesCache, stats.Allocates, stats.Recaptures:
		return on("cat", "--step", fmt.Sprint(*f.Step), "--func", f.Func)
	case stats.FrequentOperator:
		return on("cat", "--step", fmt.Sprint(*f.Step), "--operator", f.Name)
	case stats.Blocked:
		if g := mainGap(s, f); g != nil && s.Shares.Driver == nil {
			return on(aroundGap(g, s.Shares.Thread)...)
		}
		if d := s.Shares.Driver; d != nil && f.Step != nil {
			var tid int
			if _, err := fmt.Sscanf(d.Thread, "thread %d", &tid); err == nil {
				return on("cat", "--step", fmt.Sprint(*f.Step), "--thread", fmt.Sprint(tid)) // with the times between its calls
			}
		}
		return on("stats", "--by", "thread")
	case stats.OwnTime:
		if g := mainGap(s, f); g != nil {
			return on(aroundGap(g, s.Shares.Thread)...)
		}
		if f.Step != nil {
			return on("cat", "--step", fmt.Sprint(*f.Step))
		}
		return on("stats", "--by", "thread")
	case stats.Launches:
		return on("stats", "--by", "kernel")
	case stats.ShortTasks:
		if f.Device == nil {
			return on("stats", "--by", "kernel")
		}
	case stats.OtherCalls:
		return on("stats", "--by", "function")
	case stats.IdleDevice:
		switch d := f.Device.LongestIdle; {
		case d == nil || d.Next == "" || s.Untimed():
		case d.Mostly == stats.OtherCalls:
			return on("cat", "--call", number(*d.Call))
		default:
			return on("cat", "--from", human.Moment(d.Time), "--to", human.Moment(d.Time+d.NS+1_000))
		}
	case stats.OddRank:
		return on("stats", "--by", "thread")
	case stats.Recorder:
		return on("info")
	}
	return on("stats", "--critical-path")
}

// slowCommand returns the words of the command that shows why a step is the longest.
func slowCommand(s *stats.Stats, n int) []string {
	switch part, l, m := slowPart(s), s.Steps.Longest, moreOf(s.Steps.Longest); {
	case m != nil && m.Copies():
		return []string{"cat", "--step", fmt.Sprint(n), "--func", m.Func}
	case part == stats.PartWaiting && s.Timed():
		return []string{"stats", "--critical-path", "--step", fmt.Sprint(n)}
	case (part == stats.PartOwn || part == stats.PartBlocked) && l.Gap != nil:
		return aroundGap(l.Gap, l.Thread)
	case part <= stats.PartOther && m != nil && moreOften(m):
		return []string{"cat", "--step", fmt.Sprint(n), "--func", m.Func}
	}
	return []string{"cat", "--step", fmt.Sprint(n)}
}

// meanwhile names the longest part of an idle time.
func meanwhile(s *stats.Stats, d *stats.Idle) string {
	switch {
	case s.Untimed():
		return "unknown"
	case d.Mostly == stats.OtherCalls:
		return d.Func
	}
	return partNames[string(d.Mostly)]
}

// deviceBound reports whether the only device always has work and the host waits for it most of the time.
func deviceBound(s *stats.Stats) bool {
	if s.Shares.Steps == 0 || len(s.Devices) != 1 || 20*s.Devices[0].IdleNS() > s.Devices[0].SpanNS || len(s.Streams) == 0 {
		return false
	}
	busiest := slices.MaxFunc(s.Streams, func(a, b stats.Lane) int { return cmp.Compare(a.BusyAtMostNS, b.BusyAtMostNS) })
	return busiest.Bound == "device" && 2*busiest.WaitedNS >= s.Devices[0].SpanNS
}

// mainGap returns the gap that is a good part of the time of a finding about own or blocked time, nil for none.
func mainGap(s *stats.Stats, f *stats.Finding) *stats.Gap {
	if s.Shares == nil {
		return nil
	}
	for i := range s.Shares.Gaps {
		g := &s.Shares.Gaps[i]
		ns := g.NS - g.BlockedNS
		if f.Kind == stats.Blocked {
			ns = g.BlockedNS
		}
		if 4*ns > f.NS && 2*ns > g.NS {
			return g
		}
	}
	return nil
}

// aroundGap returns a command for the calls before and after a gap of a thread.
func aroundGap(g *stats.Gap, thread string) []string {
	var tid int
	switch _, err := fmt.Sscanf(thread, "thread %d", &tid); {
	case g.Call == nil && g.Next == nil:
		return []string{"cat", "--step", fmt.Sprint(*g.Step)}
	case g.Call == nil:
		return []string{"cat", "--call", number(*g.Next)}
	case g.Next == nil:
		return []string{"cat", "--call", number(*g.Call)}
	case *g.Next-*g.Call > 1 && err == nil:
		return []string{"cat", "--call", number(*g.Call) + ":" + number(*g.Next), "--thread", fmt.Sprint(tid)}
	}
	return []string{"cat", "--call", number(*g.Call) + ":" + number(*g.Next)}
}

// unmeasuredText names the kernels without any device time in a trace with device times.
func unmeasuredText(s *stats.Stats) string {
	var names []string
	for i := range s.Kernels {
		if k := &s.Kernels[i]; s.DeviceTimes && k.Count > 0 && k.Measured == 0 {
			names = append(names, human.Kernel(k.Name))
		}
	}
	const most = 3
	switch n := len(names) - most; {
	case len(names) == 0:
		return ""
	case n > 0:
		names = append(names[:most], human.Count(n)+" more")
	}
	return "; not measured: " + strings.Join(names, ", ")
}

// findingText describes a finding in one sentence.
func findingText(s *stats.Stats, f *stats.Finding) string {
	whole := "of the time"
	if s.Shares != nil && s.Shares.Steps > 0 {
		whole = "of step time"
	}
	if s.Shares != nil && s.Shares.Rank != nil {
		whole += fmt.Sprintf(" of rank %d", *s.Shares.Rank)
	}
	if f.Graph != nil {
		return graphFault(f.Graph)
	}
	switch f.Kind {
	case stats.Killed:
		text := processName(f.PID, f.Rank) + " was killed by " + f.Name
		if f.Count > 1 {
			text += fmt.Sprintf(", the first of %s", human.Plural(f.Count, "process"))
		}
		return text
	case stats.FailedCalls:
		return fmt.Sprintf("%s failed; the first is call %d, %s: %s (%d)", human.Plural(f.Count, "call"), *f.Call, f.Func, f.Name, f.Code)
	case stats.Outlived, stats.UnusedGraphs:
		return wentOnText(f)
	case stats.Unfinished:
		return fmt.Sprintf("%s never returned; the first is call %d, %s", human.Plural(f.Count, "call"), *f.Call, f.Func)
	case stats.NoEnd:
		return fmt.Sprintf("%s may be over, but their end was not seen: an exception or a jump left them, or no probe sees it; the first is call %d, %s", human.Plural(f.Count, "call"), *f.Call, f.Func)
	case stats.LostCalls:
		if f.Count == 0 {
			return "calls are missing in the trace; the sums are too low"
		}
		return human.Plural(f.Count, "call") + " lost; the sums are too low"
	case stats.Relaunched:
		return fmt.Sprintf("kernel %s was launched again after error %d, %s; the first is call %d", human.Kernel(f.Name), f.Code, human.Plural(f.Count, "time"), *f.Call)
	case stats.Grows:
		return fmt.Sprintf("device memory%s grows %s", ofProcess(s), growthText(f.Growth))
	case stats.PilesUp:
		return fmt.Sprintf("%s%s pile up: %s more in %s, %s a step; %s makes more of them than the program ends", human.Noun(2, f.Name), ofProcess(s), human.Count(f.Count), human.Plural(f.Steps, "step"),
			human.Times(float64(f.Count)/float64(f.Steps)), f.Func)
	case stats.SlowSteps:
		return slowText(s, f)
	case stats.OddSteps, stats.EagerSteps:
		return unlikeText(s, f)
	case stats.Waits:
		return waitsText(s, f, whole)
	case stats.SyncReads, stats.PageableCopies, stats.Synchronizes, stats.EmptiesCache, stats.Allocates, stats.Recaptures:
		return habitText(f)
	case stats.FrequentOperator:
		return operatorHabitText(f)
	case stats.Stalls:
		text := fmt.Sprintf("%s of %s: %s makes no call for %s", human.Count(f.Steps), human.Plural(f.Of, "step"), f.Thread, human.Duration(f.NS))
		if f.Gap.Copy {
			text += " before a copy to the device, as when a batch is late"
		}
		return text + fmt.Sprintf(": step %d, %s", *f.Step, placeText(f.Gap))
	case stats.Blocked:
		return blockedText(s, f, whole)
	case stats.Launches:
		return fmt.Sprintf("%s %s launches%s", human.Share(f.Share), whole, eachText(s, f, mostly(f, ": ")))
	case stats.Copies:
		text := fmt.Sprintf("%s %s is spent in copies", human.Share(f.Share), whole)
		if f.Count > 0 {
			one := *f // copies of one direction and size
			one.Func += " " + f.Name
			text += eachText(s, &one, mostly(f, ": ")) + " and " + human.Bytes(f.Bytes/f.Count)
		}
		return text
	case stats.OtherCalls:
		return fmt.Sprintf("%s %s is spent in other calls%s", human.Share(f.Share), whole, eachText(s, f, ", most in "))
	case stats.OwnTime:
		return ownText(s, f, whole)
	case stats.IdleDevice:
		return idleText(s, f)
	case stats.ShortTasks:
		if f.Device == nil {
			return outpacedText(s, f)
		}
		return findingDevice(s, f) + fmt.Sprintf(" idled at least %s of its time between short kernels: a kernel takes %s, the host launches one every %s",
			human.Share(f.Share), human.Duration(f.NS), human.Duration(f.EveryNS))
	case stats.HiddenWaits:
		return fmt.Sprintf("%s of pageable memory may wait: %s, %s in all", human.Plural(f.Count, "asynchronous copy"), f.Func, human.Bytes(f.Bytes))
	case stats.Recorder:
		return fmt.Sprintf("%s %s is the recorder, which hashes and copies payloads: record with --payload none to leave them out", human.Share(f.Share), whole)
	case stats.OddRank:
		who, others := fmt.Sprintf("process %d", f.PID), "the median process"
		if f.Rank != nil {
			who, others = fmt.Sprintf("rank %d", *f.Rank), "the median rank"
		}
		if f.Name == stats.PartBlocked.String() {
			return fmt.Sprintf("%s is blocked outside calls for longer than %s: %s a launch, not %s", who, others, human.Duration(f.NS), human.Duration(f.EachNS))
		}
		return fmt.Sprintf("%s spends more on %s than %s: %s a launch, not %s", who, cmp.Or(partNames[f.Name], f.Name), others, human.Duration(f.NS), human.Duration(f.EachNS))
	case stats.LateRank:
		text := fmt.Sprintf("rank %d came last to %s of %s, and the others waited", *f.Rank, human.Count(f.Count), human.Plural(f.Of, "collective"))
		if f.NS > f.CostNS {
			text += fmt.Sprintf("; %s more at one of them", human.Duration(f.NS))
		}
		return text
	}
	return string(f.Kind)
}

// outpacedText says that kernels are short without knowing their times.
func outpacedText(s *stats.Stats, f *stats.Finding) string {
	text := fmt.Sprintf("kernels are short: the host launches one every %s, %s a step, and waits for the device for %s of a step", human.Duration(f.EveryNS), human.Count(f.Count), human.Share(f.Share))
	if !s.DeviceTimes {
		text += "; record with --device-time all to see how long they take"
	}
	return text
}

// mostWork names the kernel or the graph with most time on the devices, with its share of all their work. It is "" unless all tasks are measured: a
// share of the kernels that happen to have times would mislead.
func mostWork(s *stats.Stats) string {
	busy := int64(0)
	for i := range s.Devices {
		if d := &s.Devices[i]; d.Measured < d.Tasks {
			return ""
		}
		busy += s.Devices[i].BusyAtMostNS
	}
	name, most := "", int64(0)
	for i := range s.Kernels {
		if k := &s.Kernels[i]; k.DeviceNS+k.InGraphsNS > most {
			name, most = human.Kernel(k.Name), k.DeviceNS
			if k.InGraphs > 0 {
				return "" // the kernels in graphs have no times
			}
		}
	}
	if most == 0 || most > busy {
		return ""
	}
	return fmt.Sprintf("; %s of the device's work is %s", human.Share(float64(most)/float64(busy)), name)
}

// waitsText describes waits for the device, and what they are for.
func waitsText(s *stats.Stats, f *stats.Finding, whole string) string {
	text := fmt.Sprintf("%s %s waits for the device", human.Share(f.Share), whole)
	switch {
	case s.Shares.Steps > 0 && 2*f.Count > 3*uint64(s.Shares.Steps):
		text += eachText(s, f, mostly(f, ", in "))
	case f.Count > 0:
		text += mostly(f, ", in ") + f.Func
	}
	switch f.For {
	case stats.SyncReads:
		text += ", for a value that it copies, as .item() does: " + readLess
	case stats.Synchronizes:
		text += ", and copies nothing then: " + synchronizeLess
	}
	if !s.Timed() && !s.DeviceTimes {
		text += "; record with --device-time all to see for which tasks"
	}
	return text + mostWork(s) + unmeasuredText(s)
}

// habitText describes what a program does in its steps, with the usual remedy.
func habitText(f *stats.Finding) string {
	count := fmt.Sprintf("%s a step", timesText(float64(f.Count)/float64(f.Steps)))
	if uint64(f.Steps) < f.Of {
		count += fmt.Sprintf(" in %s of %s", human.Count(f.Steps), human.Plural(f.Of, "step"))
	}
	at := fmt.Sprintf("the first of step %d is call %d, %s", *f.Step, *f.Call, f.Func)
	each := human.Duration(f.EachNS) + " each"
	if f.Count > uint64(f.Steps) { // the first one in a step often waits for the others
		each = human.Duration(f.CostNS/max(f.Steps, 1)) + " a step"
	}
	switch f.Kind {
	case stats.SyncReads:
		return fmt.Sprintf("the host waits for a value from the device %s, %s, as .item() does; %s: %s", count, each, at, readLess)
	case stats.PageableCopies:
		return fmt.Sprintf("the host waits for a copy of pageable memory to the device %s, %s, %s in all; %s: use pinned memory and asynchronous copies", count, each, human.Bytes(f.Bytes), at)
	case stats.Synchronizes:
		return fmt.Sprintf("the host waits for the device %s and copies nothing then, %s; %s: %s", count, each, at, synchronizeLess)
	case stats.EmptiesCache:
		return fmt.Sprintf("device memory is freed after a wait for the device %s, %s, as empty_cache does; %s: keep the cache while the program runs", count, each, at)
	case stats.Recaptures:
		return fmt.Sprintf("a graph is captured %s, %s; %s: capture once, and run or update the graph in each step", count, each, at)
	}
	return fmt.Sprintf("device memory is allocated %s, %s; %s: allocate once, or let the framework's cache grow to its size first", count, each, at)
}

// wentOnText says what did not stop the program.
func wentOnText(f *stats.Finding) string {
	if f.Kind == stats.UnusedGraphs {
		return fmt.Sprintf("no graph ran in the %s after %s, of which call %d, %s, ended the first: the program runs eagerly", human.Plural(f.Of, "step"), human.Plural(f.Count, "capture"), *f.Call, f.Func)
	}
	return fmt.Sprintf("%s failed, and the program went on: the first is call %d, %s of %s: %s (%d)", human.Plural(f.Count, "allocation"), *f.Call, f.Func, human.Bytes(f.Bytes), f.Name, f.Code)
}

// operatorHabitText says how often an operator runs in a step.
func operatorHabitText(f *stats.Finding) string {
	count := fmt.Sprintf("%s a step", timesText(float64(f.Count)/float64(f.Steps)))
	if uint64(f.Steps) < f.Of {
		count += fmt.Sprintf(" in %s of %s", human.Count(f.Steps), human.Plural(f.Of, "step"))
	}
	return fmt.Sprintf("%s: %s with small launches, %s of the step's time on the host, %s each: batch or fuse its calls, or capture the step as a graph", f.Name, count, human.Share(f.Share), human.Duration(f.EachNS))
}

// Remedies.
const (
	readLess        = "keep values on the device, or read them every few steps"
	synchronizeLess = "synchronize only where results are read"
)

// blockedText says what a thread waits for outside calls.
func blockedText(s *stats.Stats, f *stats.Finding, whole string) string {
	if d := s.Shares.Driver; d != nil {
		return fmt.Sprintf("%s %s %s only waits: it hands on the launches of %s, which runs its own code for %s of a step", human.Share(f.Share), whole, s.Shares.Thread, d.Thread,
			human.Share(float64(d.OwnNS)/float64(max(s.Shares.NS, 1))))
	}
	text := fmt.Sprintf("%s %s %s waits outside calls, for another thread, a file or a time to pass", human.Share(f.Share), whole, s.Shares.Thread)
	if f.Thread != "" {
		text = fmt.Sprintf("%s %s %s waits outside calls, as for %s, which prepares at least %s of %s a step", human.Share(f.Share), whole, s.Shares.Thread, f.Thread, human.Count(f.Count), human.Plural(f.Of, "operator"))
	}
	if g := mainGap(s, f); g != nil {
		text += ", " + gapText(s, g)
	}
	return text
}

// gapText describes a gap with the steps that have it: "2.24 ms in each step, between calls …".
func gapText(s *stats.Stats, g *stats.Gap) string {
	if g.Rare(s.Shares.Steps) {
		return fmt.Sprintf("%s in %s of %s: step %d, %s", human.Duration(g.LongNS), human.Count(g.Steps), human.Plural(s.Shares.Steps, "step"), *g.Step, placeText(g))
	}
	return fmt.Sprintf("%s a step: in step %d %s", human.Duration(g.NS), *g.Step, placeText(g))
}

// boundText says what most of a typical step waits for.
func boundText(b *stats.Bound) string {
	text, own := "", "its own code"
	if b.Python {
		own = "Python"
	}
	share := human.Share(b.Share)
	switch b.By {
	case stats.ByDevice:
		return fmt.Sprintf("the device: %s waits for it for %s of a step", b.Thread, share)
	case stats.ByWaits:
		return fmt.Sprintf("late waits: %s waits for the device for %s of a step, and the device has work for at most %s of that time", b.Thread, share, human.Share(b.Busy))
	case stats.ByLoader:
		does := "runs " + own
		if 2*b.Blocked > b.Share {
			does = "waits"
		}
		text = fmt.Sprintf("the loader: %s %s %s of a step before a copy to the device", b.Thread, does, share)
	case stats.ByQueue:
		text = fmt.Sprintf("the queue: %s is busy with handing on launches for %s of a step", b.Thread, share)
	case stats.ByHost:
		text = fmt.Sprintf("the host: %s runs %s for %s of a step", b.Thread, own, share)
	}
	if b.EveryNS > 0 && b.By != stats.ByLoader {
		text += fmt.Sprintf(", one launch every %s", human.Duration(b.EveryNS))
	}
	switch {
	case b.Launcher != "" && b.Waits < 0.005:
		text += fmt.Sprintf("; %s hands the launches on", b.Launcher)
	case b.Launcher != "":
		text += fmt.Sprintf("; %s, which hands the launches on, waits for %s", b.Launcher, human.Share(b.Waits))
	}
	return text
}

// ownText says where in a step the program's own time is. whole names the time that is divided.
func ownText(s *stats.Stats, f *stats.Finding, whole string) string {
	text := fmt.Sprintf("%s %s is the program's own time", human.Share(f.Share), whole)
	if s.Bound == nil && len(s.Steps.Threads) > 1 && !s.Divided {
		text = fmt.Sprintf("%s %s %s makes no calls: it runs its own code, or waits for other threads", human.Share(f.Share), whole, s.Shares.Thread)
	}
	if s.Probes {
		text += ", or it did not run then, which eBPF does not show"
	}
	switch g := mainGap(s, f); {
	case g != nil:
		text += ", " + gapText(s, g)
	case s.Shares.Spread != nil && 2*s.Shares.Spread.NS > f.NS:
		sp := s.Shares.Spread
		text += fmt.Sprintf(", %s before each of %s a step to %s", human.Duration(sp.NS/sp.Gaps), human.Plural(sp.Gaps, "call"), sp.Func)
	}
	if deviceBound(s) {
		text += "; the device has work meanwhile"
	}
	return text
}

// idleText describes the idle time of a device.
func idleText(s *stats.Stats, f *stats.Finding) string {
	text := findingDevice(s, f) + fmt.Sprintf(" idled at least %s of its time", human.Share(min(f.Share, 0.99))) // rounded up it would be all its time
	if n := f.Device.IdleTimes; n > 0 {
		text += fmt.Sprintf(", in %s", human.Plural(n, "gap"))
	}
	if d := f.Device.LongestIdle; d != nil {
		text += fmt.Sprintf("; the longest is %s at %s", human.Duration(d.NS), human.Moment(d.Time))
		if d.Next != "" {
			text += ", before " + d.Next
		}
		switch {
		case d.Next == "" || s.Untimed():
		case d.Mostly == stats.OtherCalls:
			text += ", during " + d.Func
		case d.Mostly == stats.Blocked:
			text += fmt.Sprintf(", while %s did not run", d.Thread)
		case d.Mostly == stats.OwnTime && !s.Divided && len(s.Steps.Threads) > 1: // it may wait for another thread
			text += fmt.Sprintf(", while %s made no calls", d.Thread)
		default:
			text += fmt.Sprintf(", during %s of %s", partNames[string(d.Mostly)], d.Thread)
		}
	}
	return text
}

// mostly joins a part of the time with the calls of one kind that took most of it: before, if they took all.
func mostly(f *stats.Finding, before string) string {
	const all = 0.95 // averages are rounded
	if float64(f.Count)*float64(f.EachNS) >= all*float64(f.CostNS) {
		return before
	}
	return ", the largest part in "
}

// eachText counts the calls of a finding: "aclrtMemcpy 40 times a step, each 13.2 us". It is "" if no call began in a step.
func eachText(s *stats.Stats, f *stats.Finding, before string) string {
	each := human.Duration(f.EachNS)
	switch n := s.Shares.Steps; {
	case f.Count == 0:
		return ""
	case f.Count < uint64(n):
		return fmt.Sprintf("%s%s %s in %s, each %s", before, f.Func, timesText(float64(f.Count)), human.Plural(n, "step"), each)
	case n > 0:
		return fmt.Sprintf("%s%s %s a step, each %s", before, f.Func, timesText(float64(f.Count)/float64(n)), each)
	case f.Count == 1:
		return before + f.Func + ", 1 call of " + each
	}
	return fmt.Sprintf("%s%s %s times, each %s", before, f.Func, human.Count(f.Count), each)
}

func timesText(n float64) string {
	if text := human.Times(n); text != "1" {
		return text + " times"
	}
	return "once"
}

// deviceName names a device. Its process is left out: most traces have one.
func deviceName(d *stats.Device) string {
	if d.Device < 0 {
		return "the device"
	}
	return fmt.Sprintf("device %d", d.Device)
}

// findingDevice names the device of a finding, with its process if there are several devices.
func findingDevice(s *stats.Stats, f *stats.Finding) string {
	if len(s.Devices) < 2 {
		return deviceName(f.Device)
	}
	return deviceName(f.Device) + " of " + processName(f.Device.Process, f.Device.Rank)
}

// processName names a process, and its rank if it is known.
func processName(pid int, rank *int) string {
	text := fmt.Sprintf("process %d", pid)
	if rank != nil {
		text += fmt.Sprintf(" of rank %d", *rank)
	}
	return text
}

// recordingText says of whose time the recorder took how much.
func recordingText(r *stats.Recording) string {
	if len(r.Processes) == 0 {
		return human.Duration(r.NS) + " of the program's time"
	}
	list := slices.SortedStableFunc(slices.Values(r.Processes), func(a, b stats.ProcessRecording) int { return cmp.Compare(b.NS, a.NS) })
	var texts []string
	for _, p := range list[:min(len(list), mostRecording)] {
		texts = append(texts, human.Duration(p.NS)+" of the time of "+processName(p.Process, p.Rank))
	}
	if n := len(list) - mostRecording; n > 0 {
		texts = append(texts, fmt.Sprintf("less of %s", human.Plural(n, "other process")))
	}
	return strings.Join(texts, ", ")
}

// mostRecording is the number of processes in a row.
const mostRecording = 3

// ofProcess says whose the steps are, if the trace has several processes.
func ofProcess(s *stats.Stats) string {
	if s.Steps.Process == 0 {
		return ""
	}
	return " of " + processName(s.Steps.Process, s.Steps.Rank)
}

// placeText says between which calls a gap is.
func placeText(g *stats.Gap) (text string) {
	switch {
	case g.Call == nil && g.Next == nil:
		return "at its end"
	case g.Call == nil:
		text = fmt.Sprintf("before call %d (%s), the first of the step", *g.Next, g.Func)
	case g.Next == nil:
		return fmt.Sprintf("after call %d (%s), the last of the step", *g.Call, g.After)
	case g.After == g.Func:
		text = fmt.Sprintf("between calls %d and %d (both %s)", *g.Call, *g.Next, g.Func)
	default:
		text = fmt.Sprintf("between calls %d (%s) and %d (%s)", *g.Call, g.After, *g.Next, g.Func)
	}
	if 2*g.BlockedNS > g.NS {
		text += ", in which the thread did not run"
	}
	return text
}

// movedPlace says between which functions a gap differs in two runs.
func movedPlace(g *stats.Gap) string {
	switch {
	case g.After == "":
		return fmt.Sprintf("before %s, the first call of each step", g.Func)
	case g.Func == "":
		return fmt.Sprintf("after %s, the last call of each step", g.After)
	}
	return fmt.Sprintf("between %s and %s in each step", g.After, g.Func)
}

// slowPart returns the part of the longest step that is longer than the mean by most.
func slowPart(s *stats.Stats) stats.Part {
	mean := stats.Parts{}
	if s.Shares != nil {
		mean = s.Shares.Parts
	}
	more := func(p stats.Part) int64 { return p.Of(&s.Steps.Longest.Parts) - p.Of(&mean) }
	return slices.MaxFunc(stats.AllParts, func(a, b stats.Part) int { return cmp.Compare(more(a), more(b)) })
}

// moreOften reports whether a step has several calls of a function, more than usual.
func moreOften(m *stats.MoreCalls) bool { return m.Calls > 1 && int64(m.Calls) > m.UsualCalls }

// moreOf returns what the longest step has more of, nil if its longest call is all of it.
func moreOf(l *stats.LongStep) *stats.MoreCalls {
	if m := l.More; m != nil && (m.Thread != l.Thread || m.Func != l.Call.Func || moreOften(m)) {
		return m
	}
	return nil
}

// moreText says what the longest step has more of than most: "16 calls of aclrtMemcpy DtoH took 1.69 ms for 32 MiB, usually none".
func moreText(l *stats.LongStep) string {
	m := l.More
	text := human.Plural(m.Calls, "call") + " of " + m.Func
	if m.Direction != "" {
		text += " " + m.Direction
	}
	if m.Thread != l.Thread {
		text += " by " + m.Thread
	}
	took := func(ns int64, bytes uint64) string {
		if m.Copies() {
			return human.Duration(ns) + " for " + human.Bytes(bytes)
		}
		return human.Duration(ns)
	}
	text += " took " + took(m.NS, m.Bytes) + ", usually "
	switch {
	case m.UsualCalls == 0:
		return text + "none"
	case moreOften(m):
		text += human.Count(m.UsualCalls) + " with "
	}
	return text + took(m.UsualNS, uint64(m.UsualBytes))
}

// unlikeText describes steps that are unlike most, or unlike those that run graphs.
func unlikeText(s *stats.Stats, f *stats.Finding) string {
	if f.Kind == stats.EagerSteps {
		return fmt.Sprintf("%s of %s since the first run of a graph run none, but launch the kernels of steps that do: their inputs may be outside of the captured sizes; they take %s, the others %s", human.Count(f.Count),
			human.Plural(f.Of, "step"), human.Duration(f.NS), human.Duration(f.EachNS))
	}
	return fmt.Sprintf("%s unlike most: %s, the longest is step %d with %s; the median is %s", human.Plural(f.Count, "step"), human.Duration(f.NS), *f.Step, human.Duration(f.EachNS), human.Duration(s.Steps.P50NS))
}

// slowText names the longest step and what took longer in it than in most.
func slowText(s *stats.Stats, f *stats.Finding) string {
	l, p := s.Steps.Longest, &s.Steps
	text := fmt.Sprintf("step %d took %s, %s times the median", l.Index, human.Duration(l.NS), human.Times(float64(l.NS)/float64(max(p.P50NS, 1))))
	m := moreOf(l)
	copies := m != nil && m.Copies()
	switch most := slowPart(s); {
	case (most == stats.PartOwn || most == stats.PartBlocked) && l.Gap != nil:
		text += fmt.Sprintf(": %s without a call %s", human.Duration(l.Gap.NS), placeText(l.Gap))
	case most == stats.PartOwn || most == stats.PartBlocked:
		text += ": " + partNames[most.String()]
	case most == stats.PartRecording:
		text += ": the recorder"
	case l.Call.Func == "": // no call began in the step
		text += ": " + partNames[most.String()]
	case m != nil && 10*(m.NS-m.UsualNS) > l.NS-p.P50NS:
		text, copies = text+": "+moreText(l), false
	default:
		text += fmt.Sprintf(": call %d, %s, took %s", l.Call.Call, l.Call.Func, human.Duration(l.Call.NS))
	}
	if copies {
		text += "; " + moreText(l)
	}
	if f.Count > 1 {
		text += fmt.Sprintf("; %s took over twice the median", human.Plural(f.Count, "step"))
	}
	return text
}

// answerText writes the first screen of the statistics: the time of a step, its parts, the device and its memory, and the findings. It returns
// the command for the first finding, "" if there is none.
func answerText(w io.Writer, path string, s *stats.Stats, o *TextOptions) (first string, err error) {
	var rows pairs
	marks := ""
	if s.Marks > 0 {
		marks = " and " + human.Plural(s.Marks, "mark") + " of operators"
	}
	rows.add("trace", "%s: %s%s in %s, %s failed%s", path, human.Plural(s.Calls, "call"), marks, human.Duration(s.SpanNS), badCount(s.Failed), answeredText(s.Answered))
	if len(s.Asked) > 0 {
		rows.add("ended", "%s", askedText(s.Asked))
	}
	if work := workText(s); work != "" {
		rows.add("work", "%s", work)
	}
	stepRow(func(name, format string, args ...any) { rows.add(name, format+"%s", append(args, coverText(s))...) }, &s.Steps)
	if sh := s.Shares; sh != nil && sh.NS > 0 {
		rows.add("share", "%s%s", sharesText(sh), ofThread(s))
	}
	if s.Bound != nil {
		rows.add("bound by", "%s", boundText(s.Bound))
	}
	deviceRows(rows.add, s.Devices, s.DeviceTimes)
	memoryRows(rows.add, s)
	if r := &s.Recording; r.NS > 0 {
		less := ""
		if c := r.Copies; c != nil && 10*c.RecordingNS > c.CallsNS || s.Much() {
			less = "; --payload none leaves it out"
		}
		of := ""
		if len(r.Processes) > 0 {
			of = " in all processes"
		}
		rows.add("recording", "%s%s%s", recordingText(r), recordedCopies(r.Copies, ", ", of), less)
	}
	var top page
	if err := rows.write(&top, o); err != nil {
		return "", err
	}
	first = findingsText(&top, path, s, firstScreen-strings.Count(top.text.String(), "\n"), o)
	top.w = w
	return first, top.Flush()
}

func askedText(list []stats.Asked) string {
	var texts []string
	for _, a := range list[:min(len(list), 3)] {
		texts = append(texts, fmt.Sprintf("process %d by %s", a.Process, a.Signal))
	}
	if n := len(list) - len(texts); n > 0 {
		texts = append(texts, fmt.Sprintf("%s more", human.Count(n)))
	}
	return strings.Join(texts, ", ")
}

// coverText warns if the steps, and thus their shares, are the smaller part of the trace.
func coverText(s *stats.Stats) string {
	if sh := s.Shares; sh != nil && sh.Steps > 0 && s.Selection == "" && 2*sh.Steps*sh.NS < s.SpanNS {
		those := "they"
		switch warm := s.Steps.WarmUpNS > 0; {
		case warm && s.Steps.Typical == s.Steps.Count-1:
			those = "the others"
		case s.Steps.Typical < s.Steps.Count:
			those = "those alike"
		}
		return fmt.Sprintf("; %s cover %s of the time", those, human.Share(float64(sh.Steps*sh.NS)/float64(s.SpanNS)))
	}
	return ""
}

// ofThread names the thread of the shares if there are several.
func ofThread(s *stats.Stats) string {
	sh, text := s.Shares, ""
	if sh.Rank != nil {
		text = fmt.Sprintf(", rank %d", *sh.Rank)
	}
	if len(s.Steps.Threads) > 1 || s.Steps.Process != 0 || text != "" {
		text = ": " + sh.Thread + text
	}
	return text
}

// sharesText lists what the thread of the shares does, most of the time first.
func sharesText(sh *stats.Shares) string {
	parts := slices.Clone(stats.AllParts)
	slices.SortStableFunc(parts, func(a, b stats.Part) int { return cmp.Compare(b.Of(&sh.Parts), a.Of(&sh.Parts)) })
	var texts []string
	for _, p := range parts {
		if share := float64(p.Of(&sh.Parts)) / float64(sh.NS); share >= 0.005 {
			texts = append(texts, human.Share(share)+" "+partNames[p.String()])
		}
	}
	return strings.Join(texts, ", ")
}

// workText counts launches, runs of graphs and copies, "" if there are none.
func workText(s *stats.Stats) string {
	var launches, kernels, copies, bytes, runs, graphs, inside uint64
	for i := range s.Kernels {
		if launches += s.Kernels[i].Count; s.Kernels[i].Count > 0 {
			kernels++
		}
	}
	for i := range s.Graphs {
		g := &s.Graphs[i]
		runs, graphs, inside = runs+g.Count, graphs+uint64(g.Graphs), inside+g.Launches
	}
	for i := range s.Copies {
		copies, bytes = copies+s.Copies[i].Count, bytes+s.Copies[i].Bytes
	}
	var parts []string
	if launches > 0 {
		parts = append(parts, human.Plural(launches, "launch")+" of "+human.Plural(kernels, "kernel"))
	}
	if runs > 0 {
		text := human.Plural(runs, "run") + " of " + human.Plural(graphs, "graph")
		if inside > 0 {
			text += " with " + human.Plural(inside, "launch")
		}
		parts = append(parts, text)
	}
	if copies > 0 {
		parts = append(parts, human.Plural(copies, "copy")+" of "+human.Bytes(bytes))
	}
	return strings.Join(parts, ", ")
}

func stepRow(row RowFunc, st *stats.Steps) {
	count := human.Count(st.Count) + " " + st.Source
	if st.By != "" {
		count += " by " + st.By
	}
	if st.Process != 0 {
		count += " in " + processName(st.Process, st.Rank)
	}
	alike := st.Count
	if st.WarmUpNS > 0 {
		count, alike = count+fmt.Sprintf(", the first is a warm-up of %s", human.Duration(st.WarmUpNS)), alike-1
	}
	switch {
	case st.Count == 0:
		row("steps", "none: %s", st.Why)
		return
	case st.Typical == 0:
		row("steps", "%s, none like another", count)
		return
	case st.Typical < alike:
		count += fmt.Sprintf(", %s alike", human.Count(st.Typical))
	}
	if st.Unrecorded > 0 {
		count += fmt.Sprintf(", %s more not recorded", human.Count(st.Unrecorded))
	}
	if st.Typical == 1 {
		row("steps", "%s: %s", count, human.Duration(st.P50NS))
		return
	}
	longest := human.Duration(st.MaxNS)
	if st.Longest != nil && st.Longest.NS == st.MaxNS { // a longer step may have no thread that makes it
		longest = fmt.Sprintf("%s (step %d)", human.Duration(st.Longest.NS), st.Longest.Index)
	}
	row("steps", "%s: median %s, p99 %s, longest %s%s", count, human.Duration(st.P50NS), human.Duration(st.P99NS), longest, outsideText(st))
}

// outsideText says how many launches are in no step, if they are more than those of two steps: a recording may begin and end within one.
func outsideText(st *stats.Steps) string {
	if st.Outside == 0 || st.Outside*uint64(st.Count) <= 2*st.Inside {
		return ""
	}
	return fmt.Sprintf("; %s in no step", human.Plural(st.Outside, "launch"))
}

// devicesName names the row of some devices.
func devicesName(list []stats.Device) string {
	if len(list) == 1 {
		return strings.TrimPrefix(deviceName(&list[0]), "the ")
	}
	return "devices"
}

// memoryRows writes the most memory in use, of each device by each process.
func memoryRows(row RowFunc, s *stats.Stats) {
	list := s.DeviceMemory
	if len(list) == 1 {
		row("memory", "at most %s on the device, after call %d (%s)", human.Bytes(s.PeakDeviceBytes), s.Peak.Call, s.Peak.Func)
		return
	}
	deviceMemoryRows(func(name, format string, args ...any) { row("memory", name+" "+format, args...) }, list)
}

// deviceMemoryRows writes the most memory in use of each device by each process, in rows named at most.
func deviceMemoryRows(row RowFunc, list []stats.DeviceMemory) {
	several := false
	for i := range list {
		several = several || !list[i].SameProcess(&list[0])
	}
	for i := range list[:min(most, len(list))] {
		m := &list[i]
		place := "the device"
		if m.Device >= 0 {
			place = fmt.Sprintf("device %d", m.Device)
		}
		if several {
			place += " by " + processName(m.Process, m.Rank)
		}
		row("at most", "%s on %s, after call %d (%s)", human.Bytes(m.PeakBytes), place, m.Call, m.Func)
	}
}

// deviceRows writes how busy the devices were: each, or the least and the most of many. asked means that the recording measured device times.
func deviceRows(row RowFunc, list []stats.Device, asked bool) {
	busy := func(d *stats.Device) (text string, share float64) {
		if d.SpanNS == 0 {
			return "busy", 1
		}
		share = float64(d.BusyAtMostNS) / float64(d.SpanNS)
		if text = "busy "; d.Measured < d.Tasks {
			text = "busy at most "
		}
		return text + human.Share(share), share
	}
	if unknown := !slices.ContainsFunc(list, func(d stats.Device) bool { return d.Measured > 0 || d.Tasks == 0 }); unknown && len(list) > 0 {
		remedy := "; record with --device-time all"
		if asked {
			remedy = ""
		}
		row(devicesName(list), "how busy is unknown, no task has a measured time%s", remedy)
		return
	}
	if len(list) <= 2 {
		for i := range list {
			text, _ := busy(&list[i])
			if len(list) > 1 {
				text += " (" + processName(list[i].Process, list[i].Rank) + ")"
			}
			row(strings.TrimPrefix(deviceName(&list[i]), "the "), "%s of %s", text, human.Duration(list[i].SpanNS))
		}
		return
	}
	least, most := &list[0], &list[0]
	for i := range list {
		d := &list[i]
		_, share := busy(d)
		if _, low := busy(least); share < low {
			least = d
		}
		if _, high := busy(most); share > high {
			most = d
		}
	}
	low, _ := busy(least)
	high, _ := busy(most)
	row("devices", "%s: %s (%s of %s) to %s (%s of %s)", human.Count(len(list)), low, deviceName(least), processName(least.Process, least.Rank),
		strings.TrimPrefix(high, "busy "), deviceName(most), processName(most.Process, most.Rank))
}
