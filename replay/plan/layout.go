// Package plan writes and reads plans: the instructions that the player executes in place of the recorded program.
//
// A plan has a list of instructions for each captured thread. Values that only the run knows, such as handles and addresses, are in
// slots. An operand is a slot plus an addend. Relocations are words inside the plan's data that get the value of an operand.
// replay/player/plan.h explains every field.
//
// The compiler creates a Writer, adds data, operands and instructions while it reads the trace, and calls Finish once. Reports read the
// File that Finish returns. Neither holds a plan in memory: a Writer keeps the ends of its lists, a File maps the file. The package knows
// nothing about traces and runs nothing.
package plan

import "unsafe"

// The structures equal those in player/plan.h. Both sides run on little-endian machines, so files hold memory as it is.

const (
	magic   = "ACLTPLAN"
	version = 19

	headerSize = 4096 // the extents follow
)

// Slots that every plan has. From SlotThreads on there are two slots for each thread and one for each process, then OwnStride slots for
// each thread, then the slots that calls fill.
const (
	SlotZero = iota
	SlotData
	SlotScratch
	SlotSlots
	SlotShared
	SlotHostFunction
	SlotStreamFunction // its first two parameters are the stream and a status
	SlotCallback
	SlotPoison // the byte that new device memory is filled with
	SlotZeros  // memory that holds zeros only, in place of missing payloads
	SlotThreads
)

// SlotAlign is slot 0's alignment, in slots.
const SlotAlign = 16

// OwnStride is the distance between the slots with the threads' own data, see OwnSlot. Threads write them often, so no two are in one
// cache line.
const OwnStride = 16

// OwnSlot returns the slot for the address of a thread's own data: the data of the instruction that it plays, from Instruction.Base on.
func OwnSlot(threads, processes, thread int) uint32 {
	return uint32(SlotThreads + 2*threads + processes + OwnStride*thread)
}

// SlotNames are the slot names in a printed plan.
var SlotNames = [...]string{"0", "data", "scratch", "slots", "shared", "host function", "stream function", "callback", "poison", "zeros"}

// Values for Instruction.Op.
const (
	OpNothing = iota // taken back by the compiler
	OpCall
	OpUntil
	OpStore
	OpCheck
	OpWait
	OpTake
	OpMark
	OpPlace
	OpFork
)

// OpNames are the operations in a printed plan.
var OpNames = [...]string{OpNothing: "nothing", OpCall: "call", OpUntil: "until", OpStore: "store", OpCheck: "check", OpWait: "wait", OpTake: "take", OpMark: "mark", OpPlace: "place", OpFork: "fork"}

// Bits in Instruction.Flags.
const (
	InstStop     = 1   // an unexpected result ends the run
	InstStart    = 2   // the player reads its clock before the call
	InstEnd      = 4   // and after the call
	InstAside    = 8   // the trace has no such call; ignored by the player
	InstUnmarked = 16  // for OpCheck: the reason in Bits counts only if the library has no OpMark
	InstLate     = 32  // the call may report a failed task earlier or later than recorded: 0 and Tables.Faults are equal
	InstExcused  = 64  // for OpCheck: differing bytes prove nothing
	InstSince    = 128 // for OpCheck: bytes unchanged since before the tasks prove nothing
)

// CheckGuess is a bit of Instruction.Bits, for OpCheck: the result depends on words that may be addresses. It is unproved if some allocation is not
// at its recorded address.
const CheckGuess = 0x80

// Kinds of OpCheck, in Instruction.Want. Words has the parameter, RetSlot the item and At the offset in the result. The player uses them
// only if it judges by itself.
const (
	CheckOutput  = iota // a value that the call stored
	CheckResult         // data that a copy brought to the host
	CheckMachine        // as CheckOutput, for values that depend on the machine
	CheckExtent         // a number that may differ if it is not less than At
	CheckLength         // a result that was recorded with another length
)

// Values for ResultHeader.Status.
const (
	RunStarted = 1 + iota
	RunDone
	RunRefused
)

// Bits and fields in Result.Flags.
const (
	ResultDone      = 1
	ResultDiffers   = 2
	ResultTimeout   = 4
	ResultTolerated = 8
	ResultReported  = 16 // see InstLate

	ReasonShift = 8  // verify.Reason code, 8 bits
	KernelShift = 16 // 1 + kernel name number
	KernelNames = 256
	KernelName  = 64 // bytes
)

// table has Count rows at an offset in the index.
type table struct{ Offset, Count uint64 }

