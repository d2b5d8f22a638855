package virtual

import (
	"math/bits"

	"github.com/acltrace/acltrace/sim/model"
)

// Shares is what the tasks of a device share: its cores, its copy engines and the number of streams that run at once. It is the one
// rule for both clocks of the simulator. A task that finds something taken waits in line, by priority and arrival. Tasks that
// want the same don't overtake each other; those that want something else do.
//
// It knows no time and is for one goroutine at a time.
type Shares struct {
	cube, vector, slots int
	engines             [model.NumCopyKinds]int
	line                [classes]heap // who waits
	hungry              uint32        // classes for which somebody waits, a bit each
	seq                 uint64
}

// Need is what a task holds: the cores of a Kernel, an engine for a Copy, nothing for any other kind.
type Need struct {
	Kind   Kind
	Copy   model.CopyKind
	Demand model.Demand
}

// Tasks of a class want the same: kinds of cores, or a kind of copy engine.
const (
	vectors = iota
	cubes
	mixed
	copies
	classes = copies + int(model.NumCopyKinds)
)

// need is a Need in little room: of its class.
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

// shared tells whether a task of a kind needs what others may hold.
func (k Kind) shared() bool { return k == Kernel || k == Copy }

// noLimit is what there is of something that the model does not limit.
const noLimit = 1 << 40

func limit(n int) int {
	if n == 0 {
		return noLimit
	}
	return n
}

// NewShares makes what a device of a model has.
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

// take takes what a task needs, where nobody waits and it is there.
func (d *Shares) take(class int, n need) bool {
	return d.hungry == 0 && d.hold(class, n)
}

// hold takes what a task needs, where it is there.
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

// give gives back what a task has held.
func (d *Shares) give(class int, n need) {
	d.slots++
	if class >= copies {
		d.engines[class-copies]++
		return
	}
	d.cube += int(n.cube)
	d.vector += int(n.vector)
}

// wait puts somebody into the line.
func (d *Shares) wait(id, priority int32, class int, n need) {
	d.seq++
	d.line[class].push(entry{int64(priority), d.seq, id, n})
	d.hungry |= 1 << class
}

// next takes what the next in the line needs and returns who it is; false where nobody's turn has come. passed holds the classes
// of which one further in front has not found what it needs, a bit each: 0 at first.
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

// Take takes what a task needs, where nobody waits and it is there. A task that needs nothing always gets it.
func (d *Shares) Take(n Need) bool {
	class, c := n.compact()
	return !n.Kind.shared() || d.take(class, c)
}

// Give gives back what a task has taken. Next tells whose turn has come.
func (d *Shares) Give(n Need) {
	if class, c := n.compact(); n.Kind.shared() {
		d.give(class, c)
	}
}

// Wait puts somebody into the line whose Take has failed. The lowest priority number goes first.
func (d *Shares) Wait(id, priority int32, n Need) {
	class, c := n.compact()
	d.wait(id, priority, class, c)
}

// Next calls a function for each of those whose turn has come, who now have what they need.
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
