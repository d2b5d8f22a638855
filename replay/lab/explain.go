package lab

import (
	"context"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// Writer is a call that wrote, or may have written, memory.
type Writer struct {
	Call uint64 `json:"call"`           // call number
	Name string `json:"name"`           // kernel, or the function of a call without a kernel
	Note string `json:"note,omitempty"` // why it may have written other data than recorded, empty if nothing suggests it
}

// maxChain limits the calls listed for one difference: the last ones.
const maxChain = 50

// entry is a write to an allocation.
type entry struct {
	Writer
	lo, hi uint64
	whole  bool // it may have written any byte
	in     bool // its data comes from the program
}

// A Byte is a byte of a result: in the memory that an output of a call shows.
type Byte struct {
	Call   uint64
	Item   uint32 // item of a batch, counted from 1; 0 for a single copy
	Offset uint64
}

// History is how a byte got its value.
type History struct {
	Chain      []Writer `json:"chain,omitempty"`       // calls that wrote the byte, or may have, since the last copy from the host; the last 50
	Reason     string   `json:"reason,omitempty"`      // likely cause of the difference, if known
	ChainTotal int      `json:"chain_total,omitempty"` // number of such calls
}

// Explain returns the history of each byte.
func Explain(ctx context.Context, r *format.Reader, m *api.Model, bytes []Byte) ([]History, error) {
	if len(bytes) == 0 {
		return nil, nil
	}
	histories := make([]History, len(bytes))
	want := map[uint64][]int{}
	for i, b := range bytes {
		want[b.Call] = append(want[b.Call], i)
	}
	log := map[*timeline.Object][]entry{}
	spoiled := map[*timeline.Object]*timeline.Object{} // by dependent memory: host memory that the program writes without a call
	err := access.Each(r, m, func(q *access.Call) error {
		e := q.Event
		for _, i := range want[e.Call.Index] {
			if o, off := q.Origin(bytes[i].Item); o != nil {
				histories[i].add(log[o], off+bytes[i].Offset)
				if o.Hosted {
					histories[i].Reason = fmt.Sprintf("the program may write to the memory of call %d without a call", o.Created)
				}
			}
		}
		if !q.OK {
			return ctx.Err() // it wrote nothing
		}
		kernel := e.Fn.Task == api.Kernel || e.Fn.Task == api.GraphRun
		name := e.Fn.Name
		if e.Kernel != "" {
			name = e.Kernel
		}
		note := ""
		if slices.ContainsFunc(q.Data, func(d format.Data) bool { return d.Reason == format.TakenEarly }) {
			note = "its data was " + format.TakenEarly.String()
		}
		hosted := unseen(q)
		for _, t := range q.Regions {
			if hosted == nil && t.Kind != access.Writes {
				hosted = spoiled[t.Object]
			}
		}
		if note == "" && hosted != nil {
			note = fmt.Sprintf("it may depend on data that the program wrote to the memory of call %d without a call", hosted.Created)
		}
		seen := map[*timeline.Object]bool{}
		for _, t := range q.Regions {
			switch {
			case kernel && t.Kind == access.Names && !seen[t.Object]:
				seen[t.Object] = true
				if hosted != nil {
					spoiled[t.Object] = hosted
				}
				log[t.Object] = append(log[t.Object], entry{Writer: Writer{e.Call.Index, name, note}, whole: true})
			case t.Kind == access.Writes:
				in := !slices.ContainsFunc(q.Regions, func(t access.Region) bool { return t.Kind == access.Reads })
				if in && t.Lo == 0 && t.Hi >= t.Object.Size {
					log[t.Object] = nil // overwrites all earlier writes
					delete(spoiled, t.Object)
				}
				if hosted != nil {
					spoiled[t.Object] = hosted
				}
				log[t.Object] = append(log[t.Object], entry{Writer: Writer{e.Call.Index, name, note}, lo: t.Lo, hi: t.Hi, in: in})
			}
		}
		return ctx.Err()
	})
	return histories, err
}

// add lists the writes to one byte since the last copy from the host, including that.
func (h *History) add(log []entry, at uint64) {
	for i := len(log) - 1; i >= 0; i-- {
		w := &log[i]
		if !w.whole && (at < w.lo || at >= w.hi) {
			continue
		}
		h.ChainTotal++
		if len(h.Chain) < maxChain {
			h.Chain = append(h.Chain, w.Writer)
		}
		if w.in {
			break
		}
	}
	slices.Reverse(h.Chain)
}

// unseen returns memory that the program writes without a call and that the call or its task may read, nil if there is none.
func unseen(q *access.Call) *timeline.Object {
	if n := len(q.Unseen); n > 0 {
		return q.Unseen[n-1]
	}
	for _, r := range q.Regions {
		if r.Kind == access.Reads && r.Object.Hosted && !q.Known(q.Visible(r.Object)) {
			return r.Object
		}
	}
	return nil
}