// Header is a plan's first page. It locates the tables in the index and in the results.
type Header struct {
	Magic                        [8]byte
	Version, Checksum            uint32
	Size, Index                  uint64 // file size; offset of the index, which ends the file
	Data, Scratch, Shared, Slots uint64
	Zeros                        uint64
	Instructions                 uint64 // with the padding after each thread
	HeaderTables
	UntilNS                uint64
	Scale                  float64 // for recorded times, 0 if they are not kept
	Relative, Absolute     float64
	Tolerance, ZerosReason uint32
	Busy                   uint32 // Runtime.Busy
	_                      uint32
	ResultPlaces
}

// HeaderTables locates the tables. An extent table says where a long list is in the file.
type HeaderTables struct {
	DataExtents, Rows, Templates, Ops, Relocs                   table // extents
	Names, Functions, Processes, Threads, Reasons, Doubts, Maps table
	Blocks, Faults                                              table
}

// ResultPlaces are the offsets and the size for a results file.
type ResultPlaces struct {
	ResThreads, ResSlots, ResInstructions uint64
	ResDetails, ResKernels, ResBytes      uint64
}

// Doubt lists results that are unproved in every run.
type Doubt struct {
	Call                  uint64
	Reason, Results, Text uint32
	_                     uint32
}

// Map is host memory that the player maps at its recorded address, if that is free. Slot gets the address.
type Map struct {
	At, Size      uint64
	Slot, Process uint32
}

// Block is device memory, whose address is in a slot.
type Block struct {
	At   uint64 // recorded
	Slot uint32
	_    uint32
}

// Function is a runtime function: its calling convention and its name.
type Function struct{ How, Name uint32 }

// callSpecial is added to a function's number if it has arguments other than plain words.
const callSpecial = 64

// Process is a captured process: its threads, and its variables in the names.
type Process struct{ First, Count, Env, Vars, Forked uint32 }

// Thread is a captured thread: its instructions and its scratch memory.
type Thread struct{ First, Count, Scratch uint64 }

// Operand is a slot plus an addend.
type Operand struct {
	Addend uint64
	Slot   uint32
}

// Reloc returns the relocation that stores the operand at an offset in the data.
func (o Operand) Reloc(at uint64) Reloc { return Reloc{At: at, Addend: o.Addend, Slot: o.Slot} }

// Plus returns the operand for an address further on.
func (o Operand) Plus(n uint64) Operand { return Operand{o.Addend + n, o.Slot} }

// packedOperand is the operand in the file.
type packedOperand struct{ Slot, Low, High uint32 }

func pack(o Operand) packedOperand {
	return packedOperand{o.Slot, uint32(o.Addend), uint32(o.Addend >> 32)}
}

func (p packedOperand) operand() Operand { return Operand{uint64(p.Low) | uint64(p.High)<<32, p.Slot} }

// Reloc is a word inside the data that gets a slot plus an addend before the call, or a piece of the data that the player overwrites after
// the call. An instruction's relocations are a list in which the pieces to overwrite come last.
type Reloc struct {
	At     uint64 // offset in the data, from Instruction.Base on
	Addend uint64 // of a piece: its length in bytes
	Slot   uint32
	Size   uint16 // 8 or 4 bytes; Relocs replaces 0 by 8
	Flags  uint16
}

// Bits in Reloc.Flags.
const (
	RelocLast  = 1 // in the list; set by Relocs
	RelocSpoil = 2 // a piece to overwrite
)

// Instruction is one step of a thread. The file has it in two parts. One row in the thread's table has the fields that differ from call to
// call. The others are in a template that equal instructions share, such as the launches of one kernel.
type Instruction struct {
	Op, Flags, Bits, Words uint8
	Fn, Operands           uint32
	RetSlot                uint32
	Stream                 int32  // of a call: index into the compiler's streams, WaitsFor(device), or -1
	Kernel                 uint32 // launched kernel's name, as a number from 1, 0 for none
	Want, Len, Width       uint64

	Base   uint32 // its own data's offset, in units of DataAlign
	Relocs uint32 // the first one's number, 0 for none
	Call   uint64 // below 2^32
	At     uint64 // of a call: its recorded start, in nanoseconds after the run's beginning
	Dur    uint64 // of a call: its recorded duration, nanoseconds
}

// WaitsFor is Instruction.Stream for a call that waits for a device. The device may be unknown, which is -1.
func WaitsFor(device int) int { return -3 - device }

