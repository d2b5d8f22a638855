package ring

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/acltrace/acltrace/probe"
)

// This file mirrors probe/shim/ring.h, which documents the fields. Both sides assert the sizes.
const (
	layoutMagic   = 0x31474e4952544c41
	layoutVersion = 13
	headerBytes   = 4096
	leastRing     = 64 << 10
	maxSlots      = 4096
	// maxProcesses limits the processes of a session that the recorder reads.
	maxProcesses = 1 << 20
	arenaChunk   = 1 << 20
	arenaWords   = 64

	recCall, recPayload, recLost = 1, 2, 3
	recBegin, recEnd, recTime    = 5, 6, 7
	recOwner                     = 8
	lostNested                   = 1
	stateEntered, stateDone      = 1, 2 // any other value: left by longjmp, never returned
	pieceOut, pieceBytes, far    = 1, 2, 4
	pieceEarly                   = 8

	recordingTicks = 16
	blockedUnit    = 64 // nanoseconds

	slotTaken, slotLive, slotGiven, slotReady = 1, 2, 3, 4

	offEnded, offWaiting         = 1, 2
	quietNo, quietAll, quietSome = 0, 1, 2

	untimedReasons = probe.UntimedFailed + 1
	refusals       = RefusedFiles + 1

	controlBytes = 256 + 8*arenaWords + 64*maxSlots
)

type slot struct {
	state     atomic.Uint32
	pid       uint32
	holder    atomic.Uint64
	ringBytes uint64
	start     uint64
	ppid      uint32
	off       atomic.Uint32
	process   uint32
	rng       uint32 // 1 + ring number in the process's pool, 0 for a separate file
	_         [4]uint32
}

// tid returns the id of the thread that has the slot, 0 if unknown.
func (s *slot) tid() uint32 { return uint32(s.holder.Load()) }

// generation returns how many threads have had the slot.
func (s *slot) generation() uint32 { return uint32(s.holder.Load() >> 32) }

// control mirrors struct control field by field. Its groups are anonymous structures in C.
type control struct {
	magic             uint64
	version           uint32
	policy            atomic.Uint32
	heartbeat         atomic.Int64
	controlMemory     // at offset 24
	clock             uint32
	off               atomic.Uint32
	controlMembers    // at offset 80
	controlChoices    // at offset 96
	only, quiet       atomic.Uint32
	handed            uint64
	functions         uint64
	stranger          atomic.Uint32
	reaped            uint32
	resumed           atomic.Uint32
	shutOut           atomic.Uint32
	visibleLimit      uint64
	offered, filtered atomic.Uint32
	gap, operators    uint32
	controlOutside    // at offset 192
	arenaFree         [arenaWords]atomic.Uint64
	slots             [maxSlots]slot
}

// taken returns how many slots were ever taken, from the first one on.
func (c *control) taken() int { return int(min(c.nextSlot.Load(), maxSlots)) }

type controlMemory struct {
	ringBytes            uint64
	payloadLimit         uint64
	memoryLimit          uint64
	memoryUsed           atomic.Uint64
	deviceFrom, deviceTo uint64
}

// controlOutside is in a cache line that recorded calls do not read.
type controlOutside struct {
	unrecorded atomic.Uint64
	refused    [refusals]atomic.Uint32
	_          uint32
	reading    reading // at offset 224
	_          uint64
}

type controlMembers struct {
	nextSlot    atomic.Uint32
	maxSlots    uint32
	nextProcess atomic.Uint32
	_           uint32
}

type controlChoices struct {
	taskIDs            uint32
	arenaChunks        uint32
	payloadLeast       uint64
	stackFrames        uint32
	cost               atomic.Uint32
	timeEvery, timeGap uint32
}

type header struct {
	head                 atomic.Uint64
	lost                 atomic.Uint64
	lostSince, lostUntil uint64
	seq                  atomic.Uint64
	untimed              [4]atomic.Uint64
	_                    uint64
	nested               atomic.Uint64
	nestedSince          uint64
	_                    [4]uint64
	tail                 atomic.Uint64
	givenUp              atomic.Uint64
	owner                [2]ringOwner
	mark                 [2]mark
	marked, ahead        atomic.Uint64
	_                    uint64
	inPayload            atomic.Uint64
}

// mark records how far a ring was read.
type mark struct{ pos, seq, lost uint64 }

// taken returns the number of calls that were read, with lost ones.
func (h *header) taken() uint64 { return h.lastMark().seq + h.ahead.Load() }

// lastMark returns the mark that is whole.
func (h *header) lastMark() *mark { return &h.mark[h.marked.Load()&1] }

// processFile is the file `process.N`.
type processFile struct {
	pid, ppid                           uint32
	namespace, start, program           uint64
	ready, ended                        atomic.Uint32
	untraced                            uint32
	exe, args, variables, librariesSize uint32
	code                                atomic.Uint32
	forkedFrom                          uint32
	filtered                            atomic.Uint32
	filters                             uint32
	unfiltered                          atomic.Uint32
	unrecorded                          atomic.Uint64
	began                               int64
	text                                [processBytes - 96]byte
}

const processBytes = 16384

// The file `passed` counts calls, and requests by dlsym, of functions that the shim does not wrap.
const (
	passedNames = 1024
	passedBytes = 64 // an entry: count (8), state (4), name
	passedNamed = 2  // state of an entry with a name
)

// Sizes of records without the data that follows.
const (
	callHeader, payloadHeader         = 40, 72
	lostBytes, timeBytes, pieceHeader = 32, 80, 8
	ownerBytes                        = 56
)

var (
	_ [64]byte           = [unsafe.Sizeof(slot{})]byte{}
	_ [controlBytes]byte = [unsafe.Sizeof(control{})]byte{}
	_ [24]byte           = [unsafe.Offsetof(control{}.controlMemory)]byte{}
	_ [80]byte           = [unsafe.Offsetof(control{}.controlMembers)]byte{}
	_ [96]byte           = [unsafe.Offsetof(control{}.controlChoices)]byte{}
	_ [192]byte          = [unsafe.Offsetof(control{}.controlOutside)]byte{}
	_ [32]byte           = [unsafe.Offsetof(controlOutside{}.reading)]byte{}
	_ [132]byte          = [unsafe.Offsetof(control{}.quiet)]byte{}
	_ [272]byte          = [unsafe.Sizeof(header{})]byte{}
	_ [processBytes]byte = [unsafe.Sizeof(processFile{})]byte{}

	le      = binary.LittleEndian
	errRing = errors.New("a ring holds what the shim does not write")
)
