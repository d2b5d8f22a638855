package uprobe

// This file mirrors probe/bpf/uprobe.bpf.c, which documents constants and fields.
const (
	maxWords       = 16
	maxReaders     = 16
	maxPlaces      = 32
	referred       = 16
	maxItems       = 1 << 16
	maxParams      = 512
	maxParamBytes  = 4096
	unknownParams  = 1<<16 - 1
	inlineBytes    = 4096
	none           = 255
	headSize       = 40
	eventSize      = 32
	partSize       = 64
	pieceSize      = 24
	shortPieceSize = 8
	markOpen       = 16
	markName       = 512                                                   // longest name of an operator, as in the shim
	headAt         = 4*8 + 4*4 + 2*4 + 3*8 + 8 + 16*markOpen + 8*maxPlaces // offset of head in struct thread

	unseen = 1 // result of a call whose end was not seen

	eventCall, eventPayload, eventThread, eventInner = 1, 2, 3, 4

	kindBytes, kindString, kindList, kindPayload, kindItems, kindBuffers        = 1, 2, 3, 4, 5, 6
	kindImage, kindPacked, kindBlock, kindParams                                = 7, 8, 9, 10
	readEntry, readOut, readLater, readField, readStored, readStored32          = 1, 2, 4, 8, 16, 32
	readValue, readAlways                                                       = 64, 128
	pieceOut, pieceFollows, pieceShort, pieceParams, pieceCaller                = 1, 2, 4, 8, 16
	funcRetError, funcRetVoid, funcRet32, funcWake                              = 1, 2, 4, 8
	funcOuter, funcCalled, funcItems, funcHold                                  = 16, 32, 64, 128
	noMark, markOther, markPhaseOne, markBegin, markEnd                         = 0, 1, 2, 3, 4
	argsReset, argsStored, argsBuffer, argsBufferStored                         = 1, 2, 4, 8
	argsKernel                                                                  = 16
	countRingFull, countNoThread, countNoProcess, countSampled           uint32 = 0, 1, 2, 3
	filterAll, filterPIDs, filterCgroup                                  uint8  = 0, 1, 2
	pidLives, pidLeaderGone                                              uint8  = 1, 2
)

type reader struct {
	Param, Kind, Flags, Word, Mul0, Mul1, Pitch, Item uint8
	Unit                                              uint64
	At, CountAt, UnlessAt                             uint16
	CountWidth, UnlessWidth                           uint8
}

// layout has a kernel's parameter sizes.
type layout struct {
	Count uint16
	Size  [maxParams]uint16
}

type function struct {
	Words, Readers, Flags, Stack      uint8
	Args, ArgsHow, Buffer, BufferSize uint8
	Refer, Referred, Before, Block    uint8
	Plain                             uint8
	Pointers                          [2]uint8
	Mark                              uint8
	Place                             [maxWords]uint8
	Mask                              [maxWords]uint64
	Reader                            [maxReaders]reader
}
