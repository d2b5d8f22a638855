package blame

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

const (
	minHabit  = 8  // launches of a kernel that show how it is launched
	maxValues = 16 // different values of a word, of which one may be the usual one
	maxWords  = 32 // words of a launch that are compared, 768 bytes
	// A word is unusual if at most one launch in rare has its value, and all but one in ten have the same other value.
	rare = 100
)

// habits counts the values of the kernels' arguments, word by word. A launch with an unusual word is suspect.
type habits map[habitOf]map[habitKey]*habit

// habitOf is the launches of a kernel, or those that update one group of tasks.
type habitOf struct{ kernel, group string }

// habitKey locates a word among a kernel's arguments.
type habitKey struct {
	fn    api.ID
	param int
	Word
}

type habit struct {
	launches    int
	values      map[uint64]*valued
	first, last uint64 // calls
}

// between is the mean number of calls from one launch to the next.
func (v *habit) between() uint64 { return (v.last - v.first) / uint64(max(v.launches-1, 1)) }

// valued counts the launches with a value.
type valued struct {
	n    int
	call uint64 // the first one
}

// anAddress is the value of all words that are addresses of device memory.
const anAddress = ^uint64(0)

// A worded is a word of a launch.
type worded struct {
	habitKey
	value uint64 // or anAddress
}

// An Odd is an unusual word among a launch's arguments.
type Odd struct {
	Param    string
	Word     Word
	Value    Hex
	Usual    Hex    // of the other launches
	Address  bool   // the other launches have an address of device memory
	Same     int    // launches with the usual value
	Launches int    // launches of this kernel
	Group    string // group of tasks that they update, "" for all launches of the kernel
}

// update counts the addresses of a launch that updates a task group. They are the same in each update.
func (h habits) update(e *timeline.Event, accesses []access.Access) {
	if !e.Part.Update || e.Kernel == "" {
		return
	}
	var words []worded
	seen := map[habitKey]bool{}
	for _, a := range accesses {
		key := habitKey{e.Fn.ID, a.Param, Word{Item: a.Item, At: a.At}}
		if !seen[key] {
			words = append(words, worded{key, a.Addr})
		}
		seen[key] = true
	}
	h.count(habitOf{e.Kernel, objectName(e.Captured)}, words, e.Call.Index)
}

// see counts the words of a launch and returns them.
func (h habits) see(m *api.Model, s *timeline.State, e *timeline.Event) []worded {
	f := e.Fn
	if f == nil || f.Task != api.Kernel || e.Kernel == "" {
		return nil
	}
	var words []worded
	for i := range e.Call.Data {
		d := &e.Call.Data[i]
		if d.Dir != format.DirIn || d.Status != format.Whole || d.Blob != 0 || int(d.Param) >= len(f.Params) {
			continue
		}
		role := f.Params[d.Param].Role
		if role != api.Packed && role != api.Args && (role != api.ArgArray || d.Item == 0) {
			continue
		}
		for at := 0; at < len(d.Bytes) && len(words) < maxWords; at += 8 {
			var b [8]byte
			copy(b[:], d.Bytes[at:])
			w := binary.LittleEndian.Uint64(b[:])
			if _, _, ok := s.FindEnd(e.Process, w); ok || w >= m.Device.From && w < m.Device.To {
				w = anAddress
			}
			words = append(words, worded{habitKey{f.ID, int(d.Param), Word{Item: d.Item, At: uint64(at)}}, w})
		}
	}
	h.count(habitOf{e.Kernel, ""}, words, e.Call.Index)
	return words
}

func (h habits) count(of habitOf, words []worded, call uint64) {
	kernel := h[of]
	if kernel == nil && len(words) > 0 {
		kernel = map[habitKey]*habit{}
		h[of] = kernel
	}
	for _, w := range words {
		v := kernel[w.habitKey]
		if v == nil {
			v = &habit{values: map[uint64]*valued{}, first: call}
			kernel[w.habitKey] = v
		}
		v.launches++
		v.last = call
		if was := v.values[w.value]; was != nil {
			was.n++
		} else if len(v.values) < maxValues {
			v.values[w.value] = &valued{1, call}
		}
	}
}

// usual returns the value that almost all launches have, and how many have it; false if there is none.
func (v *habit) usual() (value uint64, launches int, ok bool) {
	for k, n := range v.values {
		if n.n > launches {
			value, launches = k, n.n
		}
	}
	return value, launches, v.launches >= minHabit && 10*launches >= 9*v.launches
}

