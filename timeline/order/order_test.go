package order_test

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/ordertest"
	. "github.com/acltrace/acltrace/timeline/order"
)

// lanes are the ordertest.Streams.
func lanes() []Lane {
	return []Lane{{}, {}, {}, {Device: 1}, {Process: 1}, {Process: 2, Host: 1}, {Default: true, Blocks: true}, {Blocks: true}, {Blocks: true}, {Synchronous: true}}
}

type meaning struct {
	task api.Task
	sync api.Sync
	kind api.Object
	does api.Share
}

// Operations of test programs: NAME=OPERATION OBJECT STREAM. A first word "2:" names the thread, "|" overlaps the call before.
var operations = map[string]meaning{
	"run": {task: api.Kernel}, "graph": {task: api.GraphRun}, "rec": {task: api.Record, kind: api.Event}, "wait": {task: api.Wait, kind: api.Event}, "reset": {task: api.Reset, kind: api.Event},
	"set": {task: api.Record, kind: api.Notify}, "take": {task: api.Wait, kind: api.Notify}, "clear": {task: api.Reset, kind: api.Notify}, "add": {task: api.Record, kind: "counting notify"}, "atleast": {task: api.Wait, kind: "counting notify"},
	"put": {task: api.Fill}, "get": {task: api.Wait}, "sync": {sync: api.SyncStream}, "device": {sync: api.SyncDevice}, "esync": {sync: api.SyncEvent, kind: api.Event},
	"poll": {sync: api.PollStream}, "epoll": {sync: api.PollEvent, kind: api.Event}, "new": {kind: api.Notify}, "end": {kind: api.Event},
	"export": {does: api.Export, kind: api.Event}, "import": {does: api.Import, kind: api.Event}, "capture": {task: api.Record, kind: api.Event},
}

// run runs a test program. It returns the stamps and the edges by name.
func run(t *testing.T, p *ordertest.Program) (stamps map[string]Stamp, edges map[string][]string) {
	t.Helper()
	o := New[string, string]()
	o.Clocks = true
	for _, l := range lanes() {
		o.Lane(l)
	}
	stamps, edges = map[string]Stamp{}, map[string][]string{}
	all := p.Calls()
	for i := range all {
		x := &all[i]
		if x.Op == "lost" {
			o.Lost(0, x.Start-4, x.Start-1)
			continue
		}
		c := Call[string]{Index: uint64(i), Start: x.Start, End: x.End, Lane: -1, Task: -1, Device: 0, Key: x.Object, Failed: x.Failed, Unfinished: x.Unfinished, Complete: x.Complete}
		m, ok := operations[x.Op]
		if !ok {
			t.Fatalf("unknown operation %q", x.Op)
		}
		c.Fn, c.Kind = &api.Func{Meaning: api.Meaning{Task: m.task, Sync: m.sync, Shares: m.does}}, m.kind
		c.Captured = x.Op == "capture"
		if x.Second {
			c.Thread = 2
		}
		if lane := slices.Index(ordertest.Streams, x.Stream); lane >= 0 {
			l := lanes()[lane]
			c.Lane, c.Process, c.Host, c.Device = lane, l.Process, l.Host, l.Device
		}
		if x.Word != 0 {
			c.Word = Word{Addr: 16, Value: x.Word}
		}
		if m.task != api.NoTask && !c.Captured && !c.Failed {
			c.Task = i
		}
		switch x.Op {
		case "new":
			c.Made, c.Key = []string{c.Key}, ""
		case "end":
			c.Ended = []string{c.Key}
		}
		for _, e := range o.Apply(&c) {
			why := e.Why.String()
			if !e.Certain {
				why += "?"
			}
			after := all[e.After.Call].Name
			edges[after] = append(edges[after], why+" "+all[e.Before.Call].Name)
		}
		o.Keep(x.Name)
		if c.Task >= 0 {
			stamps[x.Name] = o.Stamp()
		}
	}
	return stamps, edges
}

func TestPrecedenceInEachProgram(t *testing.T) {
	for _, p := range ordertest.Programs {
		t.Run(p.Name, func(t *testing.T) {
			stamps, edges := run(t, &p)
			p.Check(t, func(before, after string) bool {
				a, b := stamps[before], stamps[after]
				got, back := Precedes(&a, &b), Precedes(&b, &a)
				if got == No || got == Yes && back != No || got == Unknown && back != Unknown {
					t.Errorf("%s, %s: %d, backwards %d", before, after, got, back)
				}
				return got == Yes
			}, edges)
		})
	}
}

// Ended objects are forgotten, and a notify that is never awaited stays small.
func TestEndedObjectsAreForgotten(t *testing.T) {
	o := New[int, int]()
	o.Lane(Lane{})
	rec := &api.Func{Meaning: api.Meaning{Task: api.Record}}
	end := &api.Func{}
	for i := range 10_000 {
		at := int64(i * 10)
		kind := api.Event
		if i%2 > 0 {
			kind = api.Notify
		}
		o.Apply(&Call[int]{Fn: rec, Start: at, End: at + 1, Task: i, Key: 1 + i, Kind: kind})
		o.Apply(&Call[int]{Fn: end, Start: at + 2, End: at + 3, Lane: -1, Task: -1, Ended: []int{1 + i}})
	}
	if n := o.Objects(); n != 0 {
		t.Errorf("%d objects remain", n)
	}
}

func BenchmarkLaunch(b *testing.B) {
	o := New[int, int]()
	for range 4 {
		o.Lane(Lane{})
	}
	f := &api.Func{Meaning: api.Meaning{Task: api.Kernel}}
	c := Call[int]{Fn: f}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		c.Start, c.End, c.Lane, c.Task = int64(i), int64(i), i&3, i
		o.Apply(&c)
	}
}
