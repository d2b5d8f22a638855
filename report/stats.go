package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// most limits the rows in tables for people.
const most = 10

// rest writes the number of rows left out.
func rest(w io.Writer, rows int, what string) {
	if rows > most {
		Printf(w, "(%s more %s: --json has all)\n", human.Count(rows-most), what)
	}
}

// StatsText writes the tables of `acltrace stats`.
func StatsText(w io.Writer, s *stats.Stats, o *TextOptions) error {
	selectedText(w, s)
	totals(w, s)
	t := newTable(w, o)
	threadText(t, &s.Steps)
	Printf(t, "\ncalls\tfailed\ttotal\tmean\tp50\tp99\tmax\t  function\n")
	for _, f := range s.Functions[:min(most, len(s.Functions))] {
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(f.Calls), badCount(f.Failed), human.Duration(f.TotalNS), human.Duration(f.MeanNS), human.Duration(f.P50NS), human.Duration(f.P99NS), human.Duration(f.MaxNS), f.Func)
	}
	t.Flush()
	rest(w, len(s.Functions), "functions")
	kernelText(w, t, s)
	copyText(t, s)
	streamText(t, s)
	rangeText(t, s)
	if r := s.Ranks; r != nil {
		Printf(t, "\ncollectives\tlast to begin\twaited for others\tothers waited\t  rank\n")
		for _, x := range r.Ranks {
			Printf(t, "%s\t%s\t%s\t%s\t  %d\n", human.Count(x.Met), human.Count(x.Last), human.Duration(x.Waited), human.Duration(x.Caused), x.Rank)
		}
		Printf(t, "\nwaited\tat\tlast rank\t  collective\n")
		for _, x := range r.Longest {
			Printf(t, "%s\t%s\t%d\t  %s %d of communicator %s\n", human.Duration(x.Spread), human.Moment(x.Start), x.Straggler, x.Func, x.N+1, x.Comm)
		}
	}
	if len(s.HiddenSyncs) > 0 {
		Printf(t, "\ncopies\tbytes\ttime in the call\tfirst call\t  hidden synchronization: asynchronous, of pageable memory\n")
		for _, h := range s.HiddenSyncs {
			Printf(t, "%s\t%s\t%s\t%d\t  %s %s\n", human.Count(h.Count), human.Bytes(h.Bytes), human.Duration(h.HostNS), h.First, h.Func, h.Name)
		}
	}
	if len(s.Retries) > 0 {
		Printf(t, "\nretries\tfirst call\tcode\t  kernel launched again with success\n")
		for _, r := range s.Retries {
			Printf(t, "%s\t%d\t%d %s\t  %s\n", human.Count(r.Count), r.First, r.Code, r.Name, r.Kernel)
		}
	}
	if len(s.Errors) > 0 {
		Printf(t, "\nerrors\tcode\t  function\n")
		for _, e := range s.Errors {
			Printf(t, "%s\t%d %s\t  %s\n", human.Count(e.Count), e.Code, e.Name, e.Func)
		}
	}
	return t.Flush()
}

// selectedText writes which calls are summed up, nothing for all.
func selectedText(w io.Writer, s *stats.Stats) {
	if s.Selection != "" {
		Printf(w, "selected: %s of %s: %s\n", human.Count(s.Calls), human.Plural(s.CallsOf, "call"), s.Selection)
	}
}

// totals writes the first lines: the sums over all calls.
func totals(w io.Writer, s *stats.Stats) {
	var launches, copies, bytes uint64
	for _, k := range s.Kernels {
		launches += k.Count
	}
	for _, k := range s.Copies {
		copies += k.Count
		bytes += k.Bytes
	}
	Printf(w, "%s in %s, %s failed; %s of %s, %s of %s\n", human.Plural(s.Calls, "call"), human.Duration(s.SpanNS), badCount(s.Failed),
		human.Plural(launches, "launch"), human.Plural(len(s.Kernels), "kernel"), human.Plural(copies, "copy"), human.Bytes(bytes))
	how := map[string]string{"marked": "marked by the program", "found": "found from repetition"}[s.Steps.Source]
	switch st := &s.Steps; {
	case st.Count == 0:
		Printf(w, "no steps: %s\n", st.Why)
	case st.Typical == 0:
		Printf(w, "%s, %s\n", human.Plural(st.Count, "step"), how)
	default:
		Printf(w, "%s, %s", human.Plural(st.Count, "step"), how)
		if st.Typical < st.Count {
			Printf(w, ", %s like most", human.Count(st.Typical))
		}
		if st.Typical == 1 {
			Printf(w, ": %s\n", human.Duration(st.P50NS))
			break
		}
		Printf(w, ": median %s, %s to %s\n", human.Duration(st.P50NS), human.Duration(st.MinNS), human.Duration(st.MaxNS))
	}
	if r := &s.Recording; r.NS > 0 {
		Printf(w, "recording took %s of the program's threads%s\n", human.Duration(r.NS), recordedCopies(r.Copies, ": ", ""))
	}
	if s.Peak != nil {
		Printf(w, "at most %s of device memory in use: after call %d, %s of %s, at %s\n", human.Bytes(s.PeakDeviceBytes), s.Peak.Call, s.Peak.Func, human.Bytes(s.Peak.Bytes), human.Moment(s.Peak.Time))
	}
}

