package report

import (
	"math"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// lineGaps finds the time between a call and the one before it on its thread.
type lineGaps struct {
	wanted  bool               // calls of a period are listed
	ends    map[uint32]lineEnd // by thread
	skipped int64              // latest start of a call in a chunk that was not read
	gap     int64              // of the latest call, -1 if it is not known
}

type lineEnd struct {
	start int64 // of the thread's latest call
	end   int64 // latest end of its calls
}

func newLineGaps(o *LineOptions) lineGaps {
	return lineGaps{wanted: o.Steps != nil || o.Calls != nil || o.From != 0 || o.To != 0, ends: map[uint32]lineEnd{}, skipped: math.MinInt64, gap: -1}
}

// skip takes a chunk that is not read: its calls may be between others.
func (g *lineGaps) skip(c *format.ChunkInfo) { g.skipped = max(g.skipped, c.TMax) }

// see takes a call.
func (g *lineGaps) see(c *format.Call) {
	if !g.wanted {
		return
	}
	before, known := g.ends[c.Thread]
	g.gap = -1
	if known && before.start >= g.skipped {
		g.gap = max(c.Start-before.end, -1) // in another call
	}
	g.ends[c.Thread] = lineEnd{c.Start, max(before.end, c.End)}
}

// appendText appends the column, which is empty unless calls of a period are listed.
func (g *lineGaps) appendText(dst []byte) []byte {
	if !g.wanted {
		return dst
	}
	at := len(dst)
	if g.gap >= 0 {
		dst = human.AppendDuration(append(dst, '+'), g.gap)
	}
	return append(pad(dst, at, len("+1.25 us")), "  "...)
}
