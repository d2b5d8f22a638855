package compile

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/replay/plan"
)

// The lookahead knows what waits cover, and what the tasks after a wait may follow, by raw handles alone.
func TestLookaheadOrdersTasks(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		c := &compiler{Plan: &Plan{Model: acl.Model}, Writer: &plan.Writer{}, r: tr.Reader, process: map[uint32]int{}, known: known{facts: make([]*facts, 1<<16)}}
		c.look = c.newLookahead()
		defer c.look.stop()
		for i, th := range tr.Reader.Threads() {
			c.thread = append(c.thread, i)
			c.Threads = append(c.Threads, Thread{thread: uint32(i), Process: int(th.Process)})
		}
		for i := range tr.Reader.Processes() {
			c.procs = append(c.procs, planned{process: uint32(i)})
		}
		at := map[string]taskPlace{} // by name

		for k, err := range tr.Reader.CallsByStart(nil) {
			if err != nil {
				t.Fatal(err)
			}
			th := &c.Threads[c.thread[k.Thread]]
			n := len(th.window)
			if c.enter(k); len(th.window) > n {
				name := tr.Names[k.Index]
				at[name] = th.window[n].taskPlace
			}
		}
		_, edges := p.Wants()
		for _, e := range edges {
			if e.Is("nothing", "same stream", "default stream") || tr.Call(e.Before()).Stream == "now" || tr.Call(e.After).Stream == "p1" { // a process has handles of its own
				continue
			}
			after, before := at[e.After], at[e.Before()]
			covers := after.waitsFor(before.lane, before.task)
			if after.task > 0 { // a record may come after the wait
				covers = c.look.tasks.before[after.lane].At(int32(before.lane)) >= uint64(before.task)
			}
			if before.task == 0 || !covers {
				t.Errorf("%s does not follow %s: %+v, %+v", e.After, e.Text, after, before)
			}
		}
	})
}
