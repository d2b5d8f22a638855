package order_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	. "github.com/acltrace/acltrace/timeline/order"
)

// Lanes of test programs. The first two are streams of process 0 on device 0.
var laneNames = []string{"s1", "s2", "s3", "t1", "p1", "h1", "def", "b1", "b2", "now"}

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

// program runs a test program. It returns the stamps and the edges by name.
func program(t *testing.T, text string) (stamps map[string]Stamp, edges map[string][]string) {
	t.Helper()
	o := New[string, string]()
	o.Clocks = true
	for _, l := range lanes() {
		o.Lane(l)
	}
	stamps, edges = map[string]Stamp{}, map[string][]string{}
	now := int64(0)
	names := map[uint64]string{}
	for i, line := range strings.Split(text, ";") {
		words := strings.Fields(line)
		if words[0] == "lost" {
			o.Lost(now+6, now+9)
			now += 10
			continue
		}
		now += 10
		c := Call[string]{Index: uint64(i), Start: now, End: now + 5, Lane: -1, Task: -1, Device: 0}
		for ; ; words = words[1:] {
			switch words[0] {
			case "|":
				now -= 9
				c.Start, c.End = now, now+5
				continue
			case "2:":
				c.Thread = 2
				continue
			case "failed":
				c.Failed = true
				continue
			case "unfinished":
				c.Unfinished = true
				continue
			case "complete":
				c.Complete = true
				continue
			}
			break
		}
		name, op, named := strings.Cut(words[0], "=")
		if !named {
			name, op = fmt.Sprint(i), name
		}
		m, ok := operations[op]
		if !ok {
			t.Fatalf("unknown operation %q", op)
		}
		c.Fn, c.Kind = &api.Func{Meaning: api.Meaning{Task: m.task, Sync: m.sync, Shares: m.does}}, m.kind
		c.Captured = op == "capture"
		names[c.Index] = name
		all := lanes()
		for _, w := range words[1:] {
			lane := -1
			for k, n := range laneNames {
				if n == w {
					lane = k
				}
			}
			switch {
			case lane >= 0:
				c.Lane, c.Process, c.Host, c.Device = lane, all[lane].Process, all[lane].Host, all[lane].Device
			case strings.HasPrefix(w, "="):
				c.Word = Word{Addr: 16, Value: uint64(len(w))}
			default:
				c.Key = w
			}
		}
		if m.task != api.NoTask && !c.Captured && !c.Failed {
			c.Task = i
		}
		switch op {
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
			after := names[e.After.Call]
			edges[after] = append(edges[after], why+" "+names[e.Before.Call])
		}
		o.Keep(name)
		if c.Task >= 0 {
			stamps[name] = o.Stamp()
		}
	}
	return stamps, edges
}

