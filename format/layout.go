package format

import "encoding/binary"

// Numbers in the file format. SPEC.md defines them; none is ever reused.

const blockVersion = 1 // version of an events chunk's content

// Kinds of tables in an events chunk.
const (
	kindCalls = 1
	kindFunc  = 2
	kindRows  = 3
	kindData  = 4
)

// Fields of kindCalls.
const (
	callFunc = iota
	callStart
	callDur
	callThread
	callFlags
	callRet
	callFields
)

// extra is the first field for other columns than a table's own words: a function's outputs, data properties.
const extra = 1 << 16

// Fields of kindRows.
const (
	rowGroup = iota
	rowCall
)

// Fields of kindData, relative to extra.
const (
	dataKind = iota // param, dir, status, reason in ascending bytes
	dataAddr
	dataTime
	dataItem
	dataBlob
	dataLen
	dataProps

	dataBytes     = dataProps     // content with varying length
	dataAside     = dataBytes + 1 // offset of the content in the payload of the next field
	dataAsideBlob = dataAside + 1
)

// Tables and fields of a blobmap chunk.
const (
	kindBlobs   = 1
	kindExtents = 2

	blobLo   = 0
	blobHi   = 1
	blobSize = 2

	extentChunk = 0 // chunk offset in the file, or a special value below
	extentPlace = 1 // offset in the unpacked chunk

	extentHole   = 0 // zeros
	extentLost   = 1 // could not be written
	extentUnkept = 2 // stored as a hash only
)

// Table and fields of a gap chunk.
const (
	kindGaps = 1

	gapThread = 0
	gapFrom   = 1
	gapLen    = 2
	gapCalls  = 3
	gapReason = 4
	gapFields = 5
)

// Tables and fields of a summary chunk.
const (
	kindChunks  = 1
	kindSets    = 2
	kindTotals  = 3
	kindHandles = 4
	kindTasks   = 5

	chunkSeq     = 0
	chunkFirst   = 1
	chunkCalls   = 2
	chunkRows    = 3
	chunkLateLo  = 4
	chunkLateLen = 5 // number of calls from the lowest to the highest one with late data, 0 for none
	chunkFuncs   = 6
	chunkThreads = 7
	chunkHandles = 8
	chunkTasks   = 9
	chunkFields  = 10

	setID     = 0
	setMember = 1

	handleKind  = 1 // position in the schema's handles, plus anyHandle if there are too many to list
	handleValue = 2

	taskStream = 1
	taskLow    = 2
	taskLen    = 3 // highest − lowest

	totalFunc       = 0
	totalCalls      = 1
	totalFailed     = 2
	totalUnfinished = 3
	totalTime       = 4
	totalFields     = 5
)

// anyHandle is added to a handle kind if a chunk has more than maxHandles.
const (
	anyHandle  = 1 << 8
	maxHandles = 256
)

// summaryChunks is the number of events chunks in a summary. After a crash a reader reads fewer
// chunks than that for its totals.
const summaryChunks = 256

// A block ends at the first bound that it reaches. Larger blocks than 32 Ki calls pack little better, and a reader
// that needs one call unpacks the whole block. The word bound keeps blocks with large data as small as blocks with many calls.
const (
	blockCalls = 32 << 10
	blockWords = 1 << 20
)

// extentSize is the length in bytes of all extents of a payload but the last.
const extentSize = 1 << 20

// extentsOf is the number of extents of a payload.
func extentsOf(size uint64) uint64 { return (size + extentSize - 1) / extentSize }

// Bounds on input of a reader, above any writer's output.
const (
	maxCalls      = 1 << 18
	maxBlockWords = 1 << 22
	maxBlobSize   = 1 << 42 // 4 TiB: more than any device has
)

// blockHead reads the start of a block, before its tables. It returns errBlockVersion for a later version.
func blockHead(raw []byte) (first uint64, tables []byte, t0 int64, err error) {
	version, raw, ok := readUvarint(raw)
	if !ok {
		return 0, nil, 0, errBlock
	}
	if version != blockVersion {
		return 0, nil, 0, errBlockVersion
	}
	if first, raw, ok = readUvarint(raw); !ok || first > 1<<62 {
		return 0, nil, 0, errBlock
	}
	t0, n := binary.Varint(raw)
	if n <= 0 {
		return 0, nil, 0, errBlock
	}
	return first, raw[n:], t0, nil
}
