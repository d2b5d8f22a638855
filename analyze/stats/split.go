package stats

// Gaps returns the mean own times between the calls of a typical step, on the thread that makes the steps.
func (x *Splitter) Gaps() []Gap {
	d, _ := x.main()
	if d == nil || x.n == 0 {
		return nil
	}
	return d.gaps.means(x.n)
}

// Most returns the function with most time in the waits, launches, copies or other calls of steps, on the thread that makes the steps. It
// returns "" for none.
func (x *Splitter) Most(part Part) string {
	if c := x.most(part); c != nil {
		return c.Func
	}
	return ""
}

// most returns the calls with most time in an activity on the thread that makes the steps, nil for none.
func (x *Splitter) most(part Part) *CallSum {
	d, _ := x.main()
	if d == nil {
		return nil
	}
	return d.calls.most(part, x.n > 0)
}

// A Part is one of the Parts of a time. The first ones are activities of calls.
type Part int

const (
	PartWaiting Part = iota
	PartLaunching
	PartCopying
	PartOther
	PartRecording
	PartBlocked
	PartOwn
)

// AllParts has the parts in the order of Parts.
var AllParts = []Part{PartWaiting, PartLaunching, PartCopying, PartOther, PartRecording, PartBlocked, PartOwn}

// kind returns the kind of the finding about the part.
func (p Part) kind() FindingKind {
	return [...]FindingKind{Waits, Launches, Copies, OtherCalls, Recorder, Blocked, OwnTime}[p]
}

func (p Part) String() string { return string(p.kind()) }

// Of returns a part of a time.
func (p Part) Of(of *Parts) int64 {
	return [...]int64{of.WaitingNS, of.LaunchingNS, of.CopyingNS, of.OtherNS, of.RecordingNS, of.BlockedNS, of.OwnNS}[p]
}
