package perfetto

import (
	"encoding/binary"
	"math/bits"
)

// Shifted field numbers with wire types, from perfetto/protos/perfetto/trace.
const (
	varint     = 0
	fixed64    = 1
	lengthened = 2

	tracePacket = 1<<3 | lengthened

	packetClockSnapshot = 6<<3 | lengthened
	packetTimestamp     = 8<<3 | varint
	packetSequence      = 10<<3 | varint
	packetTrackEvent    = 11<<3 | lengthened
	packetInterned      = 12<<3 | lengthened
	packetFlags         = 13<<3 | varint
	packetDeflate       = 50<<3 | lengthened
	packetClock         = 58<<3 | varint
	packetDefaults      = 59<<3 | lengthened
	packetTrack         = 60<<3 | lengthened
	packetZstd          = 133<<3 | lengthened

	snapshotClock   = 1<<3 | lengthened
	snapshotPrimary = 2<<3 | varint
	clockID         = 1<<3 | varint
	clockTime       = 2<<3 | varint
	clockIncrement  = 3<<3 | varint

	defaultsEvent = 11<<3 | lengthened
	defaultsClock = 58<<3 | varint
	defaultsTrack = 11<<3 | varint

	eventCategory   = 3<<3 | varint
	eventAnnotation = 4<<3 | lengthened
	eventType       = 9<<3 | varint
	eventName       = 10<<3 | varint
	eventNameText   = 23<<3 | lengthened
	eventCounter    = 30<<3 | varint
	eventDouble     = 44<<3 | fixed64
	eventFlow       = 47<<3 | fixed64
	eventFlowEnd    = 48<<3 | fixed64

	annotationName    = 1<<3 | varint
	annotationBool    = 2<<3 | varint
	annotationUint    = 3<<3 | varint
	annotationInt     = 4<<3 | varint
	annotationPointer = 7<<3 | varint
	annotationText    = 17<<3 | varint
	annotationString  = 6<<3 | lengthened

	internedID   = 1<<3 | varint
	internedText = 2<<3 | lengthened

	trackUUID     = 1<<3 | varint
	trackName     = 2<<3 | lengthened
	trackProcess  = 3<<3 | lengthened
	trackThread   = 4<<3 | lengthened
	trackParent   = 5<<3 | varint
	trackCounter  = 8<<3 | lengthened
	trackOrdering = 11<<3 | varint
	trackRank     = 12<<3 | varint

	processPID     = 1<<3 | varint
	processCommand = 2<<3 | lengthened
	processName    = 6<<3 | lengthened
	threadPID      = 1<<3 | varint
	threadTID      = 2<<3 | varint
	threadName     = 5<<3 | lengthened
	counterUnit    = 3<<3 | varint
	counterName    = 6<<3 | lengthened
)

// Enum values.
const (
	sliceBegin, sliceEnd, instant, counterPoint = 1, 2, 3, 4

	stateCleared, needsState = 1, 2

	clockRealtime, clockMonotonic, clockBoottime, clockOwn = 1, 3, 6, 64

	orderExplicit = 3

	unitCount, unitBytes = 2, 3
)

// interned selects a text field in InternedData.
type interned uint8

const (
	category interned = iota
	eventText
	argName
	argText
	specs // queues and stages
	internedKinds
)

var internedField = [specs]uint32{category: 1<<3 | lengthened, eventText: 2<<3 | lengthened, argName: 3<<3 | lengthened, argText: 29<<3 | lengthened}

func putTag(b []byte, tag uint32) []byte {
	if tag < 0x80 {
		return append(b, byte(tag))
	}
	return binary.AppendUvarint(b, uint64(tag))
}

func put(b []byte, tag uint32, v uint64) []byte {
	b = putTag(b, tag)
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func putFixed(b []byte, tag uint32, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(putTag(b, tag), v)
}

func putText(b []byte, tag uint32, s string) []byte {
	return append(put(b, tag, uint64(len(s))), s...)
}

// open starts a message. close inserts its length at the offset that open returns.
func open(b []byte, tag uint32) ([]byte, int) {
	b = append(putTag(b, tag), 0)
	return b, len(b)
}

func closed(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	more := (bits.Len(uint(n))+6)/7 - 1
	for range more {
		b = append(b, 0)
	}
	copy(b[at+more:], b[at:at+n])
	binary.PutUvarint(b[at-1:], uint64(n))
	return b
}

// varintAt writes a varint at b[n:] and returns its end. b needs 8 bytes beyond the longest varint.
func varintAt(b []byte, n int, v uint64) int {
	if v < 0x80 {
		b[n] = byte(v)
		return n + 1
	}
	return longAt(b, n, v)
}

// longAt is varintAt without a branch per byte.
func longAt(b []byte, n int, v uint64) int {
	if v >= maxSpread {
		return n + binary.PutUvarint(b[n:], v)
	}
	x, size := spread(v)
	binary.LittleEndian.PutUint64(b[n:], x)
	return n + size
}

// maxSpread is the first value that needs more than 8 varint bytes.
const maxSpread = 1 << 56

// spread returns a varint's bytes, first byte lowest, and their number.
func spread(v uint64) (x uint64, size int) {
	x = v&(1<<28-1) | v&^(1<<28-1)<<4
	x = x&0x3fff00003fff | x&^0x3fff00003fff<<2
	x = x&0x7f007f007f007f | x&^0x7f007f007f007f<<1
	size = (bits.Len64(v|1) + 6) / 7
	return x | 0x8080808080808080&(1<<(8*size-8)-1), size
}
