package timeline_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// A Walk passes to an order all that decides who precedes whom.
func TestOrderOfAWalk(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		w := timeline.NewWalk(tr.Reader, acl.Model, nil)
		o := order.New[*timeline.Object, struct{}]()
		o.Clocks = true
		stamps, edges := map[string]order.Stamp{}, map[string][]string{}
		gaps := tr.Reader.Gaps()
		err := w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error {
			if len(gaps) > 0 && gaps[0].From < h.Start {
				o.Lost(0, gaps[0].From, gaps[0].To)
				gaps = gaps[1:]
			}
			w.AddLanes(o)
			for _, e := range o.Apply(w.OrderCall(h, k)) {
				why := e.Why.String()
				if !e.Certain {
					why += "?"
				}
				edges[tr.Names[e.After.Call]] = append(edges[tr.Names[e.After.Call]], why+" "+tr.Names[e.Before.Call])
			}
			if k != nil {
				stamps[tr.Names[h.Index]] = o.Stamp()
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		p.Check(t, func(before, after string) bool {
			a, b := stamps[before], stamps[after]
			return order.Precedes(&a, &b) == order.Yes
		}, edges)
	})
}
