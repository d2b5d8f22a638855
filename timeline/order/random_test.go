package order_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/sim/virtual"
	. "github.com/acltrace/acltrace/timeline/order"
)

// Random programs run on devices in virtual time. Threads 0 and 1 are process 0, thread 2 is process 1.
const (
	randomThreads = 3
	randomStreams = 8 // stream 3 is of process 1, stream 4 is on device 1
	defaultStream = 5 // 6 and 7 and this one wait for each other
	randomOps     = 24
	hidden        = 1 << 40 // tags of ops that are no calls
)

// randomWord is the flag that stands for a word in memory.
const randomWord = 4

// joined returns a call on a default stream with the ops that make it and the blocking streams wait for each other.
func joined(op virtual.Op, event func() int32) (all []virtual.Op) {
	gap := op.Gap
	pass := func(from, to int32) {
		e := event()
		all = append(all, virtual.Op{Kind: virtual.RecordEvent, Stream: from, Object: e, Gap: gap, Tag: hidden}, virtual.Op{Kind: virtual.WaitEvent, Stream: to, Object: e, Tag: hidden})
		gap = 0
	}
	pass(defaultStream+1, defaultStream)
	pass(defaultStream+2, defaultStream)
	op.Gap = 0
	all = append(all, op)
	pass(defaultStream, defaultStream+1)
	pass(defaultStream, defaultStream+2)
	return all
}

// ops are the calls of a thread.
type ops struct {
	list []virtual.Op
	next int
}

func (s *ops) Next(op *virtual.Op) bool {
	if s.next == len(s.list) {
		return false
	}
	*op = s.list[s.next]
	s.next++
	return true
}

// randomMeaning says how an Order sees an op.
var randomMeaning = map[virtual.Kind]meaning{
	virtual.Kernel: {task: api.Kernel}, virtual.RunGraph: {task: api.GraphRun}, virtual.RecordEvent: {task: api.Record, kind: api.Event}, virtual.WaitEvent: {task: api.Wait, kind: api.Event},
	virtual.SetFlag: {task: api.Record, kind: api.Notify}, virtual.TakeFlag: {task: api.Wait, kind: api.Notify}, virtual.ClearFlag: {task: api.Reset, kind: api.Notify}, virtual.CopyNow: {task: api.Copy},
	virtual.WaitFlag: {task: api.Wait}, virtual.SyncStream: {sync: api.SyncStream}, virtual.SyncEvent: {sync: api.SyncEvent, kind: api.Event}, virtual.SyncDevice: {sync: api.SyncDevice},
}

// tally counts pairs of tasks of all programs.
type tally struct {
	yes, unknown int
	why          map[Why][2]int // edges by reason: uncertain and certain
	wrong        int            // uncertain edges that did not hold
}

func randomOp(r *rand.Rand, thread int) virtual.Op {
	kinds := []virtual.Kind{virtual.Kernel, virtual.Kernel, virtual.Kernel, virtual.RecordEvent, virtual.RecordEvent, virtual.WaitEvent, virtual.WaitEvent, virtual.SetFlag, virtual.TakeFlag,
		virtual.SyncStream, virtual.SyncEvent, virtual.SyncDevice, virtual.CopyNow, virtual.RunGraph, virtual.SetFlag, virtual.WaitFlag}
	op := virtual.Op{Kind: kinds[r.IntN(len(kinds))], Stream: int32(r.IntN(randomStreams)), Gap: 1 + r.Int64N(40), Host: 1 + r.Int64N(60), Device: r.Int64N(400)}
	if thread == 2 {
		op.Stream = 3
	}
	if r.IntN(60) == 0 {
		op.Kind = virtual.ClearFlag
	}
	switch op.Kind {
	case virtual.RecordEvent, virtual.WaitEvent, virtual.SyncEvent:
		op.Object = int32(r.IntN(3))
	case virtual.WaitFlag:
		op.Object = randomWord
	case virtual.SetFlag, virtual.TakeFlag, virtual.ClearFlag:
		if op.Kind == virtual.SetFlag && r.IntN(4) == 0 {
			op.Object = randomWord
			break
		}
		op.Object = int32(r.IntN(4))
		if r.IntN(4) > 0 && thread < 2 { // mostly one stream sets and one awaits
			op.Object = int32(2 * thread)
			op.Stream = 1
			if op.Kind == virtual.TakeFlag {
				op.Stream = 2
			}
		}
	case virtual.SyncDevice:
		op.Object = int32(r.IntN(2))
	}
	return op
}

