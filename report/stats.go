package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// most limits the rows in tables for people.
const most = 10

// rest writes the number of rows left out. The noun is in the singular.
func rest(w io.Writer, rows int, noun string) {
	if n := rows - most; n > 0 {
		Printf(w, "(%s more %s: --json has all)\n", human.Count(n), human.Noun(n, noun))
	}
}

// pictured reports whether a finding compares steps, ranks or moments, which a page shows side by side and a terminal does not.
func pictured(f stats.Finding) bool {
	return slices.Contains([]stats.FindingKind{stats.SlowSteps, stats.OddSteps, stats.OddRank, stats.LateRank, stats.Grows}, f.Kind)
}

// StatsText writes the statistics of the trace at path: the answer on one screen, then the tables, and at the end the next command.
func StatsText(w io.Writer, path string, s *stats.Stats, o *TextOptions) error {
	selectedText(w, s.Calls, &s.Selected)
	next, err := answerText(w, path, s, o)
	if err != nil {
		return err
	}
	t := newTable(w, o)
	threadText(t, &s.Steps)
	startUpText(t, s.StartUp)
	if kinds := s.Steps.Kinds; len(kinds) > 0 && kinds[0].Inputs != nil {
		eagerKindText(w, t, kinds)
	}
	Printf(t, "\ncalls\tfailed\tin calls\tmean\tp50\tp99\tmax\t  function\n")
	for _, f := range s.Functions[:min(most, len(s.Functions))] {
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(f.Calls), badCount(f.Failed), human.Duration(f.TotalNS), human.Duration(f.MeanNS), human.Duration(f.P50NS), human.Duration(f.P99NS), human.Duration(f.MaxNS), f.Func)
	}
	t.Flush()
	rest(w, len(s.Functions), "function")
	graphText(w, t, s)
	kernelText(w, t, s)
	copyText(t, s)
	streamText(t, s)
	rangeText(t, s)
	if r := s.Ranks; r != nil {
		Printf(t, "\ncollectives\tcame last\twaited for others\tothers waited\t  rank\n")
		for _, x := range r.Ranks {
			Printf(t, "%s\t%s\t%s\t%s\t  %d\n", human.Count(x.Met), human.Count(x.Last), human.Duration(x.Waited), human.Duration(x.Caused), x.Rank)
		}
		Printf(t, "\nwaited\tat\tlast rank\t  collective\n")
		for _, x := range r.Longest {
			Printf(t, "%s\t%s\t%d\t  %s %d of communicator %s\n", human.Duration(x.Spread), human.Moment(x.Start), x.Straggler, x.Func, x.N+1, x.Comm)
		}
	}
	if len(s.HiddenSyncs) > 0 {
		Printf(t, "\ncopies\tbytes\tin calls\tfirst call\t  asynchronous copies of pageable memory, which may wait\n")
		for _, h := range s.HiddenSyncs {
			Printf(t, "%s\t%s\t%s\t%d\t  %s %s\n", human.Count(h.Count), human.Bytes(h.Bytes), human.Duration(h.HostNS), h.First, h.Func, h.Name)
		}
	}
	if len(s.Retries) > 0 {
		Printf(t, "\nlaunched again\tfirst call\tafter error\t  kernel\n")
		for _, r := range s.Retries {
			Printf(t, "%s\t%d\t%d %s\t  %s\n", human.Count(r.Count), r.First, r.Code, r.Name, human.Kernel(r.Kernel))
		}
	}
	if len(s.Errors) > 0 {
		Printf(t, "\nfailed\terror\t  function\n")
		for _, e := range s.Errors {
			Printf(t, "%s\t%d %s\t  %s\n", human.Count(e.Count), e.Code, e.Name, e.Func)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	commands := []string{cmp.Or(next, acltrace("stats", "--critical-path", path))}
	if slices.ContainsFunc(s.Findings, pictured) {
		commands = append(commands, acltrace("export", "html", path))
	}
	if look := acltrace("blame", path); next != look && s.Selection == "" && !s.Imported {
		commands = append(commands, look+"  # hints, if results are wrong")
	}
	nextText(w, commands...)
	return nil
}

// selectedText writes which calls are summed up, nothing for all.
func selectedText(w io.Writer, calls uint64, s *stats.Selected) {
	if s.Selection != "" {
		Printf(w, "selected: %s of %s: %s\n", human.Count(calls), human.Plural(s.CallsOf, "call"), s.Selection)
	}
}

// recordedCopies describes the recorder's share in the time of copies, "" if no copy was recorded.
func recordedCopies(c *format.RecordedCopies, before, after string) string {
	if c == nil || c.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%s%s of the time of %s of %s each%s", before, human.Share(float64(c.RecordingNS)/float64(max(c.RecordingNS+c.CallsNS, 1))), human.Plural(c.Count, "recorded copy"),
		human.Bytes(c.Bytes/c.Count), after)
}