// A program and its order: "a<b" precedes certainly, "a?b" is unknown, "x<-event r" is an edge to x, with "?" if it is not certain.
var programs = []struct{ name, text, want string }{
	{"one stream", "a=run s1; b=run s1", "a<b, b<-same stream a"},
	{"two streams", "a=run s1; b=run s2", "a?b"},
	{"two threads on one stream", "a=run s1; 2: b=run s1", "a<b, b<-same stream a"},
	{"overlapping calls on one stream", "a=run s1; | 2: b=run s1", "a?b, b<-same stream? a"},
	{"later calls of overlapping threads", "a=run s1; | 2: b=run s1; c=run s1", "a<c, b<c, c<-same stream b"},
	{"an event", "a=run s1; r=rec e s1; w=wait e s2; b=run s2", "a<b, w<-event r"},
	{"an event recorded after the wait", "a=run s1; w=wait e s2; r=rec e s1; b=run s2", "a?b"},
	{"work after the record", "r=rec e s1; a=run s1; w=wait e s2; b=run s2", "a?b, w<-event r"},
	{"an event recorded twice", "a=run s1; r=rec e s1; q=rec e s3; w=wait e s2; b=run s2", "a?b, w<-event q"},
	{"a chain of events", "a=run s1; rec e s1; wait e s2; rec f s2; wait f s3; b=run s3", "a<b"},
	{"a record overlapping the wait", "a=run s1; r=rec e s1; | 2: w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"a record that begins during the wait", "a=run s1; r=rec e s1; w=wait e s2; | 2: rec e s3; b=run s2", "a?b"},
	{"a reset event", "a=run s1; r=rec e s1; reset e s1; w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"an ended event", "a=run s1; rec e s1; end e; w=wait e s2; b=run s2", "a?b"},
	{"a stream wait of the host", "a=run s1; w=sync s1; b=run s2", "a<b, w<-host wait a"},
	{"a stream wait in another thread", "a=run s1; 2: sync s1; b=run s2", "a<b"},
	{"a call during a wait", "a=run s1; sync s1; | 2: b=run s2", "a?b"},
	{"work made during a wait", "w=sync s1; | 2: a=run s1; b=run s2", "a?b"},
	{"a wait for what a stream waited for", "a=run s1; rec e s1; wait e s2; sync s2; b=run s3", "a<b"},
	{"a failed wait", "a=run s1; failed w=sync s1; b=run s2", "a?b, w<-host wait a"},
	{"an unfinished wait", "a=run s1; unfinished w=sync s1; 2: b=run s2", "a?b, w<-host wait a"},
	{"a wait for an event", "a=run s1; r=rec e s1; c=run s1; w=esync e; b=run s2", "a<b, c?b, w<-host wait for an event r"},
	{"a poll", "a=run s1; poll s1; b=run s2", "a?b"},
	{"a complete poll", "a=run s1; complete w=poll s1; b=run s2", "a<b, w<-host wait a"},
	{"a complete poll of an event", "a=run s1; rec e s1; complete epoll e; b=run s2", "a<b"},
	{"a device", "a=run s1; c=run s2; w=device; b=run s3", "a<b, c<b, w<-device wait a, w<-device wait c"},
	{"another device", "a=run t1; w=device s1; b=run s1", "a?b"},
	{"another process", "a=run p1; device s1; b=run s1", "a?b"},
	{"a process after another on one machine", "a=run s1; sync s1; b=run p1", "a<b"},
	{"a process on another machine", "a=run s1; sync s1; b=run h1", "a?b"},
	{"a notify", "new n; a=run s1; r=set n s1; w=take n s2; b=run s2", "a?b, w<-notify? r"},
	{"a notify and a wait of the host", "new n; a=run s1; set n s1; take n s2; sync s2; b=run s3", "a<b"},
	{"a notify recorded after its wait", "new n; w=take n s2; a=run s1; r=set n s1; sync s2; b=run s3", "a<b, w<-notify? r"},
	{"the second wait for a notify", "new n; a=run s1; set n s1; take n s2; sync s2; w=take n s2; c=run s1; r=set n s1; sync s2; b=run s3", "a<b, c<b, w<-notify? r"},
	{"a notify recorded during the wait of the host", "new n; w=take n s2; sync s2; | 2: a=run s1; | 2: r=set n s1; b=run s3", "a<b, w<-notify? r"},
	{"notifies in a row", "new n; new m; a=run s1; set n s1; take n s2; set m s2; take m s3; sync s3; b=run t1", "a<b"},
	{"a notify that another process may set", "new n; export n; import n p1; a=run s1; set n s1; take n s2; set n p1; sync s2; b=run s3", "a?b"},
	{"a notify set twice", "new n; a=run s1; set n s1; r=set n s1; w=take n s2; b=run s2", "a?b, w<-notify? r"},
	{"a notify set by two streams", "new n; w=take n s2; a=run s1; r=set n s1; set n s3; sync s2; b=run s2", "a?b"},
	{"a notify older than the trace", "a=run s1; r=set n s1; w=take n s2; b=run s2", "a?b, w<-notify? r"},
	{"a cleared notify", "new n; a=run s1; set n s1; clear n s1; w=take n s2; b=run s2", "a?b"},
	{"a counting notify", "a=run s1; r=add n s1; w=atleast n s2; b=run s2", "a?b, w<-notify? r"},
	{"a value", "a=run s1; r=put =1 s1; w=get =1 s2; b=run s2", "a?b, w<-value? r"},
	{"a value written after its wait", "w=get =1 s2; a=run s1; r=put =1 s1; b=run s2", "a?b, w<-value? r"},
	{"another value", "r=put =1 s1; w=get =12 s2", ""},
	{"a default stream", "a=run b1; c=run def; b=run b2", "a<c, c<b, a<b, c<-default stream a, b<-default stream c"},
	{"a stream beside a default stream", "a=run s1; b=run def", "a?b"},
	{"a call that does the work itself", "a=run now; b=run s1", "a<b"},
	{"the call of another thread that does the work itself", "a=run now; | 2: b=run s1", "a?b"},
	{"lost calls", "a=run s1; lost; b=run s1", "a?b, b<-same stream? a"},
	{"a device wait after lost calls", "a=run s1; lost; device; b=run s1; c=run s1", "a<b, b<c, c<-same stream b"},
	{"an event before lost calls", "a=run s1; r=rec e s1; lost; w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"an event after lost calls", "lost; device; a=run s1; r=rec e s1; w=wait e s2; b=run s2", "a<b, w<-event r"},
	{"an exported event", "export e; a=run s1; r=rec e s1; w=wait e p1; b=run p1", "a?b, w<-event? r"},
	{"an event of two processes", "export e; import e p1; a=run s1; r=rec e s1; w=wait e p1; b=run p1", "a<b, w<-event r"},
	{"an event that a graph records", "capture e s3; a=run s1; graph s3; r=rec e s1; w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"an event of a graph that did not run", "capture e s3; a=run s1; r=rec e s1; w=wait e s2; b=run s2", "a<b, w<-event r"},
}

func TestPrograms(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			stamps, edges := program(t, p.text)
			listed := map[string]int{} // edges wanted, by call
			for _, want := range strings.Split(p.want, ", ") {
				if want == "" {
					continue
				}
				if to, edge, ok := strings.Cut(want, "<-"); ok {
					if listed[to]++; !strings.Contains(strings.Join(edges[to], ", "), edge) {
						t.Errorf("%s: edges %q", want, edges[to])
					}
					continue
				}
				a, b := stamps[want[:1]], stamps[want[2:]]
				got := Precedes(&a, &b)
				if back := Precedes(&b, &a); got == Yes && back != No || got == Unknown && back != Unknown {
					t.Errorf("%s: %d, backwards %d", want, got, back)
				}
				if yes := want[1] == '<'; yes != (got == Yes) || !yes && got != Unknown {
					t.Errorf("%s: %d", want, got)
				}
			}
		})
	}
}

// Ended objects are forgotten, and a notify that is never awaited stays small.
func TestMemory(t *testing.T) {
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
