package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
)

// fourCores is a model whose kernels take 1 ms, on a device with four vector cores.
func fourCores(t *testing.T) *model.Model {
	m := *preset(t, "instant")
	m.Cores.Vector = 4
	m.Kernels = []model.Kernel{{Name: "*", Duration: int64(time.Millisecond)}}
	return &m
}

// Kernels of two streams that want all cores take their turns, in either clock.
func TestStreamsShareCores(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		e := newEnv(t, Options{Virtual: virtual, Model: fourCores(t), Kernels: testKernels()})
		a, b := e.stream(), e.stream()
		begin, end := e.event(), e.event()
		f := e.function(e.load(testBinary(11, "fill")), "fill")
		p := e.malloc(64)
		args := fillArgs(1, p, 64)
		release := e.hold(a)
		e.ok(e.th.RecordEvent(begin, a))
		e.ok(e.th.StreamWaitEvent(b, begin))
		const n = 10
		for range n {
			for _, s := range []acl.Stream{a, b} {
				e.ok(e.th.LaunchKernelWithHostArgs(f, 4, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
			}
		}
		e.ok(e.th.RecordEvent(end, b))
		e.ok(e.th.StreamWaitEvent(a, end))
		e.ok(e.th.RecordEvent(end, a))
		release()
		e.ok(e.th.SynchronizeDevice())
		var ms float32
		e.ok(e.th.EventElapsedTime(&ms, begin, end))
		if ms < 2*n-0.01 {
			t.Errorf("virtual %t: %d kernels of 1 ms on all cores take %.3f ms", virtual, 2*n, ms)
		}
		e.sim.Close()
	}
}

// Whoever waits goes on by priority and arrival; those that want something else don't wait; an aborted stream leaves the line.
func TestSharingInLine(t *testing.T) {
	x := newSharing(fourCores(t))
	all := virtual.Need{Kind: virtual.Kernel, Demand: model.Demand{Vector: 4}}
	at, ok := x.take(&stream{}, all, 100, 10)
	if !ok || at != 100 {
		t.Fatal(at, ok)
	}
	if at, ok := x.take(&stream{}, virtual.Need{Kind: virtual.Copy, Copy: model.HostToDevice}, 50, 10); !ok || at != 50 {
		t.Errorf("a copy waits for cores: %v, %t", at, ok)
	}
	var mu sync.Mutex
	var order []int
	var done sync.WaitGroup
	stop, left := make(chan struct{}), make(chan struct{})
	wait := func(who int, priority uint32, stop chan struct{}) {
		done.Go(func() {
			start, ok := x.take(&stream{priority: priority, life: streamLife{stop: stop}}, all, 90, 10)
			if !ok {
				close(left)
				return
			}
			mu.Lock()
			order = append(order, who)
			if want := time.Duration(100 + 10*len(order)); start != want {
				t.Errorf("number %d begins at %d, want %d", who, start, want)
			}
			mu.Unlock()
			x.give(all)
		})
		for { // in the line
			x.mu.Lock()
			n := len(x.turns) - len(x.idle)
			x.mu.Unlock()
			if n == who {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	wait(1, 3, nil)
	wait(2, 1, stop)
	wait(3, 1, nil)
	wait(4, 3, nil)
	close(stop)
	<-left
	x.give(all)
	done.Wait()
	if want := []int{3, 1, 4}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	if !x.shares.Take(all) {
		t.Error("something is still held")
	}
}

// No more is held at any moment than there is, and a task begins when it can.
func TestUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	u := make(units, 5)
	type held struct {
		n        int
		from, to time.Duration
	}
	var all []held
	for range 2000 {
		n, at := 1+r.IntN(5), time.Duration(r.IntN(5000))
		from := u.from(n, at)
		to := from + time.Duration(1+r.IntN(50))
		u.hold(n, from, to)
		all = append(all, held{n, from, to})
		if !slices.IsSorted(u) {
			t.Fatalf("%v", u)
		}
	}
	for _, h := range all {
		sum := 0
		for _, o := range all {
			if o.from <= h.from && h.from < o.to {
				sum += o.n
			}
		}
		if sum > len(u) {
			t.Fatalf("%d are held at %d", sum, h.from)
		}
	}
}