func kernelText(w io.Writer, t *table, s *stats.Stats) {
	if len(s.Kernels) == 0 {
		return
	}
	some := someMeasured(s.Kernels)
	Printf(t, "\nlaunches\tin calls\tmeasured\ton the device\tp50\tp99\tmax\tin graphs\tthere by mean\t  kernel\n")
	for i := range s.Kernels[:min(most, len(s.Kernels))] {
		k := &s.Kernels[i]
		device, p50, p99, top := "-", "-", "-", "-"
		if k.Measured > 0 {
			device, p50, p99, top = human.Duration(k.DeviceNS), human.Duration(k.P50NS), human.Duration(k.P99NS), human.Duration(k.MaxNS)
		}
		inside, mean := "-", "-"
		if k.InGraphs > 0 {
			inside = human.Count(k.InGraphs)
		}
		if k.InGraphsNS > 0 {
			mean = "~ " + human.Duration(k.InGraphsNS)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(k.Count), human.Duration(k.HostNS), measured(k, some), device, p50, p99, top, inside, mean, human.Kernel(k.Name))
	}
	t.Flush()
	rest(w, len(s.Kernels), "kernel")
}

// graphText writes the runs of graphs by role. The time on the device is exact if all runs are measured.
func graphText(w io.Writer, t *table, s *stats.Stats) {
	if len(s.Graphs) == 0 {
		return
	}
	Printf(t, "\nruns\tgraphs\tlaunches\tin calls\ton the device\t  graph\n")
	for i := range s.Graphs[:min(most, len(s.Graphs))] {
		g := &s.Graphs[i]
		launches, device := "-", human.Duration(g.AtMostNS)
		if g.Launches > 0 {
			launches = human.Count(g.Launches)
		}
		if g.Measured < g.Count {
			device = "<= " + device
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(g.Count), human.Count(g.Graphs), launches, human.Duration(g.HostNS), device, strings.TrimPrefix(g.Name, "graph: "))
	}
	t.Flush()
	rest(w, len(s.Graphs), "row")
	stepKindText(w, t, &s.Steps)
}

// stepKindText writes the steps by the graph that they run.
func stepKindText(w io.Writer, t *table, s *stats.Steps) {
	if len(s.Kinds) == 0 || s.Kinds[0].Inputs != nil {
		if s.Eager > 0 {
			Printf(w, "(%s of %s ran no graph)\n", human.Count(s.Eager), human.Plural(s.Count, "step"))
		}
		return
	}
	Printf(t, "\nsteps\tmedian\tp99\tlongest\tlaunches\tblocks\t  graph that they run\n")
	for _, k := range s.Kinds[:min(most, len(s.Kinds))] {
		launches, blocks, graph := "-", "-", "none"
		if k.Launches > 0 {
			launches = human.Count(k.Launches)
		}
		if k.Blocks > 0 {
			blocks = human.Count(k.Blocks)
		}
		if k.Graph != "" {
			graph = k.Graph
		}
		if k.Capture != nil {
			graph += fmt.Sprintf(", captured from call %d on", *k.Capture)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(k.Count), human.Duration(k.P50NS), human.Duration(k.P99NS), human.Duration(k.MaxNS), launches, blocks, graph)
	}
	t.Flush()
	rest(w, len(s.Kinds), "row")
}

// eagerKindText writes the steps by their work.
func eagerKindText(w io.Writer, t *table, kinds []stats.StepKind) {
	Printf(t, "\nsteps\tmedian\tp99\tlongest\tlaunches\tinputs\t  kind of step\n")
	for i := range kinds {
		k := &kinds[i]
		inputs := "-"
		if k.Inputs != nil {
			inputs = human.Bytes(*k.Inputs)
		}
		what := eagerKind(k)
		if i == 0 {
			what = "most"
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(k.Count), human.Duration(k.P50NS), human.Duration(k.P99NS), human.Duration(k.MaxNS), human.Count(k.Launches), inputs, what)
	}
	t.Flush()
	Printf(w, "(several of these may be one iteration of the program: mark it with ranges named step; record --steps and --sample-steps also count by --step-marker NAME)\n")
}