// recordedCopies describes the recorder's share in the time of a copy, "" if no copy was recorded.
func recordedCopies(c *format.RecordedCopies, before, behind string) string {
	if c == nil || c.Count == 0 {
		return ""
	}
	n := int64(c.Count)
	return fmt.Sprintf("%s%s of %s of each %s copy, mean of %s%s", before, human.Duration(c.RecordingNS/n), human.Duration((c.RecordingNS+c.CallsNS)/n), human.Bytes(c.Bytes/c.Count),
		human.Plural(c.Count, "payload"), behind)
}

func kernelText(w io.Writer, t *table, s *stats.Stats) {
	if len(s.Kernels) == 0 {
		return
	}
	Printf(t, "\nlaunches\tin the calls\tmeasured\ton the device\tp50\tp99\tmax\t  kernel\n")
	for _, k := range s.Kernels[:min(most, len(s.Kernels))] {
		device, p50, p99, top := "-", "-", "-", "-"
		if k.Measured > 0 {
			device, p50, p99, top = human.Duration(k.DeviceNS), human.Duration(k.P50NS), human.Duration(k.P99NS), human.Duration(k.MaxNS)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(k.Count), human.Duration(k.HostNS), human.Count(k.Measured), device, p50, p99, top, k.Name)
	}
	t.Flush()
	rest(w, len(s.Kernels), "kernels")
}

// recordingCell is a cell in the column of recorder times. Traces without such times have no column.
func recordingCell(s *stats.Stats, text string) layout {
	if s.Recording.NS == 0 {
		return ""
	}
	return layout(text + "\t")
}

func copyText(t *table, s *stats.Stats) {
	if len(s.Copies) == 0 {
		return
	}
	row := func(k *stats.Task, name string) {
		rate := "-"
		if k.Rate > 0 {
			rate = human.Rate(k.Rate)
			if k.RateAtLeast {
				rate = ">= " + rate
			}
		}
		Printf(t, "%s\t%s\t%s\t%s%s\t%s\t  %s\n", human.Count(k.Count), human.Bytes(k.Bytes), human.Duration(k.HostNS), recordingCell(s, human.Duration(k.RecordingNS)), human.Count(k.Measured), rate, name)
	}
	Printf(t, "\ncopies\tbytes\tin the calls\t%smeasured\trate\t  direction and size\n", recordingCell(s, "recording"))
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
		Printf(t, "\ntasks\tlaunches\tcopies\tmeasured\tidle at least\tbusy at most\thost waited\tbound by\t  stream\n")
		for _, l := range s.Streams {
			Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(l.Tasks), human.Count(l.Launches), human.Count(l.Copies), human.Count(l.Measured), human.Duration(l.IdleAtLeastNS), human.Duration(l.BusyAtMostNS),
				human.Duration(l.WaitedNS), cmp.Or(l.Bound, "-"), l.Stream)
		}
	}
	if len(s.Idle) > 0 {
		Printf(t, "\nidle\tat\tstep\tin calls\t%sstream\t  the longest of these calls, and the task behind\n", recordingCell(s, "recording"))
		for _, d := range s.Idle {
			step, call := "-", "the program's own time"
			if s.Untimed() {
				call = "not known"
			} else if 2*d.RecordingNS > d.NS {
				call = "recording"
			}
			if d.Step >= 0 {
				step = fmt.Sprint(d.Step)
			}
			if d.Call != nil {
				if call = fmt.Sprintf("%s (call %d)", d.Func, *d.Call); t.width > 100 {
					call = fmt.Sprintf("%s (call %d, %s)", d.Func, *d.Call, human.Duration(d.InCallNS))
				}
			}
			Printf(t, "%s\t%s\t%s\t%s\t%s%s\t  %s; %s\n", human.Duration(d.NS), human.Moment(d.Time), step, human.Duration(d.InCallsNS), recordingCell(s, human.Duration(d.RecordingNS)), d.Stream, call, d.Next)
		}
	}
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

func threadText(t *table, s *stats.Steps) {
	if len(s.Threads) == 0 {
		return
	}
	recorder, head := slices.ContainsFunc(s.Threads, func(d stats.Thread) bool { return d.RecordingNS > 0 }), layout("")
	if recorder {
		head = "recording\t"
	}
	Printf(t, "\na step\twaiting\tlaunching\tcopying\tother calls\t%sits own time\ton the device\t  thread, mean of typical steps\n", head)
	for _, d := range s.Threads[:min(most, len(s.Threads))] {
		device := "-"
		if d.DeviceNS > 0 {
			device = human.Duration(d.DeviceNS)
		}
		took := layout("")
		if recorder {
			took = layout(human.Duration(d.RecordingNS) + "\t")
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s%s\t%s\t  %s\n", human.Duration(s.MeanNS), human.Duration(d.WaitingNS), human.Duration(d.LaunchingNS), human.Duration(d.CopyingNS), human.Duration(d.OtherNS),
			took, human.Duration(d.OwnNS), device, d.Thread)
	}
}
