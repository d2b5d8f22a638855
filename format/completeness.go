package format

import "slices"

// Completeness says what a trace lacks of the calls that the program made. Calls that were left out on request are outside of the
// trace's window: they are no loss.
type Completeness struct {
	// Cut says why the calls after the last one are missing, "" if the recording came to its end. A recovered trace stays cut.
	Cut     string
	Lost    []Gap  // times at which calls were lost
	Refused int    // threads of which nothing was recorded
	Damaged int    // damaged places found so far: see Reader.Damage
	Window  Window // what was to be recorded
	Outside []Gap  // times outside of the window
}

// Scope is what documents in JSON say of the completeness of the trace that they were made of.
type Scope struct {
	Complete bool   `json:"complete"` // nothing was lost
	Window   Window `json:"window"`   // what was to be recorded
}

// Scope returns the completeness in short.
func (c *Completeness) Scope() Scope { return Scope{c.Whole(), c.Window} }

// Whole reports whether nothing was lost.
func (c *Completeness) Whole() bool {
	return c.Cut == "" && len(c.Lost) == 0 && c.Refused == 0 && c.Damaged == 0
}

// Completeness returns what the trace lacks. Damage counts only as far as the trace was read.
func (r *Reader) Completeness() *Completeness {
	m := r.Meta()
	c := &Completeness{Cut: m.Recovered, Refused: m.Coverage.Refused, Damaged: len(r.Damage()), Window: m.Window}
	if rec := r.Recovered(); rec != nil {
		c.Cut = rec.Reason
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
