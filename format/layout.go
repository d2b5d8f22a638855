package format

import "encoding/binary"

// Numbers of the file format. SPEC.md gives them their meaning; none is ever reused.

const blockVersion = 1 // of the content of an events chunk

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

// extra is the field of the first column that is not a word of its own table: outs of a function, properties of data.
const extra = 1 << 16

// Fields of kindRows.
const (
	rowGroup = iota
	rowCall
)

// Fields of kindData, counted from extra.
const (
	dataKind = iota // param, dir, status, reason in ascending bytes
	dataAddr
	dataTime
	dataItem
	dataBlob
	dataLen
	dataProps

	dataBytes = dataProps // content of differing length
)

// Tables and fields of a blobmap chunk.
const (
	kindBlobs   = 1
	kindExtents = 2

	blobLo   = 0
	blobHi   = 1
	blobSize = 2

	extentChunk = 0 // offset of the chunk in the file, or one of the values below
	extentPlace = 1 // offset in the unpacked content of the chunk

	extentHole   = 0 // zeros
	extentLost   = 1 // could not be written
	extentUnkept = 2 // only the hash was wanted
)

// Table and fields of a gap chunk.
const (
	kindGaps = 1

	gapThread = 0
	gapFrom   = 1
	gapLen    = 2
	gapCalls  = 3
	gapReason = 4
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
	chunkLateLen = 5 // number of calls from the lowest to the highest that late data belongs to, 0 for none
	chunkFuncs   = 6
	chunkThreads = 7
	chunkHandles = 8
	chunkTasks   = 9
	chunkFields  = 10

	setID     = 0
	setMember = 1

	handleKind  = 1 // position in the schema's handles, and anyHandle where there are more than the index names
	handleValue = 2

	taskStream = 1
	taskLow    = 2
	taskLen    = 3 // from the lowest to the highest

	totalFunc       = 0
	totalCalls      = 1
	totalFailed     = 2
	totalUnfinished = 3
	totalTime       = 4
	totalFields     = 5
)

// anyHandle is added to the kind of handles of which a chunk has more than maxHandles.
const (
	anyHandle  = 1 << 8
	maxHandles = 256
)

// summaryChunks is how many events chunks share a summary. A crash costs no more than the reading of these.
const summaryChunks = 256

// A block ends at whichever bound is reached first. 32 Ki calls pack nearly as well as ever more, and a reader that
// looks for one call unpacks no more than these. The words keep a block of large data as small as one of many calls.
const (
	blockCalls = 32 << 10
	blockWords = 1 << 20
)

// Bounds on what a reader accepts, above anything that a writer makes.
const (
	maxCalls      = 1 << 18
	maxBlockWords = 1 << 22
	extentSize    = 1 << 20
	maxBlobSize   = 1 << 42 // 4 TiB: more than any device has
)

// blockHead reads what comes before the tables of a block. A version that is not known has neither.
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