// eagerKind says in words how steps differ from most.
func eagerKind(k *stats.StepKind) string {
	if k.Others {
		return "others, unlike each other"
	}
	var words []string
	if k.Every > 1 {
		words = append(words, fmt.Sprintf("every %s steps", human.Count(k.Every)))
	}
	if k.Kernel != "" {
		words = append(words, "more of "+human.Kernel(k.Kernel))
	}
	if k.Lacks != "" {
		words = append(words, "fewer of "+human.Kernel(k.Lacks))
	}
	if k.Kernel+k.Lacks == "" {
		words = append(words, "the kernels of most, for other inputs")
	}
	return strings.Join(words, ", ")
}

// someMeasured reports whether only some tasks have a measured time.
func someMeasured(list []stats.Task) bool {
	return slices.ContainsFunc(list, func(k stats.Task) bool { return k.Measured > 0 && k.Measured < k.Count })
}

// measured counts the measured tasks, if that differs from all or none for some of them.
func measured(k *stats.Task, some bool) string {
	if !some {
		return "-"
	}
	return human.Count(k.Measured)
}

func copyText(t *table, s *stats.Stats) {
	if len(s.Copies) == 0 {
		return
	}
	some := someMeasured(s.Copies)
	row := func(k *stats.Task, name string) {
		rate := "-"
		if k.Rate > 0 {
			rate = human.Rate(k.Rate)
			if k.RateAtLeast {
				rate = ">= " + rate
			}
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(k.Count), human.Bytes(k.Bytes), human.Duration(k.HostNS), human.Duration(k.RecordingNS), measured(k, some), rate, name)
	}
	Printf(t, "\ncopies\tbytes\tin calls\trecording\tmeasured\trate\t  direction and size\n")
	for i := range s.Copies {
		k := &s.Copies[i]
		row(k, k.Name)
		for j := range k.Sizes {
			if len(k.Sizes) > 1 {
				row(&k.Sizes[j], "  "+k.Sizes[j].Name)
			}
		}
	}
}

func streamText(t *table, s *stats.Stats) {
	if len(s.Streams) > 0 {
		Printf(t, "\ntasks\tlaunches\tcopies\tidle at least\tbusy at most\thost waited\tbound by\tprocess\t  stream\n")
		for _, l := range foldedStreams(s.Streams) {
			Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(l.Tasks), human.Count(l.Launches), human.Count(l.Copies), human.Duration(l.IdleAtLeastNS), human.Duration(l.BusyAtMostNS),
				human.Duration(l.WaitedNS), cmp.Or(l.Bound, "-"), processCell(s, l.Process, l.Rank), streamCell(l.Stream, l.Object))
		}
	}
	if len(s.Idle) > 0 {
		Printf(t, "\nidle\tat\tstep\tin calls\trecording\tprocess\tstream\t  meanwhile; next task\n")
		for _, d := range s.Idle {
			step, call := "-", meanwhile(s, &d)
			if d.Step >= 0 {
				step = fmt.Sprint(d.Step)
			}
			if d.Mostly == stats.OtherCalls && !s.Untimed() {
				if call = fmt.Sprintf("%s (call %d)", d.Func, *d.Call); t.width > 100 {
					call = fmt.Sprintf("%s (call %d, %s)", d.Func, *d.Call, human.Duration(d.InCallNS))
				}
			}
			Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s; %s\n", human.Duration(d.NS), human.Moment(d.Time), step, human.Duration(d.InCallsNS), human.Duration(d.RecordingNS), processCell(s, d.Process, d.Rank), d.Stream, call, d.Next)
		}
	}
}

// foldedStreams returns the streams that were busy longest, and the sum of the others by process and device.
func foldedStreams(list []stats.Lane) []stats.Lane {
	if len(list) <= most {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b stats.Lane) int {
		return cmp.Or(cmp.Compare(b.BusyAtMostNS, a.BusyAtMostNS), cmp.Compare(b.Tasks, a.Tasks))
	})
	type place struct{ process, device int }
	var others []stats.Lane
	count, at := map[place]int{}, map[place]int{}
	for _, l := range list[most:] {
		p := place{l.Process, l.Device}
		if count[p]++; count[p] == 1 {
			at[p] = len(others)
			others = append(others, stats.Lane{Process: l.Process, Rank: l.Rank, Device: l.Device})
		}
		o := &others[at[p]]
		o.Tasks, o.Launches, o.Copies = o.Tasks+l.Tasks, o.Launches+l.Launches, o.Copies+l.Copies
		o.IdleAtLeastNS, o.BusyAtMostNS, o.WaitedNS = o.IdleAtLeastNS+l.IdleAtLeastNS, o.BusyAtMostNS+l.BusyAtMostNS, o.WaitedNS+l.WaitedNS
	}
	for i := range others {
		o := &others[i]
		n := count[place{o.Process, o.Device}]
		if o.Stream = human.Plural(n, "more stream"); o.Device >= 0 {
			o.Stream += fmt.Sprintf(" on device %d", o.Device)
		}
	}
	return append(list[:most:most], others...)
}

