package blame

import (
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

const (
	minHabit  = 8  // launches of a kernel that show how it is launched
	maxValues = 16 // different values of a word, of which one may be the usual one
	maxWords  = 32 // words of a launch that are compared, 768 bytes
	// A word is unusual if at most one launch in rare has its value, and all but one in ten have the same other value.
	rare = 100
)

// habits counts the values of the kernels' arguments, word by word. A launch with an unusual word is suspect.
type habits map[string]map[habitKey]*habit

// habitKey locates a word among a kernel's arguments.
type habitKey struct {
	fn    api.ID
	param int
	Word
}

type habit struct {
	launches int
	values   map[uint64]int
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
	Usual    Hex  // of the other launches
	Address  bool // the other launches have an address of device memory
	Same     int  // launches with the usual value
	Launches int  // launches of this kernel
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
	kernel := h[e.Kernel]
	if kernel == nil && len(words) > 0 {
		kernel = map[habitKey]*habit{}
		h[e.Kernel] = kernel
	}
	for _, w := range words {
		v := kernel[w.habitKey]
		if v == nil {
			v = &habit{values: map[uint64]int{}}
			kernel[w.habitKey] = v
		}
		v.launches++
		if _, known := v.values[w.value]; known || len(v.values) < maxValues {
			v.values[w.value]++
		}
	}
	return words
}

// odd returns the unusual words of a launch.
func (h habits) odd(x *Suspect, param func(*Suspect, int) string) (out []Odd) {
	for _, w := range x.words {
		v := h[x.Kernel][w.habitKey]
		most, usual := 0, uint64(0)
		for value, n := range v.values {
			if n > most {
				most, usual = n, value
			}
		}
		if v.launches < minHabit || 10*most < 9*v.launches || w.value == usual || v.values[w.value] > max(v.launches/rare, 1) || w.value == anAddress {
			continue
		}
		out = append(out, Odd{Param: param(x, w.param), Word: w.Word, Value: Hex(w.value), Usual: Hex(usual), Address: usual == anAddress, Same: most, Launches: v.launches})
	}
	// An address that is missing says more than another number.
	slices.SortStableFunc(out, func(a, b Odd) int {
		switch {
		case a.Address == b.Address:
			return 0
		case a.Address:
			return -1
		}
		return 1
	})
	return out
}
