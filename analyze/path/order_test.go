package path

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/timeline"
)

// A task and a wait follow the tasks that the table of programs names.
func TestTasksAndWaitsFollowPredecessors(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		w := timeline.NewWalk(tr.Reader, acl.Model, nil)
		f := NewFinder(w)
		tasks := map[string]int{} // by name
		if err := w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error {
			if k != nil {
				tasks[tr.Names[h.Index]] = k.Index
			}
			f.Call(h, k, w.Links(), 0)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		_, edges := p.Wants()
		for _, e := range edges {
			if e.Is("nothing") {
				continue
			}
			c := tr.Call(e.After)
			if c.Failed || c.Unfinished || c.Stream == "p1" || c.Stream == "h1" {
				continue // these follow nothing, or are not of the process
			}
			before := tasks[e.Before()]
			if !f.followed(tasks, e.After, tr.Calls[e.After], before) {
				t.Errorf("%s does not follow %s", e.After, e.Text)
			}
		}
	})
}

// followed reports whether a task, or a call that waits, follows a task.
func (f *Finder) followed(tasks map[string]int, name string, index uint64, before int) bool {
	if after, ok := tasks[name]; ok {
		t := &f.tasks[f.find(after)]
		for _, l := range f.follows[after] {
			if l.Before == before {
				return true
			}
		}
		return t.prev == before
	}
	for i := range f.threads {
		for _, c := range f.threads[i].calls {
			if c.index != index || c.wait < 0 {
				continue
			}
			for _, target := range f.targets[f.waits[c.wait].from:f.waits[c.wait].to] {
				if target == before {
					return true
				}
			}
		}
	}
	return false
}
