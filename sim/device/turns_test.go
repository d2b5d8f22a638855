package device

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
)

// fourCores returns a model with four vector cores.
func fourCores(t *testing.T) *model.Model {
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	four := *m
	four.Cores.Vector = 4
	return &four
}

// Waiting tasks start by priority and arrival. Tasks with other needs pass them, and an aborted stream leaves the
// queue.
func TestSharingInLine(t *testing.T) {
	x := NewTurns(fourCores(t))
	all := virtual.Need{Kind: virtual.Kernel, Demand: model.Demand{Vector: 4}}
	at, ok := x.Take(0, nil, all, 100, 10)
	if !ok || at != 100 {
		t.Fatal(at, ok)
	}
	if at, ok := x.Take(0, nil, virtual.Need{Kind: virtual.Copy, Copy: model.HostToDevice}, 50, 10); !ok || at != 50 {
		t.Errorf("a copy waits for cores: %v, %t", at, ok)
	}
	var mu sync.Mutex
	var order []int
	var done sync.WaitGroup
	stop, left := make(chan struct{}), make(chan struct{})
	wait := func(who int, priority uint32, stop chan struct{}) {
		done.Go(func() {
			start, ok := x.Take(priority, stop, all, 90, 10)
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
			x.Give(all)
		})
		for { // until all wait
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
	x.Give(all)
	done.Wait()
	if want := []int{3, 1, 4}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	if !x.shares.Take(all) {
		t.Error("something is still held")
	}
}

// Tasks start as early as possible and never hold more units than exist.
func TestTasksNeverExceedTheUnits(t *testing.T) {
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