// processCell names a process, if the streams belong to several.
func processCell(s *stats.Stats, process int, rank *int) string {
	if !slices.ContainsFunc(s.Streams, func(l stats.Lane) bool {
		return l.Process != s.Streams[0].Process || !sameRank(l.Rank, s.Streams[0].Rank)
	}) {
		return "-"
	}
	return processAndRank(process, rank)
}

// processAndRank is a process in a table.
func processAndRank(process int, rank *int) string {
	if rank == nil {
		return fmt.Sprint(process)
	}
	return fmt.Sprintf("%d, rank %d", process, *rank)
}

func rangeText(t *table, s *stats.Stats) {
	if len(s.Ranges) == 0 {
		return
	}
	Printf(t, "\nranges\topen\ttotal\tmin\tmax\t  name\n")
	for _, r := range s.Ranges {
		name := r.Name
		if r.Domain != "" {
			name = r.Domain + ": " + name
		}
		if r.Mark {
			Printf(t, "%s\t-\t-\t-\t-\t  %s (mark)\n", human.Count(r.Count), name)
			continue
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(r.Count), human.Count(r.Open), human.Duration(r.TotalNS), human.Duration(r.MinNS), human.Duration(r.MaxNS), name)
	}
}

// phaseNames are the words for phases, and for what they count.
var phaseNames = map[stats.PhaseKind][2]string{stats.SetUp: {"set-up: devices, streams, memory"}, stats.LoadBinaries: {"load of binaries", "binary"}, stats.Weights: {"copies to the device", "copy"},
	stats.FirstRuns: {"first runs", "kernel"}, stats.WarmUp: {"warm-up", "run"}, stats.Captures: {"captures", "capture"},
	stats.BeforeCopies: {"host, before the first copy"}, stats.UntilStep: {"until the step"}}

// longStartUp and bigStartUp are nanoseconds, and bytes to the device, from which the start-up is shown. It is shown with captures too.
const longStartUp, bigStartUp = 10e9, 64 << 20

// startUpText writes the phases of a start-up that is worth a look.
func startUpText(t *table, u *stats.StartUp) {
	if u == nil || u.NS < longStartUp && len(u.Captures) == 0 && !slices.ContainsFunc(u.Phases, func(p stats.Phase) bool { return p.Bytes >= bigStartUp }) {
		return
	}
	Printf(t, "\nbefore step %d\tshare\town time\tcalls\tbytes\t  phase: %s in all\n", u.Step, human.Duration(u.NS))
	for _, p := range u.Phases {
		name, bytes := phaseNames[p.Kind][0], "-"
		if p.Count > 0 {
			name += ": " + human.Plural(p.Count, phaseNames[p.Kind][1])
		}
		if p.Bytes > 0 {
			bytes = human.Bytes(p.Bytes)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t  %s\n", human.Duration(p.NS), human.Share(float64(p.NS)/float64(u.NS)), human.Duration(p.OwnNS), human.Count(p.Calls), bytes, name)
	}
	if len(u.Captures) == 0 {
		return
	}
	Printf(t, "\ncapture\tat\tlaunches\tblocks\tmemory\truns\t  call\n")
	for _, c := range u.Captures[:min(most, len(u.Captures))] {
		bytes, runs := "-", "-"
		if c.Bytes > 0 {
			bytes = human.Bytes(c.Bytes)
		}
		switch {
		case c.Runs == 0:
			runs = "never"
		case c.Runs > 0:
			runs = human.Count(c.Runs)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t  %d\n", human.Duration(c.NS), human.Moment(c.AtNS), human.Count(c.Launches), human.Count(c.Blocks), bytes, runs, c.Call)
	}
	t.Flush()
	rest(t, len(u.Captures), "capture")
}

func threadText(t *table, s *stats.Steps) {
	if len(s.Threads) == 0 {
		return
	}
	Printf(t, "\na step\twaiting\tlaunching\tcopying\tother calls\trecording\tblocked\town time\ton the device\t  thread: mean of steps\n")
	for _, d := range s.Threads[:min(most, len(s.Threads))] {
		device := "-"
		if d.DeviceNS > 0 {
			device = human.Duration(d.DeviceNS)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Duration(s.MeanNS), human.Duration(d.WaitingNS), human.Duration(d.LaunchingNS), human.Duration(d.CopyingNS), human.Duration(d.OtherNS),
			human.Duration(d.RecordingNS), human.Duration(d.BlockedNS), human.Duration(d.OwnNS), device, d.Thread)
	}
}
