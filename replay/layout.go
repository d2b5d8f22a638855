package replay

import "unsafe"

// The layout of a plan and of the results of its run, as in player/plan.h, which says what everything means. Both sides
// are little-endian machines, so the structures lie in the files as they are in memory.

const (
	planMagic   = "ACLTPLAN"
	resultMagic = "ACLTRSLT"
	planVersion = 15
	planData    = 4096 // offset of the data; the header has the page before
)

// Slots that every plan has. Behind slotThreads follow two for each thread and one for each process, then those that calls
// fill.
const (
	slotZero = iota
	slotData
	slotScratch
	slotSlots
	slotShared
	slotHostFunction
	slotStreamFunction // one that is told which stream calls it and how that went, before what the program gave it
	slotCallback
	slotPoison // the byte that new device memory is filled with
	slotZeros  // memory that holds zeros only, in place of missing payloads
	slotThreads
)

var slotNames = [...]string{"0", "data", "scratch", "slots", "shared", "host function", "stream function", "callback", "poison", "zeros"}

const (
	opNothing = iota // what the compiler took back
	opCall
	opUntil
	opStore
	opCheck
	opWait
	opTake
	opMark
	opPlace
	opFork
)

var opNames = [...]string{opNothing: "nothing", opCall: "call", opUntil: "until", opStore: "store", opCheck: "check", opWait: "wait", opTake: "take", opMark: "mark", opPlace: "place", opFork: "fork"}

const (
	instStop  = 1
	instStart = 2
	instEnd   = 4
	instAside = 8 // the trace has no such call: the player does not look at this
	// instUnmarked says of a comparison that its reason counts only if the library does not take note of opMark.
	instUnmarked = 16
	instSpoil    = 32
	// A check of a result: see plan.h.
	instExcused = 64
	instSince   = 128
)

const (
	runStarted = 1 + iota
	runDone
	runRefused
)

const (
	resultDone      = 1
	resultDiffers   = 2
	resultTimeout   = 4
	resultTolerated = 8

	resultReasonShift = 8  // code of a verify.Reason, in 8 bits
	resultKernelShift = 16 // 1 + the number of a kernel's name
	kernelNames       = 256
	kernelName        = 64 // bytes
)

type table struct{ Offset, Count uint64 }

type planHeader struct {
	Magic                                 [8]byte
	Version, Checksum                     uint32
	Size, Data, Scratch, Shared, Slots    uint64
	Zeros                                 uint64
	Names, Functions, Processes, Threads  table
	Instructions, Rest, Ops, Relocs       table
	Reasons, Doubts, Maps                 table
	UntilNS                               uint64
	Paced, Tolerance                      uint32
	Relative, Absolute                    float64
	ZerosReason, _                        uint32
	ResThreads, ResSlots, ResInstructions uint64
	ResDetails, ResKernels, ResBytes      uint64
}

type planDoubt struct {
	Call                  uint64
	Reason, Results, Text uint32
	_                     uint32
}

// planMap is host memory that the player maps at its recorded address, if that is free: Slot has the address then.
type planMap struct {
	At, Size      uint64
	Slot, Process uint32
}

type planFunction struct{ How, Name uint32 }

// callSpecial is added to the number of a function whose arguments are not all plain words.
const callSpecial = 64

type planProcess struct{ First, Count, Env, Vars, Forked uint32 }

type planThread struct{ First, Count, Scratch uint64 }

// operand is a slot plus an addend.
type operand struct {
	Addend uint64
	Slot   uint32
}

// packedOperand is an operand as the file has it.
type packedOperand struct{ Slot, Low, High uint32 }

func pack(o operand) packedOperand {
	return packedOperand{o.Slot, uint32(o.Addend), uint32(o.Addend >> 32)}
}

func (p packedOperand) operand() operand { return operand{uint64(p.Low) | uint64(p.High)<<32, p.Slot} }

type reloc struct {
	At, Addend uint64
	Slot       uint32
	Size       uint32 // bytes of the word, 8 or 4; addRelocs replaces 0 by 8
}

// instruction is in two parts in the file: what every call needs lies in a table of its own, and the rest in another.
type instruction struct {
	Op, Flags, Bits, Words uint8
	Fn, Operands           uint32
	Relocs, NRelocs        uint32
	RetSlot                uint32
	Want                   uint64

	Call, At, Len, Width uint64 // the rest
}

func (in *instruction) calls() bool { return in.Op == opCall || in.Op == opUntil }

// instructionPart is the size of either part.
const instructionPart = 32

type resultHeader struct {
	Magic           [8]byte
	Version, Status uint32
	Counter, NS     [2]uint64
	Stopped         uint32
	Details         uint32
	Ready, Refused  uint32
	Origin          uint64
	Crashed, _      uint32 // the second one is a lock
	Library         coreTime
	Stolen          [2]uint64 // before and after
	Kernels         uint32    // names of kernels behind the details
	Reports         uint32    // the library reports which results it does not vouch for
	Poison, Sandbox uint32
	Error           [4096 - 128]byte
}

type coreTime struct{ Ran, Waited uint64 }

type resultThread struct {
	Progress, Inside uint64
	Core             coreTime
	_                [4]uint64
}

type resultInstruction struct {
	Start, End, Ret uint64
	Flags, Detail   uint32
}

type resultDetail struct {
	First, Count uint64
	Got, Want    [16]byte
	Shown        uint64
}

// The sizes that player/plan.h asserts too.
var (
	_ [328]byte  = [unsafe.Sizeof(planHeader{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(planDoubt{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(planMap{})]byte{}
	_ [8]byte    = [unsafe.Sizeof(planFunction{})]byte{}
	_ [20]byte   = [unsafe.Sizeof(planProcess{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(planThread{})]byte{}
	_ [12]byte   = [unsafe.Sizeof(packedOperand{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(reloc{})]byte{}
	_ [64]byte   = [unsafe.Sizeof(instruction{})]byte{}
	_ [32]byte   = [unsafe.Offsetof(instruction{}.Call)]byte{}
	_ [4096]byte = [unsafe.Sizeof(resultHeader{})]byte{}
	_ [64]byte   = [unsafe.Sizeof(resultThread{})]byte{}
	_ [32]byte   = [unsafe.Sizeof(resultInstruction{})]byte{}
	_ [56]byte   = [unsafe.Sizeof(resultDetail{})]byte{}
)

// bytesOf returns the memory of a slice of the structures above.
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), uintptr(len(s))*unsafe.Sizeof(s[0]))
}

// view returns n structures that lie in b from an offset on; b must be aligned to 8 bytes and have them.
func view[T any](b []byte, offset, n uint64) []T {
	if n == 0 {
		return nil
	}
	var t T
	_ = b[offset : offset+n*uint64(unsafe.Sizeof(t))]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[offset])), n)
}
