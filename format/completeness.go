package format

import "slices"

// Completeness lists the missing calls of a trace. Calls that were left out on request are outside the
// trace's window: they are no loss.
type Completeness struct {
	// Cut is the reason why calls after the last one are missing, "" if the recording came to its end. A recovered trace stays cut.
	Cut     string
	Lost    []Gap // times of lost calls
	Refused int   // threads without any record
	Damaged int   // damaged places found so far: see Reader.Damage
	// Recording is true if the recorder still runs, so that later calls follow. Cut is BeingRecorded.
	Recording bool
	Window    Window // wanted part of the program's calls
	Outside   []Gap  // times outside the window
}

// BeingRecorded is the Cut of a trace whose recorder still runs.
const BeingRecorded = "it is being recorded"

// Accounted returns how many calls the recorded programs made until the trace's end, as far as it says: those that it has, those
// that are lost, and those that were left out.
func (r *Reader) Accounted() (uint64, error) {
	counts, err := r.Counts()
	if err != nil {
		return 0, err
	}
	n := counts.Calls
	for _, g := range slices.Concat(r.Gaps(), r.damaged()) {
		n += g.Calls
	}
	return n, nil
}

// Scope is the completeness of a trace in JSON documents made from it.
type Scope struct {
	Complete bool   `json:"complete"` // nothing was lost
	Window   Window `json:"window"`   // wanted part: whole, ring, steps, armed, attached or extracted
}

// Scope returns the completeness in short.
func (c *Completeness) Scope() Scope { return Scope{c.Whole(), c.Window} }

// Whole reports if nothing was lost.
func (c *Completeness) Whole() bool {
	return c.Cut == "" && len(c.Lost) == 0 && c.Refused == 0 && c.Damaged == 0
}

// Completeness returns the missing parts of the trace. Damage counts only in the parts read so far.
func (r *Reader) Completeness() *Completeness {
	m := r.Meta()
	c := &Completeness{Cut: m.Recovered, Refused: m.Coverage.Refused, Damaged: len(r.Damage()), Window: m.Window}
	if rec := r.Recovered(); rec != nil {
		c.Cut = rec.Reason
	}
	if r.recording {
		c.Cut, c.Recording = BeingRecorded, true
	}
	older := false
	for _, g := range slices.Concat(r.Gaps(), r.damaged()) {
		if !g.Intended() {
			c.Lost = append(c.Lost, g)
			continue
		}
		c.Outside = append(c.Outside, g)
		older = older || g.Reason == Outdated
	}
	if c.Window != "" {
		return c
	}
	// A recording of an earlier version does not name its window.
	switch {
	case m.Extracted != nil:
		c.Window = WindowExtracted
	case m.Sealed != "" || older:
		c.Window = WindowRing
	case len(c.Outside) > 0:
		c.Window = WindowArmed
	default:
		c.Window = WindowWhole
	}
	return c
}
