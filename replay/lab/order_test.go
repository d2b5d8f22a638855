package lab

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/timeline/access"
)

// The steps of a survey keep what orders tasks.
func TestStepsKeepTheOrderOfTasks(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		j, err := newJournal(acl.Model, slabSize)
		if err != nil {
			t.Fatal(err)
		}
		defer j.close()
		v := newSurvey(acl.Model, j)
		o := newStepOrder(v)
		edges := map[string]string{} // by name
		if err := access.Each(tr.Reader, acl.Model, func(q *access.Call) error {
			s := v.step(q)
			if s == nil || s.lane == 0 || s.graph != 0 {
				return nil
			}
			wrote := 0
			if name := tr.Names[s.index]; name != "" && tr.Call(name).Op == "put" {
				wrote = s.areas[0].root
			}
			for _, e := range o.apply(s, wrote) {
				edges[tr.Names[e.After.Call]] += fmt.Sprintf("%s %s, ", e.Why, tr.Names[e.Before.Call])
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, wanted := p.Wants()
		for _, e := range wanted {
			switch text := strings.Replace(e.Text, "?", "", 1); {
			case tr.Call(e.After).Unfinished, e.Is("value", "nothing"): // not replayed; a write counts whatever the value; lists of notifies are not kept
			case !strings.Contains(edges[e.After], text):
				t.Errorf("%s<-%s: edges %s", e.After, text, edges[e.After])
			}
		}
	})
}
