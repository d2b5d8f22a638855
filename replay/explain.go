package replay

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
	Call uint64 `json:"call"`
	Name string `json:"name"` // the kernel's, or else the function's
	// Note says why the call may have written other data than recorded, "" if nothing suggests it.
	Note string `json:"note,omitempty"`
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

// explain adds the calls that wrote the differing bytes.
func explain(ctx context.Context, r *format.Reader, m *api.Model, rep *Report) error {
	want := map[uint64][]*Difference{}
	for i := range rep.Differences {
		if d := &rep.Differences[i]; d.result && !d.length {
			want[d.Call] = append(want[d.Call], d)
		}
	}
	if rep.Repeat != nil {
		for i := range rep.Repeat.NotDeterministic {
			if d := &rep.Repeat.NotDeterministic[i]; d.result {
				want[d.Call] = append(want[d.Call], d)
			}
		}
	}
	if len(want) == 0 {
		return nil
	}
	log := map[*timeline.Object][]entry{}
	spoiled := map[*timeline.Object]*timeline.Object{} // by dependent memory: host memory that the program writes without a call
	_, err := access.Each(r, m, func(q *access.Call) error {
		e := q.Event
		for _, d := range want[e.Call.Index] {
			if o, off := q.Origin(d.item); o != nil {
				d.chain(log[o], off+d.Offset)
				if o.Hosted {
					d.Reason = fmt.Sprintf("the program may write to the memory of call %d without a call", o.Created)
				}
			}
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
		hosted := q.Unseen
		for _, t := range q.Regions {
			if hosted == nil && t.Kind != access.Writes {
				hosted = spoiled[t.Object]
			}
		}
		if note == "" && hosted != nil {
			note = fmt.Sprintf("it may depend on what the program wrote without a call, to the memory of call %d", hosted.Created)
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
	return err
}

// chain lists the writes to one byte since the last copy from the host, including that.
func (d *Difference) chain(log []entry, at uint64) {
	for i := len(log) - 1; i >= 0; i-- {
		w := &log[i]
		if !w.whole && (at < w.lo || at >= w.hi) {
			continue
		}
		d.ChainTotal++
		if len(d.Chain) < maxChain {
			d.Chain = append(d.Chain, w.Writer)
		}
		if w.in {
			break
		}
	}
	slices.Reverse(d.Chain)
}
