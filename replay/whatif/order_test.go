package whatif

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
)

// A wait makes known that the task that it follows is done, for events and for notifies.
func TestSources(t *testing.T) {
	for _, p := range ordertest.Programs {
		t.Run(p.Name, func(t *testing.T) {
			if why := p.Skipped(); why != "" {
				t.Skip(why)
			}
			tr := p.Trace(t, func(c *ordertest.Call) ordertest.Task {
				if c.Stream == "now" {
					return ordertest.Fill(c, ordertest.Memory)
				}
				return ordertest.Launch(c)
			})
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
				case strings.HasPrefix(e.Text, "nothing"), strings.HasPrefix(e.Text, "value"):
					if followed {
						t.Errorf("%s has the source %d", e.After, source)
					}
				case strings.HasPrefix(e.Text, "event"), strings.HasPrefix(e.Text, "notify"):
					if before := tasks[e.Text[len(e.Text)-1:]]; !followed || source != before {
						t.Errorf("%s has the source %d (%v), not %d", e.After, source, followed, before)
					}
				}
			}
		})
	}
}