// random runs a program and compares what is certain with what happened.
func random(t *testing.T, seed uint64, sum *tally) {
	r := rand.New(rand.NewPCG(seed, 1))
	tasks, calls := map[uint64]virtual.Result{}, []virtual.Result{}
	m, err := virtual.New(&virtual.Options{Devices: 2, Seed: seed,
		Task: func(k virtual.Result) { tasks[k.Tag] = k },
		Call: func(k virtual.Result) {
			if k.Tag < hidden {
				calls = append(calls, k)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	o := New[int32, int]()
	o.Clocks = true
	for i := range randomStreams {
		l := Lane{Default: i == defaultStream, Blocks: i >= defaultStream}
		switch i {
		case 3:
			l.Process = 1
		case 4:
			l.Device = 1
		}
		m.AddStream(l.Device, 0)
		o.Lane(l)
	}
	for range randomThreads {
		o.Lane(Lane{Synchronous: true})
	}
	for range 3 {
		m.AddEvent()
	}
	var made []int32
	for i := range 4 {
		m.AddFlag()
		made = append(made, int32(10+i))
	}
	m.AddFlag() // randomWord
	graph, err := m.AddGraph(0, [][]virtual.Op{{{Kind: virtual.Kernel, Device: 100, Tag: hidden}}, {{Kind: virtual.Kernel, Device: 200, Tag: hidden}}})
	if err != nil {
		t.Fatal(err)
	}
	var all []virtual.Op
	threadOf := []uint32{}
	for thread := range randomThreads {
		s := &ops{}
		for range randomOps {
			op := randomOp(r, thread)
			if op.Kind == virtual.RunGraph {
				op.Object, op.Stream = graph, 0
			}
			op.Tag = uint64(len(all))
			all, threadOf = append(all, op), append(threadOf, uint32(thread))
			if op.Stream == defaultStream && randomMeaning[op.Kind].task != api.NoTask && op.Kind != virtual.CopyNow {
				s.list = append(s.list, joined(op, m.AddEvent)...)
			} else {
				s.list = append(s.list, op)
			}
		}
		m.AddThread(s)
	}
	_, _ = m.Run() // a wait for a flag may never end
	slices.SortStableFunc(calls, func(a, b virtual.Result) int { return cmp.Compare(a.Start, b.Start) })
	o.Apply(&Call[int32]{Fn: &api.Func{}, Start: -2, End: -1, Lane: -1, Task: -1, Kind: api.Notify, Made: made})
	type placed struct {
		tag   uint64
		stamp Stamp
	}
	var stamps []placed
	span := func(call uint64) (virtual.Result, bool) {
		k, ok := tasks[call]
		return k, ok
	}
	for _, k := range calls {
		op, mean := all[k.Tag], randomMeaning[k.Kind]
		c := Call[int32]{Fn: &api.Func{Meaning: api.Meaning{Task: mean.task, Sync: mean.sync}}, Index: k.Tag, Thread: threadOf[k.Tag], Process: threadOf[k.Tag] / 2, Start: k.Start, End: k.End,
			Lane: int(op.Stream), Task: -1, Device: int(op.Object)}
		if mean.task != api.NoTask {
			c.Task = int(k.Tag)
		}
		if op.Object == randomWord && (k.Kind == virtual.SetFlag || k.Kind == virtual.WaitFlag) {
			if c.Word = (Word{Addr: 16, Value: 1}); k.Kind == virtual.SetFlag {
				c.Fn.Task = api.Fill
			}
			mean.kind = ""
		}
		switch c.Kind = mean.kind; mean.kind {
		case api.Event:
			c.Key = 1 + op.Object
		case api.Notify:
			c.Key = 10 + op.Object
		}
		if k.Kind == virtual.CopyNow {
			c.Lane = randomStreams + int(c.Thread)
			tasks[k.Tag] = k
		}
		for _, e := range o.Apply(&c) {
			before, did := span(e.Before.Call)
			end := k.End // of a wait of the host
			if e.After.Task >= 0 {
				after, ran := span(e.After.Call)
				if !ran {
					continue
				}
				end = after.End
			}
			n := sum.why[e.Why]
			switch holds := did && before.End <= end; {
			case e.Certain && !holds && (len(calls) == 0 || !overlapped(calls, threadOf, &k)):
				t.Errorf("seed %d: %s, call %d before call %d, is certain and did not hold", seed, e.Why, e.Before.Call, e.After.Call)
			case !holds:
				sum.wrong++
			}
			if e.Certain {
				n[1]++
			} else {
				n[0]++
			}
			sum.why[e.Why] = n
		}
		if c.Task >= 0 {
			stamps = append(stamps, placed{k.Tag, o.Stamp()})
		}
	}
	for i := range stamps {
		b, ran := span(stamps[i].tag)
		if !ran {
			continue
		}
		waits := b.Kind == virtual.WaitEvent || b.Kind == virtual.TakeFlag || b.Kind == virtual.WaitFlag
		for k := range stamps {
			if k == i {
				continue
			}
			if Precedes(&stamps[k].stamp, &stamps[i].stamp) != Yes {
				sum.unknown++
				continue
			}
			sum.yes++
			begin := b.Start
			if waits {
				begin = b.End
			}
			if a, did := span(stamps[k].tag); !did || a.End > begin {
				t.Errorf("seed %d: call %d (%s) certainly precedes call %d (%s) and did not: %d, ended %v at %d", seed, stamps[k].tag, all[stamps[k].tag].Kind, stamps[i].tag, b.Kind, begin, did, a.End)
			}
		}
	}
}

// overlapped reports whether a call of another thread begins during a call.
func overlapped(calls []virtual.Result, threadOf []uint32, k *virtual.Result) bool {
	return slices.ContainsFunc(calls, func(x virtual.Result) bool {
		return threadOf[x.Tag] != threadOf[k.Tag] && x.Start >= k.Start && x.Start < k.End
	})
}

// What an Order calls certain holds in random programs of several threads, streams, devices and processes.
func TestRandomPrograms(t *testing.T) { randomPrograms(t, 1000) }

func TestRandomProgramsSoak(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("part of make soak")
	}
	randomPrograms(t, 100_000)
}

func randomPrograms(t *testing.T, n int) {
	sum := tally{why: map[Why][2]int{}}
	for seed := range n {
		if random(t, uint64(seed), &sum); t.Failed() {
			return
		}
	}
	t.Logf("%d programs: %d pairs are certain, %d unknown or backwards; %d uncertain edges did not hold", n, sum.yes, sum.unknown, sum.wrong)
	for w := SameLane; w <= DeviceWait; w++ {
		if k := sum.why[w]; k != [2]int{} {
			t.Logf("%s: %d certain, %d not", w, k[1], k[0])
		}
	}
	for w := SameLane; w <= DeviceWait; w++ {
		k, certain := sum.why[w], 1
		if w == Notify || w == Value {
			certain = 0 // a later call may still change what they wait for
		}
		if k[certain] < n/10 {
			t.Errorf("%s: only %d edges, %d of them certain", w, k[0]+k[1], k[1])
		}
	}
}
