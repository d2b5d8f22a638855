package whatif

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
)

// A wait makes known that the task that it follows is done, for events and for notifies.
func TestWaitsFollowTheirTask(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		m, err := newProgram(tr.Reader, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		tasks := map[string]int32{} // by name
		for i := range m.calls.n {
			if c := m.calls.at(i); c.task >= 0 {
				tasks[tr.Names[uint64(i)]] = c.task
			}
		}
		_, edges := p.Wants()
		for _, e := range edges {
			source, followed := m.order.sources[tasks[e.After]]
			switch {
			case e.Is("nothing", "value"):
				if followed {
					t.Errorf("%s has the source %d", e.After, source)
				}
			case e.Is("event", "notify"):
				if before := tasks[e.Before()]; !followed || source != before {
					t.Errorf("%s has the source %d (%v), not %d", e.After, source, followed, before)
				}
			}
		}
	})
}
