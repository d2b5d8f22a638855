package timeline_test

import (
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/timeline"
)

// The words for a wait name the call that the table of programs has.
func TestWaitsInWords(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		s := timeline.NewState(acl.Model).Read(tr.Reader)
		w := timeline.NewWaits(s)
		waits := map[string][]timeline.Wait{}
		for c, err := range tr.Reader.CallsByStart(nil) {
			if err != nil {
				t.Fatal(err)
			}
			waits[tr.Names[c.Index]] = w.Of(s.Apply(tr.Reader.ProcessOf(c.Thread), c))
		}
		_, edges := p.Wants()
		for _, e := range edges {
			got := waits[e.After]
			switch {
			case e.Is("nothing", "same stream", "host wait?", "device wait") || e.Is("host wait") && !e.Is("host wait for an event"):
				if len(got) > 0 {
					t.Errorf("%s %s", e.After, &got[0])
				}
			case tr.Calls[e.After] < tr.Calls[e.Before()]: // the wait came first
			case len(got) != 1 || got[0].Call != tr.Calls[e.Before()]:
				t.Errorf("%s: %v, want %s", e.After, got, e.Text)
			case e.Is("event r") && p.Name == "an event":
				if text, want := got[0].String(), fmt.Sprintf("waits for event#%d(older), recorded by call %d on stream#%d", got[0].Object.ID, got[0].Call, got[0].Lane.Stream.ID); text != want {
					t.Errorf("%q, want %q", text, want)
				}
			case e.Is("value"):
				if got[0].Object != nil {
					t.Errorf("%s", &got[0])
				}
			}
		}
	})
}
