package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/acltrace/acltrace/analyze/memory"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/human"
)

// memorySites is the number of sites that MemoryText lists.
const memorySites = 30

// MemoryText writes the device memory of the trace in a file by the sites that allocate it, as `acltrace stats --memory` does.
func MemoryText(w io.Writer, file string, m *memory.Memory, o *TextOptions) error {
	t := newTable(w, o)
	if m.Peak == nil {
		Printf(t, "no device memory: the trace has no allocation\n")
		if err := t.Flush(); err != nil {
			return err
		}
		nextText(w, acltrace("stats", file))
		return nil
	}
	line := func(name, format string, args ...any) {
		writeMarked(t, wrap(sprintf("%-11s "+format, append([]any{name}, args...)...), o.width(), framesAt+1)+"\n")
	}
	several, of := "", ""
	if len(m.Devices) > 1 {
		several = " on all devices"
		deviceMemoryRows(line, m.Devices)
	} else {
		line("at most", "%s at %s, with call %d (%s of %s)", human.Bytes(m.PeakBytes), human.Moment(m.Peak.Time), m.Peak.Call, m.Peak.Func, human.Bytes(m.Peak.Bytes))
	}
	if m.Process != 0 {
		of = " of " + processName(m.Process, m.Rank)
	}
	line("never freed", "%s in %s%s", human.Bytes(m.KeptBytes), human.Plural(m.KeptCount, "allocation"), several)
	if m.Steps > 0 {
		line("freed late", "%s in %s after the last step%s", human.Bytes(m.LateBytes), human.Plural(m.LateCount, "allocation"), of)
	}
	grows := m.Grows()
	switch {
	case grows != nil:
		line("grows", "%s%s: %s", growthText(grows.Growth), of, grows)
	case m.Growth != nil:
		line("grows", "%s%s, none of its sites alone", growthText(m.Growth), of)
	case m.Steps > 0:
		line("grows", "no, over %s%s", human.Plural(m.Steps, "step"), of)
	}
	memoryTable(t, m)
	if err := t.Flush(); err != nil {
		return err
	}
	if grows != nil && grows.Func != "" {
		nextText(w, acltrace("cat", "--func", grows.Func, "--thread", fmt.Sprint(grows.TID), file))
		return nil
	}
	nextText(w, acltrace("where", "--map", file))
	return nil
}

// framesAt is the column of the frames below a site.
const framesAt = 11

// siteText names a site without its stack, whose frames have lines of their own.
func siteText(s *memory.Site) string {
	if len(s.Stack) > 0 {
		return fmt.Sprintf("%s, %s each", s.Func, s.SizeClass)
	}
	return s.String()
}

// memoryTable writes the sites.
func memoryTable(t *table, m *memory.Memory) {
	several := func(differs func(*memory.Site) bool) bool {
		return slices.ContainsFunc(m.Sites, func(s memory.Site) bool { return differs(&s) })
	}
	processes := several(func(s *memory.Site) bool {
		return s.Process != m.Sites[0].Process || !sameRank(s.Rank, m.Sites[0].Rank)
	})
	devices := several(func(s *memory.Site) bool { return s.Device != m.Sites[0].Device })
	Printf(t, "\nat peak\tnumber\tat most\tnever freed\tfreed late\ta step\tallocations\tdevice\tprocess\t  allocated by\n")
	for i := range m.Sites[:min(len(m.Sites), memorySites)] {
		s := &m.Sites[i]
		step := "-"
		if s.Growth != nil {
			step = "+" + human.Bytes(uint64(max(s.Growth.PerStep, 1)))
		}
		device, process := "-", "-"
		if devices && s.Device >= 0 {
			device = fmt.Sprint(s.Device)
		}
		if processes {
			process = processAndRank(s.Process, s.Rank)
		}
		Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", human.Bytes(s.AtPeakBytes), human.Count(s.AtPeakCount), human.Bytes(s.MostBytes), human.Bytes(s.KeptBytes), human.Bytes(s.LateBytes), step,
			human.Count(s.Allocations), device, process, siteText(s))
		for _, f := range s.Stack {
			Printf(t, "%*s%s\n", framesAt, "", f)
		}
	}
	if n := len(m.Sites) - memorySites; n > 0 {
		Printf(t, "(%d more sites: --json has all)\n", n)
	}
}

// sameRank reports whether two processes have one rank, or both none.
func sameRank(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// growthText describes growing memory.
func growthText(g *stats.Growth) string {
	return fmt.Sprintf("by %s a step: from %s to %s in %s", human.Bytes(uint64(max(g.PerStep, 1))), human.Bytes(g.FromBytes), human.Bytes(g.ToBytes), human.Plural(g.Steps, "step"))
}
