package virtual

import (
	"math/bits"

	"github.com/acltrace/acltrace/sim/model"
)

// Shares has a device's resources: cores, copy engines and running streams. Both clocks use this rule. A task that
// finds a resource taken waits in line, by priority and arrival. Tasks with the same need never overtake each other;
// tasks with other needs may.
//
// It knows no time and is for one goroutine.
type Shares struct {
	cube, vector, slots int
	engines             [model.NumCopyKinds]int
	line                [classes]heap // waiting tasks
	hungry              uint32        // bit set: classes with waiting tasks
	seq                 uint64
}

// Need is what a task holds: cores for a Kernel, an engine for a Copy, nothing for other kinds.
type Need struct {
	Kind   Kind
	Copy   model.CopyKind
	Demand model.Demand
}

// Tasks in a class have the same need: kinds of cores, or a kind of copy engine.
const (
	vectors = iota
	cubes
	mixed
	copies
	classes = copies + int(model.NumCopyKinds)
)

// need is a compact Need within its class.
type need struct{ cube, vector uint16 }

func (n Need) compact() (class int, _ need) {
	d := need{uint16(n.Demand.Cube), uint16(n.Demand.Vector)}
	return classOf(n.Kind, n.Copy, d), d
}

func classOf(k Kind, c model.CopyKind, d need) int {
	switch {
	case k == Copy:
		return copies + int(c)
	case d.cube == 0:
		return vectors
	case d.vector == 0:
		return cubes
	}
	return mixed
}

// shared reports whether tasks of a kind need shared resources.
func (k Kind) shared() bool { return k == Kernel || k == Copy }

// noLimit stands for an unlimited resource.
const noLimit = 1 << 40

func limit(n int) int {
	if n == 0 {
		return noLimit
	}
	return n
}

// NewShares returns the resources of a model's device.
func NewShares(m *model.Model) *Shares {
	d := &Shares{}
	d.init(m)
	return d
}

func (d *Shares) init(m *model.Model) {
	d.cube, d.vector, d.slots = limit(m.Cores.Cube), limit(m.Cores.Vector), limit(m.Streams)
	for k := range d.engines {
		d.engines[k] = limit(m.Copies[model.CopyKind(k)].Engines)
	}
}

// take takes resources if they are free and no task waits for them.
func (d *Shares) take(class int, n need) bool {
	return d.hungry == 0 && d.hold(class, n)
}

// hold takes resources if they are free.
func (d *Shares) hold(class int, n need) bool {
	if d.slots <= 0 {
		return false
	}
	if class >= copies {
		if d.engines[class-copies] <= 0 {
			return false
		}
		d.engines[class-copies]--
	} else {
		if d.cube < int(n.cube) || d.vector < int(n.vector) {
			return false
		}
		d.cube -= int(n.cube)
		d.vector -= int(n.vector)
	}
	d.slots--
	return true
}

// give releases resources.
func (d *Shares) give(class int, n need) {
	d.slots++
	if class >= copies {
		d.engines[class-copies]++
		return
	}
	d.cube += int(n.cube)
	d.vector += int(n.vector)
}

// wait adds a task to the line.
func (d *Shares) wait(id, priority int32, class int, n need) {
	d.seq++
	d.line[class].push(entry{int64(priority), d.seq, id, n})
	d.hungry |= 1 << class
}

// next starts the next waiting task and returns its id; false if none can start. passed is a bit set of classes with
// a blocked task further in front; 0 at first.
func (d *Shares) next(passed *uint32) (id int32, ok bool) {
	for d.hungry&^*passed != 0 {
		left := d.hungry &^ *passed
		c := bits.TrailingZeros32(left)
		for left &= left - 1; left != 0; left &= left - 1 {
			if o := bits.TrailingZeros32(left); d.line[o][0].before(d.line[c][0]) {
				c = o
			}
		}
		if e := d.line[c][0]; d.hold(c, e.need) {
			if d.line[c].pop(); len(d.line[c]) == 0 {
				d.hungry &^= 1 << c
			}
			return e.id, true
		}
		*passed |= 1 << c
		switch {
		case c == mixed:
			*passed |= 1<<vectors | 1<<cubes
		case c < mixed:
			*passed |= 1 << mixed
		}
	}
	return 0, false
}

// Take takes resources if they are free and no task waits for them. A task without needs always succeeds.
func (d *Shares) Take(n Need) bool {
	class, c := n.compact()
	return !n.Kind.shared() || d.take(class, c)
}

// Give releases resources. Next then returns the tasks that can start.
func (d *Shares) Give(n Need) {
	if class, c := n.compact(); n.Kind.shared() {
		d.give(class, c)
	}
}

// Wait adds a task to the line after Take failed. The lowest priority number goes first.
func (d *Shares) Wait(id, priority int32, n Need) {
	class, c := n.compact()
	d.wait(id, priority, class, c)
}

// Next calls a function for each waiting task that has got its resources.
func (d *Shares) Next(begin func(id int32)) {
	passed := uint32(0)
	for {
		id, ok := d.next(&passed)
		if !ok {
			return
		}
		begin(id)
	}
}