// template and row are an instruction in the file.
type template struct {
	Op, Flags, Bits, Words uint8
	Fn, Operands, RetSlot  uint32
	Stream                 int32
	Kernel                 uint32
	Want, Len, Width       uint64
}

type row struct {
	Template, Base, Relocs, Call uint32
	At, Dur                      uint64
}

func (in *Instruction) template() template {
	return template{in.Op, in.Flags, in.Bits, in.Words, in.Fn, in.Operands, in.RetSlot, in.Stream, in.Kernel, in.Want, in.Len, in.Width}
}

func (r *row) instruction(t *template) Instruction {
	return Instruction{
		Op: t.Op, Flags: t.Flags, Bits: t.Bits, Words: t.Words, Fn: t.Fn, Operands: t.Operands, RetSlot: t.RetSlot, Stream: t.Stream, Kernel: t.Kernel,
		Want: t.Want, Len: t.Len, Width: t.Width, Base: r.Base, Relocs: r.Relocs, Call: uint64(r.Call), At: r.At, Dur: r.Dur,
	}
}

// Reason returns the number of the reason why the result of an OpCheck is unproved, 0 for none.
func (in *Instruction) Reason() uint8 { return in.Bits &^ CheckGuess }

// Calls reports whether the instruction makes a runtime call.
func (in *Instruction) Calls() bool { return in.Op == OpCall || in.Op == OpUntil }

// Recorded reports whether the instruction makes a call that is in the trace.
func (in *Instruction) Recorded() bool { return in.Calls() && in.Flags&InstAside == 0 }

// OfResult reports whether the instruction compares a result, and not a value that the call stored.
func (in *Instruction) OfResult() bool {
	return in.Op == OpCheck && (in.Want == CheckResult || in.Want == CheckLength)
}

// ResultHeader is the first page in a results file.
type ResultHeader struct {
	Magic           [8]byte
	Version, Status uint32
	Counter, NS     [2]uint64
	Stopped         uint32
	Details         uint32
	Ready, Refused  uint32
	Origin          uint64
	Crashed, _      uint32 // the second one is a lock
	Library         CoreTime
	Stolen          [2]uint64 // before and after
	Kernels         uint32    // kernel names after the details
	Reports         uint32    // the library reports results that it can't compute
	Poison, Sandbox uint32
	Error           [4096 - 128]byte
}

// CoreTime is the time that threads ran and waited for a processor, in nanoseconds.
type CoreTime struct{ Ran, Waited uint64 }

// ResultThread is a thread's progress.
type ResultThread struct {
	Progress, Inside uint64
	Core             CoreTime
	_                [4]uint64
}

// Result is an instruction's outcome.
type Result struct {
	Start, End, Ret uint64
	Flags, Detail   uint32
}

// Detail describes a comparison's differing bytes.
type Detail struct {
	First, Count uint64
	Got, Want    [16]byte
	Shown        uint64
}

// player/plan.h asserts the same sizes.
var (
	_ [400]byte  = [unsafe.Sizeof(Header{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(extent{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(Doubt{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(Map{})]byte{}
	_ [16]byte   = [unsafe.Sizeof(Block{})]byte{}
	_ [8]byte    = [unsafe.Sizeof(Function{})]byte{}
	_ [20]byte   = [unsafe.Sizeof(Process{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(Thread{})]byte{}
	_ [12]byte   = [unsafe.Sizeof(packedOperand{})]byte{}
	_ [24]byte   = [unsafe.Sizeof(Reloc{})]byte{}
	_ [32]byte   = [unsafe.Sizeof(row{})]byte{}
	_ [48]byte   = [unsafe.Sizeof(template{})]byte{}
	_ [4096]byte = [unsafe.Sizeof(ResultHeader{})]byte{}
	_ [64]byte   = [unsafe.Sizeof(ResultThread{})]byte{}
	_ [32]byte   = [unsafe.Sizeof(Result{})]byte{}
	_ [56]byte   = [unsafe.Sizeof(Detail{})]byte{}
)

// Bytes returns a slice's memory.
func Bytes[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), uintptr(len(s))*unsafe.Sizeof(s[0]))
}

// View returns n structures at an offset in b, which must be 8-byte aligned and long enough.
func View[T any](b []byte, offset, n uint64) []T {
	if n == 0 {
		return nil
	}
	var t T
	_ = b[offset : offset+n*uint64(unsafe.Sizeof(t))]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[offset])), n)
}
