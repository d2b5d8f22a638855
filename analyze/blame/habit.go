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
	minTask   = 4  // launches for one task of a graph, if the unusual address is the usual one of another task
	maxValues = 16 // different values of a word, of which one may be the usual one
	maxWords  = 32 // words of a launch that are compared, 768 bytes
	// A word is unusual if at most one launch in rare has its value, and all but one in ten have the same other value.
	rare = 100
)

// habits counts the values of the kernels' arguments, word by word. A launch with an unusual word is suspect.
type habits map[habitOf]map[habitKey]*habit

// habitOf is the launches of a kernel: all, or those for one task in a task group, which are its captured launch and its updates.
type habitOf struct {
	kernel string
	task   uint64 // captured launch, NoCall for all launches or if it is unknown
	group  string // of an unknown task
}

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
	group       string // task group that the launches update, "" for all launches of the kernel

	captured    uint64 // value in the captured launch of the task
	hasCaptured bool
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
	Group    string // launches for one of its tasks, "" for all launches of the kernel
	Other    string // group with a task that usually has the value, "" for none
}

// member counts the addresses of a launch for a task in a task group. They are the same in each update.
func (h habits) member(e *timeline.Event, accesses []access.Access) {
	if e.Kernel == "" || !e.Part.Member && !e.Part.Update {
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
	if !e.Part.Update {
		for _, w := range words {
			h.word(habitOf{e.Kernel, e.Call.Index, ""}, w.habitKey, e.Call.Index).capture(w.value)
		}
		return
	}
	group := objectName(e.Captured)
	of := habitOf{e.Kernel, e.Part.Of, ""}
	if !e.Part.Replaces() {
		of.group = group
	}
	for _, w := range words {
		v := h.word(of, w.habitKey, e.Call.Index)
		v.group = group
		v.count(w.value, e.Call.Index)
	}
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
	for _, w := range words {
		h.word(habitOf{kernel: e.Kernel, task: timeline.NoCall}, w.habitKey, e.Call.Index).count(w.value, e.Call.Index)
	}
	return words
}

// word returns the habit of a word, a new one if the call is the first with the word.
func (h habits) word(of habitOf, key habitKey, call uint64) *habit {
	words := h[of]
	if words == nil {
		words = map[habitKey]*habit{}
		h[of] = words
	}
	v := words[key]
	if v == nil {
		v = &habit{values: map[uint64]*valued{}, first: call}
		words[key] = v
	}
	return v
}

func (v *habit) count(value, call uint64) {
	v.launches++
	v.last = call
	if was := v.values[value]; was != nil {
		was.n++
	} else if len(v.values) < maxValues {
		v.values[value] = &valued{1, call}
	}
}

func (v *habit) capture(value uint64) { v.captured, v.hasCaptured = value, true }

// most returns the value of most launches, and how many of all have it. A captured launch counts only if it has this value: a program may capture with other
// buffers than it updates with.
func (v *habit) most() (value uint64, same, all int) {
	for k, n := range v.values {
		if n.n > same || n.n == same && k < value {
			value, same = k, n.n
		}
	}
	if all = v.launches; v.hasCaptured && v.captured == value {
		return value, same + 1, all + 1
	}
	return value, same, all
}

// usual reports whether enough launches show the value that most of them have, and almost all have it.
func usual(same, all int) bool { return all >= minHabit && 10*same >= 9*all }

// rare reports whether a value is unlike the usual one, and almost no launch has it.
func (v *habit) rare(value, usual uint64) bool {
	n := v.values[value]
	return value != usual && value != anAddress && (n == nil || n.n <= max(v.launches/rare, 1))
}

// odd returns the unusual words of a launch.
func (h habits) odd(x *Suspect, param func(*Suspect, int) string) (out []Odd) {
	for _, w := range x.words {
		v := h[habitOf{kernel: x.Kernel, task: timeline.NoCall}][w.habitKey]
		value, same, all := v.most()
		if !usual(same, all) || !v.rare(w.value, value) {
			continue
		}
		out = append(out, Odd{Param: param(x, w.param), Word: w.Word, Value: Hex(w.value), Usual: Hex(value), Address: value == anAddress, Same: same, Launches: all})
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

// taskValue is a value of a word in launches of a kernel.
type taskValue struct {
	kernel string
	word   habitKey
	value  uint64
}

// A taskHabit is a task in a task group, by its captured launch.
type taskHabit struct {
	task  uint64
	group string
}

// taskHabits lists the tasks for which all launches but at most one have a value.
type taskHabits map[taskValue][]taskHabit

func (h habits) ofTasks() taskHabits {
	out := taskHabits{}
	for of, words := range h {
		for k, v := range words {
			if value, same, all := v.most(); v.group != "" && all >= minTask && same >= all-1 {
				at := taskValue{of.kernel, k, value}
				out[at] = append(out[at], taskHabit{of.task, v.group})
			}
		}
	}
	return out
}

// nearest returns the group of another task that usually has a value: the one that was captured nearest to this task, "" for none.
func (t taskHabits) nearest(of habitOf, word habitKey, value uint64) string {
	all := t[taskValue{of.kernel, word, value}]
	if len(all) == 0 {
		return ""
	}
	apart := func(x taskHabit) uint64 { return max(x.task, of.task) - min(x.task, of.task) }
	return slices.MinFunc(all, func(x, y taskHabit) int {
		return cmp.Or(cmp.Compare(apart(x), apart(y)), cmp.Compare(x.task, y.task), cmp.Compare(x.group, y.group))
	}).group
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

// odds lists the launches with odd arguments. Launches do other work, as for a prompt between tokens, if several kernels in a row have unusual numbers, or if
// one kernel has them again and again. Then none is odd.
func (b *blamer) odds() error {
	theirs := b.habits.ofTasks()
	for of, words := range b.habits {
		for k, v := range words {
			most, same, all := v.most()
			for value, n := range v.values {
				if !v.rare(value, most) {
					continue
				}
				other := ""
				if v.group != "" && all >= minTask && same == all-1 {
					other = theirs.nearest(of, k, value)
				}
				if other == "" && (!usual(same, all) || v.group == "" && most != anAddress && all-same > max(all/rare, 1)) {
					continue
				}
				b.rep.Odds = append(b.rep.Odds, OddLaunch{Call{Index: n.call, Kernel: of.kernel}, Odd{Param: b.m.Func(k.fn).Params[k.param].Name, Word: k.Word, Value: Hex(value),
					Usual: Hex(most), Address: most == anAddress, Same: same, Launches: all, Group: v.group, Other: other}, v.between()})
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
	if len(b.rep.Odds) == 0 {
		return nil
	}
	_, err := b.eachMarked(func(e *timeline.Event) {
		for i := range b.rep.Odds {
			if x := &b.rep.Odds[i]; x.Index == e.Call.Index {
				x.Operator = operatorOf(e.Operator, e.Phase)
			}
		}
	})
	return err
}
