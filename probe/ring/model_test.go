package ring

import (
	"fmt"
	"strings"
	"testing"
)

// This test explores the protocol of ring.h in full under a memory model as weak as those of aarch64 and C11. A test that runs
// the code on x86 would not notice a missing barrier. The model is view-based. Every location keeps all stored values. A
// thread may read any value that is not older than its view of the location. A release store carries its thread's view, and an
// acquire load of the value adds that view.

// order is the memory order of a load or store.
type order bool

const (
	relaxed order = false
	strong  order = true // release for a store, acquire for a load
)

// step is one instruction of a model thread. loc and val get the thread's registers.
type step struct {
	kind  string // load, store, goto, check
	loc   func(regs []int) string
	val   func(regs []int) int
	reg   int
	order order
	when  func(regs []int) bool // goto: the condition; check: the invariant
	to    int
}

type message struct {
	val  int
	view string // the writer's view, as a key of views
}

type modelThread struct {
	pc   int
	regs [6]int
	view map[string]int // location: index of the oldest readable value
}

type model struct {
	mem     map[string][]message
	threads [2]modelThread
	views   map[string]map[string]int
}

func (m *model) key() string {
	var b strings.Builder
	for _, t := range m.threads {
		fmt.Fprint(&b, t.pc, t.regs, viewKey(t.view), "|")
	}
	for _, loc := range locations {
		fmt.Fprint(&b, loc, m.mem[loc])
	}
	return b.String()
}

func viewKey(v map[string]int) string {
	var b strings.Builder
	for _, loc := range locations {
		fmt.Fprintf(&b, "%d,", v[loc])
	}
	return b.String()
}

func clone(v map[string]int) map[string]int {
	c := make(map[string]int, len(v))
	for k, x := range v {
		c[k] = x
	}
	return c
}

func (m *model) copy() *model {
	c := &model{mem: make(map[string][]message, len(m.mem)), views: m.views}
	for k, v := range m.mem {
		c.mem[k] = append([]message(nil), v...)
	}
	for i, t := range m.threads {
		c.threads[i] = modelThread{t.pc, t.regs, clone(t.view)}
	}
	return c
}

// explore runs every interleaving with every choice of values. It returns the number of states and the first violation.
func explore(programs [2][]step) (int, string) {
	start := &model{mem: map[string][]message{}, views: map[string]map[string]int{"": {}}}
	for _, loc := range locations {
		start.mem[loc] = []message{{0, ""}}
	}
	for i := range start.threads {
		start.threads[i].view = map[string]int{}
	}
	seen := map[string]bool{}
	stack := []*model{start}
	for len(stack) > 0 {
		m := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if k := m.key(); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		for i := range m.threads {
			t := &m.threads[i]
			if t.pc >= len(programs[i]) {
				continue
			}
			s := programs[i][t.pc]
			switch s.kind {
			case "check":
				if !s.when(t.regs[:]) {
					return len(seen), fmt.Sprintf("thread %d at step %d: %v", i, t.pc, t.regs)
				}
				n := m.copy()
				n.threads[i].pc++
				stack = append(stack, n)
			case "goto":
				n := m.copy()
				if n.threads[i].pc++; s.when == nil || s.when(t.regs[:]) {
					n.threads[i].pc = s.to
				}
				if s.reg >= 0 && s.val != nil {
					n.threads[i].regs[s.reg] = s.val(t.regs[:])
				}
				stack = append(stack, n)
			case "store":
				n := m.copy()
				nt := &n.threads[i]
				loc := s.loc(t.regs[:])
				nt.view[loc] = len(n.mem[loc])
				msg := message{val: s.val(t.regs[:])}
				if s.order == strong {
					msg.view = viewKey(nt.view)
					m.views[msg.view] = clone(nt.view)
				}
				n.mem[loc] = append(n.mem[loc], msg)
				nt.pc++
				stack = append(stack, n)
			case "load":
				loc := s.loc(t.regs[:])
				for at := t.view[loc]; at < len(m.mem[loc]); at++ {
					n := m.copy()
					nt := &n.threads[i]
					msg := n.mem[loc][at]
					nt.view[loc] = at
					if s.order == strong {
						for l, x := range m.views[msg.view] {
							nt.view[l] = max(nt.view[l], x)
						}
					}
					nt.regs[s.reg] = msg.val
					nt.pc++
					stack = append(stack, n)
				}
			}
		}
	}
	return len(seen), ""
}

// Three calls go through a ring of two records, so that places are reused.
const cells, modelCalls = 2, 3