// rare reports whether a value is unlike the usual one, and almost no launch has it.
func (v *habit) rare(value, usual uint64) bool {
	n := v.values[value]
	return value != usual && value != anAddress && (n == nil || n.n <= max(v.launches/rare, 1))
}

// odd returns the unusual words of a launch.
func (h habits) odd(x *Suspect, param func(*Suspect, int) string) (out []Odd) {
	for _, w := range x.words {
		v := h[habitOf{x.Kernel, ""}][w.habitKey]
		usual, most, ok := v.usual()
		if !ok || !v.rare(w.value, usual) {
			continue
		}
		out = append(out, Odd{Param: param(x, w.param), Word: w.Word, Value: Hex(w.value), Usual: Hex(usual), Address: usual == anAddress, Same: most, Launches: v.launches})
	}
	slices.SortStableFunc(out, byEvidence)
	return out
}

// byEvidence orders odd words: an address that is missing says more than another number.
func byEvidence(a, b Odd) int {
	switch {
	case a.Address == b.Address:
		return 0
	case a.Address:
		return -1
	}
	return 1
}

// An OddLaunch is a launch with an argument unlike those of the other launches of its kernel. If nothing failed, it is a hint.
type OddLaunch struct {
	Call
	Odd Odd `json:"-"`

	between uint64 // calls from one launch of the kernel to the next
}

// near reports whether two launches of different kernels are in one run of the kernels.
func (x *OddLaunch) near(y *OddLaunch) bool {
	off := max(x.Index, y.Index) - min(x.Index, y.Index)
	return x.Kernel != y.Kernel && off <= max(x.between, y.between)
}

// hints lists what may be wrong in a trace without a failure.
func (b *blamer) hints() error {
	if !b.unfailed {
		b.unexplained()
		return nil
	}
	b.rep.Asleep = b.r.Meta().Coverage.Asleep
	if err := b.odds(); err != nil {
		return err
	}
	if len(b.rep.Odds)+len(b.rep.Races)+len(b.rep.BareReads)+len(b.rep.Unwaited)+len(b.rep.Cut)+len(b.rep.Asleep)+len(b.rep.Faults) == 0 {
		return fmt.Errorf("%s: %w", b.r.Path(), ErrNothingFailed)
	}
	return nil
}

// odds lists the launches with odd arguments. If kernels that are launched one after the other have other numbers than usual, they do other work, as for a
// prompt between tokens, and none is odd.
func (b *blamer) odds() error {
	for of, words := range b.habits {
		for k, v := range words {
			usual, most, ok := v.usual()
			if !ok {
				continue
			}
			for value, n := range v.values {
				if !v.rare(value, usual) {
					continue
				}
				f := b.m.Func(k.fn)
				b.rep.Odds = append(b.rep.Odds, OddLaunch{Call{Index: n.call, Kernel: of.kernel},
					Odd{Param: f.Params[k.param].Name, Word: k.Word, Value: Hex(value), Usual: Hex(usual), Address: usual == anAddress, Same: most, Launches: v.launches, Group: of.group}, v.between()})
			}
		}
	}
	all := b.rep.Odds
	b.rep.Odds = nil
	for i := range all {
		x := &all[i]
		if x.Odd.Address || x.Odd.Group != "" || !slices.ContainsFunc(all, func(y OddLaunch) bool { return !y.Odd.Address && x.near(&y) }) {
			b.rep.Odds = append(b.rep.Odds, *x)
		}
	}
	slices.SortFunc(b.rep.Odds, func(x, y OddLaunch) int {
		return cmp.Or(byEvidence(x.Odd, y.Odd), cmp.Compare(x.Index, y.Index), cmp.Compare(x.Odd.Word.At, y.Odd.Word.At))
	})
	b.rep.Odds = b.rep.Odds[:min(len(b.rep.Odds), maxSuspects)]
	for i := range b.rep.Odds {
		x := &b.rep.Odds[i]
		c, err := b.r.Call(x.Index)
		if err != nil {
			return err
		}
		x.Call = *describe(b.r, b.m, &timeline.Event{Call: c, Fn: b.m.Func(api.ID(c.Func)), Kernel: x.Kernel})
	}
	return nil
}
