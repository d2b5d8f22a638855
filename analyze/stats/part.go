package stats

// Parts divide a time on one thread. They add up to the time, except for rounding.
type Parts struct {
	WaitingNS   int64 `json:"waiting_ns"`   // in calls that wait for the device or poll it
	LaunchingNS int64 `json:"launching_ns"` // in calls that launch kernels and graphs
	CopyingNS   int64 `json:"copying_ns"`   // in calls that copy and fill
	OtherNS     int64 `json:"other_ns"`     // in other calls
	RecordingNS int64 `json:"recording_ns"` // between calls, in the recorder
	BlockedNS   int64 `json:"blocked_ns"`   // between calls, not running: waiting for another thread, a file or a time to pass; 0 if the recording did not measure it
	OwnNS       int64 `json:"own_ns"`       // between calls, in the program
}

// InCallsNS returns the time in calls.
func (p *Parts) InCallsNS() int64 { return p.WaitingNS + p.LaunchingNS + p.CopyingNS + p.OtherNS }

// partsOf divides a time on a thread whose calls took what now says.
func partsOf(now *[PartOwn]int64, total int64) Parts {
	p := Parts{WaitingNS: now[PartWaiting], LaunchingNS: now[PartLaunching], CopyingNS: now[PartCopying], OtherNS: now[PartOther]}
	p.RecordingNS = min(now[PartRecording], max(total-p.InCallsNS(), 0))
	p.BlockedNS = min(now[PartBlocked], max(total-p.InCallsNS()-p.RecordingNS, 0))
	p.OwnNS = max(total-p.InCallsNS()-p.RecordingNS-p.BlockedNS, 0)
	return p
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

// Of returns a part of a time.
func (p Part) Of(of *Parts) int64 {
	return [...]int64{of.WaitingNS, of.LaunchingNS, of.CopyingNS, of.OtherNS, of.RecordingNS, of.BlockedNS, of.OwnNS}[p]
}
