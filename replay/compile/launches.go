package compile

import "github.com/acltrace/acltrace/replay/plan"

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

// launches are the latest launches, by the hash of their key.
type launches struct {
	recent [1 << launchBits]launch
	bound  uint64   // operands that objects got
	key    []uint64 // of the current call
	hash   uint64
}

const launchBits = 12
