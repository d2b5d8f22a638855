package virtual

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/sim/model"
)

// contents are the tasks of each stream, as package sim/device has them. log has what the machine did, with the time.
type contents struct {
	m     *Machine
	tasks map[int32][]content
	log   []string
}

type content struct {
	name  string
	need  Need
	took  int64
	held  bool // not ready
	onEnd func()
}

func (c *contents) say(what string, s int32) {
	c.log = append(c.log, fmt.Sprintf("%d %s %s", c.m.Now(), what, c.tasks[s][0].name))
}

func (c *contents) Ready(s int32) (Need, bool) { return c.tasks[s][0].need, !c.tasks[s][0].held }

func (c *contents) Begin(s int32) int64 {
	c.say("begin", s)
	return c.tasks[s][0].took
}

func (c *contents) End(s int32) {
	c.say("end", s)
	done := c.tasks[s][0]
	if c.tasks[s] = c.tasks[s][1:]; done.onEnd != nil {
		done.onEnd()
	}
}

func newContents(t *testing.T, change func(m *model.Model)) *contents {
	t.Helper()
	c := &contents{tasks: map[int32][]content{}}
	m, err := New(&Options{Model: plain(t, change), Tasks: c})
	if err != nil {
		t.Fatal(err)
	}
	c.m = m
	return c
}

func (c *contents) submit(s int32, at int64, direct bool, k content) {
	c.tasks[s] = append(c.tasks[s], k)
	c.m.Submit(s, at, direct)
}

// until makes all steps until a time, and compares the log since the last call.
func (c *contents) until(t *testing.T, to int64, want ...string) {
	t.Helper()
	c.log = nil
	for c.m.Step(to) {
	}
	if !slices.Equal(c.log, want) {
		t.Errorf("until %d: %q, want %q", to, c.log, want)
	}
}

var kernelNeed = Need{Kind: Kernel, Demand: model.Demand{Vector: 1}}

// Tasks with contents begin after the launch latency, one after the other, with the overhead between two that take time.
func TestTasksWithContents(t *testing.T) {
	c := newContents(t, nil)
	s := c.m.AddStream(0, 0)
	if at, ok := c.m.Next(); ok || at != 0 {
		t.Errorf("an event at %d", at)
	}
	c.submit(s, 10, false, content{name: "a", need: kernelNeed, took: 1000})
	if at, ok := c.m.Next(); !ok || at != 0 {
		t.Errorf("the stream continues at %d", at)
	}
	c.until(t, 109)
	if at, ok := c.m.Next(); !ok || at != 110 {
		t.Errorf("the next event is at %d", at)
	}
	c.until(t, 110, "110 begin a")
	c.submit(s, 200, false, content{name: "note", took: 0})
	c.submit(s, 200, false, content{name: "b", need: kernelNeed, took: 500})
	c.submit(s, 200, false, content{name: "wait", took: 30})
	c.until(t, 1109)
	c.until(t, 1110, "1110 end a", "1110 begin note", "1110 end note")
	c.until(t, 5000, "1115 begin b", "1615 end b", "1615 begin wait", "1645 end wait")
	// After the machine was idle, the overhead has passed. A direct task is known at its call.
	c.m.Pass(9000)
	c.m.Pass(8000)
	c.submit(s, 9000, true, content{name: "direct", need: kernelNeed, took: 1})
	c.until(t, 9000, "9000 begin direct")
	c.until(t, 1<<40, "9001 end direct")
	if c.m.Now() != 9001 || c.m.sum.Tasks != 5 || c.m.sum.Device != 9001 || c.m.sum.Busy[s] != 1000+500+30+1 {
		t.Errorf("at %d: %+v", c.m.Now(), c.m.sum)
	}
}

// A task that is not ready waits until it is woken, and tasks of other streams run. Waking another stream does nothing.
func TestTasksWait(t *testing.T) {
	c := newContents(t, nil)
	a, b := c.m.AddStream(0, 0), c.m.AddStream(0, 0)
	c.submit(a, 0, true, content{name: "held", need: kernelNeed, took: 10, held: true})
	c.submit(b, 0, true, content{name: "free", need: kernelNeed, took: 100, onEnd: func() {
		c.tasks[a][0].held = false
		c.m.Wake(a)
		c.m.Wake(b)
	}})
	c.until(t, 50, "0 begin free")
	c.m.Wake(a) // still not ready
	c.until(t, 99)
	c.until(t, 1000, "100 end free", "100 begin held", "110 end held")
	if _, ok := c.m.Next(); ok {
		t.Error("there is a further event")
	}
}

