package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/acltrace/acltrace/analyze/live"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// TopText writes the sums of a recording in progress, as a screen of 40 lines.
func TopText(w io.Writer, t *live.Top, o *TextOptions) error {
	state := "recording ended"
	if t.Recording {
		state = "recording"
	}
	rate := func(n uint64) string {
		if t.Seconds() <= 0 {
			return "-"
		}
		return human.Count(uint64(float64(n)/t.Seconds() + 0.5))
	}
	share := func(ns int64) string {
		if t.Seconds() <= 0 {
			return "-"
		}
		return human.Share(float64(ns) / t.Seconds() / 1e9)
	}
	Printf(w, "%s at %s: %s, %s/s in the last %s, %s failed, %s lost\n", state, human.Moment(t.ToNS), human.Plural(t.Calls, "call"), rate(t.NewCalls), human.Duration(t.ToNS-t.FromNS), badCount(t.Failed), badCount(t.Lost))
	selectedText(w, t.Calls, &t.Selected)
	if t.Damaged > 0 {
		Printf(w, "damaged in %s: acltrace fsck lists the damage\n", human.Plural(t.Damaged, "place"))
	}
	topMemoryText(w, t)
	if len(t.Standing) > 0 {
		Printf(w, "in progress:\n")
		StandingText(w, "  ", t.Standing)
	}
	tw := newTable(w, o)
	several := slices.ContainsFunc(t.Streams, func(s live.Sum) bool { return s.Process != t.Streams[0].Process })
	table := func(what string, rows []live.Sum, n int, bytes bool) {
		if len(rows) == 0 {
			return
		}
		Printf(tw, "\ncalls\tin calls\tcalls/s\tshare\tbytes/s\t  %s\n", what)
		for _, s := range rows[:min(n, len(rows))] {
			if several && s.Process != 0 {
				s.Name += fmt.Sprintf(" of process %d", s.Process)
			}
			moved := "-"
			if bytes && t.Seconds() > 0 {
				moved = human.Rate(float64(s.NewBytes) / t.Seconds())
			}
			Printf(tw, "%s\t%s\t%s\t%s\t%s\t  %s\n", human.Count(s.Count), human.Duration(s.HostNS), rate(s.New), share(s.NewNS), moved, human.Kernel(s.Name))
		}
	}
	functions, kernels := most, most
	if len(t.Operators) > 0 { // they need room on the screen
		functions, kernels = 8, 5
	}
	table("function", t.Functions, functions, false)
	table("operator", t.Operators, kernels, false)
	table("kernel", t.Kernels, kernels, false)
	table("stream", t.Streams, 6, false)
	table("copies", t.Copies, 4, true)
	if err := tw.Flush(); err != nil || t.Recording {
		return err
	}
	switch {
	case t.Lacks.Cut != "":
		NextText(w, RecoverCommand(t.Path())...)
	case t.Damaged > 0:
		NextText(w, "acltrace", "fsck", t.Path())
	case t.Failed > 0:
		NextText(w, "acltrace", "blame", t.Path())
	default:
		NextText(w, "acltrace", "stats", t.Path())
	}
	return nil
}

// topDevices is the number of devices whose memory is shown.
const topDevices = 4

// topMemoryText writes the memory of each device by each process.
func topMemoryText(w io.Writer, t *live.Top) {
	since, unknown := "", ""
	if t.Lacks != nil && t.Lacks.Window == format.WindowAttached {
		since, unknown = " allocated since attach", "; earlier allocations are unknown"
	}
	list := slices.Clone(t.Devices)
	slices.SortStableFunc(list, func(a, b live.DeviceMemory) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.PeakBytes, a.PeakBytes))
	})
	if len(list) == 0 {
		list = []live.DeviceMemory{{}}
	}
	several := slices.ContainsFunc(list, func(m live.DeviceMemory) bool { return m.Process != list[0].Process || !sameRank(m.Rank, list[0].Rank) })
	for _, m := range list[:min(topDevices, len(list))] {
		of := ""
		if len(list) > 1 && m.Device >= 0 {
			of = fmt.Sprintf(" of device %d", m.Device)
		}
		if several {
			of += " by " + processName(m.Process, m.Rank)
		}
		Printf(w, "device memory%s%s: %s in use, at most %s%s\n", of, since, human.Bytes(m.Bytes), human.Bytes(m.PeakBytes), unknown)
	}
	if n := len(list) - topDevices; n > 0 {
		Printf(w, "(memory of %s: --json has all)\n", human.Plural(n, "more device"))
	}
}
