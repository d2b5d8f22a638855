package compile

import (
	"slices"

	"github.com/acltrace/acltrace/replay/plan"
)

// A launch is a compiled kernel launch.
type launch struct {
	key         []uint64 // see launchKey
	version     version
	in          plan.Instruction
	stream      int // see groupState
	kernel      uint32
	name        string // of the kernel
	relocations int
}

// A version counts the changes to the meaning of handles and addresses, and to the addresses that memory holds. Launches with equal keys are
// equal only in one version.
type version struct{ state, bound, links uint64 }

// launches are the latest launches, by the hash of their key. Two launches of a loop often have the same hash, so there is room for both.
type launches struct {
	recent [1 << launchBits][2]launch // the latest one first
	bound  uint64                     // operands that objects got
	key    []uint64                   // of the current call
	hash   uint64
}

const launchBits = 11

// find returns the launch that the current call repeats, nil for none.
func (l *launches) find(v version, kernel string) *launch {
	set := &l.recent[l.hash]
	for i := range set {
		if r := &set[i]; r.version == v && r.name == kernel && slices.Equal(r.key, l.key) {
			return r
		}
	}
	return nil
}

// room returns where to store the current call. The lists in it can be reused.
func (l *launches) room() *launch {
	set := &l.recent[l.hash]
	set[0], set[1] = set[1], set[0]
	return &set[0]
}