// Tasks with contents share cores and engines by priority and arrival.
func TestTasksShareCores(t *testing.T) {
	c := newContents(t, func(m *model.Model) {
		m.Cores = model.Cores{Vector: 1}
		m.Launch = model.Launch{}
		k := m.Copies[0]
		k.Engines = 1
		m.Copies[0] = k
	})
	low, high, copying, other := c.m.AddStream(0, 5), c.m.AddStream(0, 1), c.m.AddStream(0, 5), c.m.AddStream(0, 5)
	c.submit(other, 0, true, content{name: "first", need: kernelNeed, took: 100})
	c.until(t, 1, "0 begin first")
	c.submit(low, 1, true, content{name: "low", need: kernelNeed, took: 100})
	c.until(t, 2)
	c.submit(high, 2, true, content{name: "high", need: kernelNeed, took: 100})
	c.submit(copying, 2, true, content{name: "copy", need: Need{Kind: Copy}, took: 10})
	c.until(t, 99, "2 begin copy", "12 end copy")
	c.until(t, 1000, "100 end first", "100 begin high", "200 end high", "200 begin low", "300 end low")
}

// The number of a stream that was removed is used again, without its times. The others stay.
func TestRemovedStreams(t *testing.T) {
	c := newContents(t, nil)
	a, b := c.m.AddStream(0, 0), c.m.AddStream(0, 0)
	c.submit(a, 0, true, content{name: "a", need: kernelNeed, took: 7})
	c.until(t, 100, "0 begin a", "7 end a")
	c.m.RemoveStream(a)
	if n := len(c.m.devices[0].streams); n != 1 || c.m.devices[0].streams[0].id != b {
		t.Errorf("%d streams are left", n)
	}
	again := c.m.AddStream(0, 0)
	if again != a || c.m.sum.Busy[a] != 0 || c.m.AddStream(0, 0) != b+1 {
		t.Errorf("stream %d was busy for %d", again, c.m.sum.Busy[again])
	}
	c.submit(again, 100, true, content{name: "again", need: kernelNeed, took: 1})
	c.until(t, 1000, "100 begin again", "101 end again")
}

// Shares give what they have in the order of arrival in a class, and other classes may overtake.
func TestSharesInLine(t *testing.T) {
	m := plain(t, func(m *model.Model) {
		m.Cores, m.Streams = model.Cores{Cube: 2, Vector: 2}, 3
		k := m.Copies[1]
		k.Engines = 1
		m.Copies[1] = k
	})
	d := NewShares(m)
	vector := func(n int) Need { return Need{Kind: Kernel, Demand: model.Demand{Vector: n}} }
	cube := Need{Kind: Kernel, Demand: model.Demand{Cube: 2}}
	mix := Need{Kind: Kernel, Demand: model.Demand{Cube: 1, Vector: 1}}
	copying := Need{Kind: Copy, Copy: 1}
	if !d.Take(Need{Kind: HostFunc}) || !d.Take(vector(2)) || d.Take(vector(1)) || !d.Take(cube) || d.Take(mix) || !d.Take(copying) || d.Take(Need{Kind: Copy}) {
		t.Fatal("too little or too much was given")
	}
	d.Wait(1, 0, mix)
	d.Wait(2, 0, vector(1))
	d.Wait(3, -1, copying)
	d.Wait(4, 0, vector(2))
	next := func(want ...int32) {
		t.Helper()
		var got []int32
		d.Next(func(id int32) { got = append(got, id) })
		if !slices.Equal(got, want) {
			t.Errorf("%d begin, want %d", got, want)
		}
	}
	next()
	d.Give(vector(2))
	next() // the mixed kernel is first in line, and lacks a cube core
	if d.Take(vector(1)) {
		t.Error("a kernel overtook those in line")
	}
	d.Give(copying)
	next(3)
	d.Give(cube)
	next(1, 2)
	d.Give(mix)
	d.Give(Need{Kind: HostFunc})
	next()
	d.Give(vector(1))
	next(4)
	d.Give(vector(2))
	d.Give(copying)
	if d.cube != 2 || d.vector != 2 || d.slots != 3 || d.hungry != 0 {
		t.Errorf("%d cube and %d vector cores and %d streams are left", d.cube, d.vector, d.slots)
	}
}
