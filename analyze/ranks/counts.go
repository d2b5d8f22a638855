package ranks

import (
	"maps"
	"slices"

	"github.com/acltrace/acltrace/format"
)

// counts adds to the recorder's counts of the first rank those of another one. A divided trace already has the counts of all ranks, except for its copies.
func counts(meta, was *format.Meta) {
	t, of := &meta.Tracer, &was.Tracer
	t.CostNS = max(t.CostNS, of.CostNS)
	t.ClockJumps += of.ClockJumps
	t.PayloadNS += of.PayloadNS
	if t.GapNS > 0 && of.GapNS > 0 {
		t.GapNS = max(t.GapNS, of.GapNS)
	} else {
		t.GapNS = 0 // the gaps of one of them are not divided
	}
	if c := of.Copies; c != nil {
		sum := format.RecordedCopies{}
		if t.Copies != nil {
			sum = *t.Copies
		}
		t.Copies = &format.RecordedCopies{Count: sum.Count + c.Count, Bytes: sum.Bytes + c.Bytes, RecordingNS: sum.RecordingNS + c.RecordingNS, CallsNS: sum.CallsNS + c.CallsNS}
	}
	meta.TakenEarly += was.TakenEarly
	meta.HostVisibleMissing += was.HostVisibleMissing
	if was.Divided {
		return
	}
	covered(&meta.Coverage, &was.Coverage)
	if d := was.DeviceTime; d != nil {
		if meta.DeviceTime == nil {
			meta.DeviceTime = &format.DeviceTime{Every: d.Every, GapNS: d.GapNS}
		}
		meta.DeviceTime = timed(*meta.DeviceTime, d)
	}
}

func covered(c, of *format.Coverage) {
	passed := map[string]uint64{}
	for name, n := range c.PassedBy {
		passed[name] += n
	}
	for name, n := range of.PassedBy {
		passed[name] += n
	}
	c.PassedBy = passed
	c.Hooked = max(c.Hooked, of.Hooked)
	c.Unhooked = append(slices.Clip(c.Unhooked), of.Unhooked...)
	c.Refused += of.Refused
	c.Unsized += of.Unsized
	c.CutArguments += of.CutArguments
	c.NoEnd += of.NoEnd
	c.Cut += of.Cut
	c.Asleep = append(slices.Clip(c.Asleep), of.Asleep...)
	endless := map[string]bool{}
	for _, name := range append(slices.Clip(c.Endless), of.Endless...) {
		endless[name] = true
	}
	c.Endless = slices.Sorted(maps.Keys(endless))
}

// timed adds the measured tasks of a rank. Errors are the largest of all ranks: also the typical one.
func timed(sum format.DeviceTime, d *format.DeviceTime) *format.DeviceTime {
	sum.Every, sum.GapNS = max(sum.Every, d.Every), max(sum.GapNS, d.GapNS)
	sum.Measured += d.Measured
	sum.NeverSynchronized += d.NeverSynchronized
	sum.PoolExhausted += d.PoolExhausted
	sum.Captured += d.Captured
	sum.Lost += d.Lost
	sum.Refused += d.Refused
	sum.Unsound += d.Unsound
	sum.Jumps += d.Jumps
	sum.TypicalErrorNS, sum.ErrorNS = max(sum.TypicalErrorNS, d.TypicalErrorNS), max(sum.ErrorNS, d.ErrorNS)
	return &sum
}