var locations = []string{"head", "tail", "state0", "state1", "data0", "data1", "result0", "result1"}

// ringOrders are the memory orders in the shim and the recorder. The test weakens them one by one.
type ringOrders struct {
	entryHead, done, exitHead, writerTail order // shim.h: shim_commit, shim_exit, shim_make_room
	readerHead, readerState, readerTail   order // ring.go: drain
}

func ringPrograms(o ringOrders) [2][]step {
	fixed := func(name string) func([]int) string { return func([]int) string { return name } }
	cell := func(name string) func([]int) string {
		return func(r []int) string { return fmt.Sprint(name, r[0]%cells) }
	}
	// Registers: 0 call number, 1 head or tail as read, 2 state, 3 data, 4 result.
	writer := []step{
		0: {kind: "load", loc: fixed("tail"), reg: 1, order: o.writerTail},
		1: {kind: "goto", reg: -1, to: 0, when: func(r []int) bool { return r[0]-r[1] >= cells }}, // no room
		2: {kind: "store", loc: cell("state"), val: func([]int) int { return 1 }},                 // entered
		3: {kind: "store", loc: cell("data"), val: func(r []int) int { return 10 + r[0] }},
		4: {kind: "store", loc: fixed("head"), val: func(r []int) int { return 2*r[0] + 1 }, order: o.entryHead},
		5: {kind: "store", loc: cell("result"), val: func(r []int) int { return 20 + r[0] }}, // the call has returned
		6: {kind: "store", loc: cell("state"), val: func([]int) int { return 2 }, order: o.done},
		7: {kind: "store", loc: fixed("head"), val: func(r []int) int { return 2*r[0] + 2 }, order: o.exitHead},
		8: {kind: "goto", reg: 0, val: func(r []int) int { return r[0] + 1 }, to: 9, when: func([]int) bool { return true }},
		9: {kind: "goto", reg: -1, to: 0, when: func(r []int) bool { return r[0] < modelCalls }},
	}
	// A head of at least 2n+1 means that the entry of call n is complete.
	reader := []step{
		0: {kind: "load", loc: fixed("head"), reg: 1, order: o.readerHead},
		1: {kind: "goto", reg: -1, to: 0, when: func(r []int) bool { return r[1] < 2*r[0]+1 }},
		2: {kind: "load", loc: cell("state"), reg: 2, order: o.readerState},
		3: {kind: "load", loc: cell("data"), reg: 3}, // the record of a program that died here
		// With head past an entered call, its thread has ended in it.
		4:  {kind: "check", when: func(r []int) bool { return (r[2] == 1 && r[1] == 2*r[0]+1 || r[2] == 2) && r[3] == 10+r[0] }},
		5:  {kind: "goto", reg: -1, to: 0, when: func(r []int) bool { return r[2] != 2 }},
		6:  {kind: "load", loc: cell("result"), reg: 4},
		7:  {kind: "check", when: func(r []int) bool { return r[4] == 20+r[0] }},
		8:  {kind: "goto", reg: 0, val: func(r []int) int { return r[0] + 1 }, to: 9, when: func([]int) bool { return true }},
		9:  {kind: "store", loc: fixed("tail"), val: func(r []int) int { return r[0] }, order: o.readerTail},
		10: {kind: "goto", reg: -1, to: 0, when: func(r []int) bool { return r[0] < modelCalls }},
	}
	return [2][]step{writer, reader}
}

func TestRingProtocol(t *testing.T) {
	all := ringOrders{entryHead: strong, done: strong, exitHead: strong, writerTail: strong, readerHead: strong, readerState: strong, readerTail: strong}
	states, broken := explore(ringPrograms(all))
	if broken != "" {
		t.Fatalf("the protocol is broken: %s", broken)
	}
	t.Logf("%d states", states)

	// Each barrier is needed: without it the reader sees data that was not written. The orders of tail keep loads before a later
	// store, and this model never reorders these.
	for name, weaken := range map[string]func(*ringOrders){
		"the entry's head is not released":    func(o *ringOrders) { o.entryHead = relaxed },
		"the end's state is not released":     func(o *ringOrders) { o.done = relaxed },
		"the recorder's head is not acquired": func(o *ringOrders) { o.readerHead = relaxed },
		"the state is not acquired":           func(o *ringOrders) { o.readerState = relaxed },
	} {
		o := all
		weaken(&o)
		if _, broken := explore(ringPrograms(o)); broken == "" {
			t.Errorf("%s: the model finds nothing", name)
		}
	}
}
