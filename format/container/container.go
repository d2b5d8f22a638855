// Package container is the outer layer of a trace file: a file header, then chunks, each with a 64-byte header
// that has its own checksum, the stored bytes' checksum, a sequence number and a session tag. An index
// and an end close the file; checkpoints hold parts of the index. The package knows no events: a chunk is a
// type, a range of times and bytes.
//
// Create makes a Writer, which takes chunks from any goroutine; Finish completes the file. An unfinished file can
// be read too: Open then starts from the last checkpoint, walks from chunk to chunk, and searches for the next
// whole header after invalid bytes. A File is safe for use from several goroutines. This package never maps a
// file, never changes a file that it reads, and compares every length with a bound before it trusts it. Package
// format is its only user.
//
// SPEC.md in the folder above describes every byte.
package container

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Version of the layout that this package writes. A reader refuses a newer major and reads any minor.
const (
	Major = 1
	Minor = 1
)

const (
	// FileHeaderLen is a version 1 file's header length; a later minor version may write a longer one.
	FileHeaderLen = 64
	// HeaderLen is the length of a chunk header.
	HeaderLen = 64
	// MaxRaw bounds the bytes of a chunk, stored and unpacked, so that a reader can bound its memory.
	MaxRaw = 16 << 20

	endLen     = 64
	entryLen   = 8 + HeaderLen
	indexBatch = 16 << 10 // entries in one index chunk: about 1.1 MiB

	checkpointHead = 16
)

const (
	fileMagic  = "\x89ACLT\r\n\x1a"
	chunkMagic = "ACLK"
)

// A Type is the kind of a chunk's content. Types from 0x80 on are experimental and never given a meaning here.
type Type uint8

const (
	Meta       Type = 1  // JSON: origin of the recording; the last one counts
	Schema     Type = 2  // JSON: functions, parameters, enums; the last one counts
	Events     Type = 3  // tables of calls and of their data
	Dict       Type = 4  // JSON: entries of the process and thread tables
	State      Type = 5  // reserved: live objects, to start in the middle
	Blob       Type = 6  // contents of payloads
	BlobMap    Type = 7  // tables: places of payloads
	Clock      Type = 8  // reserved: relations between clocks
	Checkpoint Type = 9  // entries for the chunks since the previous checkpoint, written once these are on the disk
	Index      Type = 10 // an entry for every chunk before it
	End        Type = 11 // place of the index; the last 128 bytes of a finished file
	Gap        Type = 12 // tables: calls known to be missing
	Summary    Type = 13 // tables: contents of event chunks, and totals
)

var typeNames = [...]string{1: "meta", "schema", "events", "dict", "state", "blob", "blobmap", "clock", "checkpoint", "index", "end", "gap", "summary"}

func (t Type) String() string {
	if t.Known() {
		return typeNames[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Known reports if this version gives the type a meaning.
func (t Type) Known() bool { return t >= Meta && int(t) < len(typeNames) }

// Flags of a chunk. All other bits are zero in a version 1 file and ignored by its reader.
type Flags uint8

const (
	Ancillary     Flags = 1 << 0 // a reader that skips the type misses no recorded fact
	SelfContained Flags = 1 << 1 // understandable with schema, dict and blobmap chunks alone
	BeforeLoss    Flags = 1 << 2 // calls are missing between this chunk and the next
)

// A FileHeader opens the file.
type FileHeader struct {
	Major    uint16
	Minor    uint16
	Incompat uint32 // features that a reader must know; none are defined, a file with an unknown bit is refused
	Compat   uint32 // features that a reader may ignore
	Session  [16]byte
	WallNS   int64 // nanoseconds since 1970 UTC at the moment MonoNS was read
	MonoNS   int64 // nanoseconds of CLOCK_MONOTONIC; origin of all times in the file

	length uint32
}

// Tag is the part of the session that every chunk repeats, to recognize stale and foreign chunks.
func (h *FileHeader) Tag() uint32 { return binary.LittleEndian.Uint32(h.Session[:4]) }

// A Header describes one chunk.
type Header struct {
	Type      Type
	Flags     Flags
	Codec     Codec
	StoredLen uint32 // bytes in the file, without header and padding
	RawLen    uint32 // bytes after unpacking
	Seq       uint64 // number of the chunk in the file, from 0; a hole means lost chunks
	TMin      int64  // nanoseconds; earliest and latest time in the chunk
	TMax      int64
	Records   uint32 // calls in an events chunk, rows or entries in other chunks
	Shard     uint32 // reserved for the producer, 0
	Tag       uint32
	Dropped   uint32 // calls known to be lost since the previous chunk, at most 2^32-1
	CRC       uint32 // CRC32C of the stored bytes
}

// An Entry is a chunk with its offset.
type Entry struct {
	Offset int64
	Header
}

// end is the offset after the stored bytes, next the offset of the following chunk.
func (e *Entry) end() int64  { return e.Offset + HeaderLen + int64(e.StoredLen) }
func (e *Entry) next() int64 { return align(e.end()) }

func align(n int64) int64 { return (n + 7) &^ 7 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func (h *FileHeader) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, FileHeaderLen)
	copy(b, fileMagic)
	le.PutUint16(b[8:], h.Major)
	le.PutUint16(b[10:], h.Minor)
	le.PutUint32(b[12:], h.Incompat)
	le.PutUint32(b[16:], h.Compat)
	le.PutUint32(b[20:], FileHeaderLen)
	copy(b[24:], h.Session[:])
	le.PutUint64(b[40:], uint64(h.WallNS))
	le.PutUint64(b[48:], uint64(h.MonoNS))
	le.PutUint32(b[60:], checksum(b[:60]))
	return b
}

// decodeFileHeader reads the fields; ok reports if the checksum is right.
func decodeFileHeader(b []byte) (h FileHeader, ok bool) {
	le := binary.LittleEndian
	h.Major = le.Uint16(b[8:])
	h.Minor = le.Uint16(b[10:])
	h.Incompat = le.Uint32(b[12:])
	h.Compat = le.Uint32(b[16:])
	h.length = le.Uint32(b[20:])
	copy(h.Session[:], b[24:40])
	h.WallNS = int64(le.Uint64(b[40:]))
	h.MonoNS = int64(le.Uint64(b[48:]))
	return h, string(b[:8]) == fileMagic && le.Uint32(b[60:]) == checksum(b[:60])
}

func (h *Header) encode(b []byte) {
	le := binary.LittleEndian
	copy(b, chunkMagic)
	b[4], b[5], b[6], b[7] = byte(h.Type), byte(h.Flags), byte(h.Codec), HeaderLen/8
	le.PutUint32(b[8:], h.StoredLen)
	le.PutUint32(b[12:], h.RawLen)
	le.PutUint64(b[16:], h.Seq)
	le.PutUint64(b[24:], uint64(h.TMin))
	le.PutUint64(b[32:], uint64(h.TMax))
	le.PutUint32(b[40:], h.Records)
	le.PutUint32(b[44:], h.Shard)
	le.PutUint32(b[48:], h.Tag)
	le.PutUint32(b[52:], h.Dropped)
	le.PutUint32(b[56:], h.CRC)
	le.PutUint32(b[60:], checksum(b[:60]))
}

// decodeHeader reads a chunk header; it returns false for 64 bytes that are not one.
func decodeHeader(b []byte) (h Header, ok bool) {
	le := binary.LittleEndian
	if len(b) < HeaderLen || string(b[:4]) != chunkMagic || b[7] != HeaderLen/8 || le.Uint32(b[60:]) != checksum(b[:60]) {
		return h, false
	}
	h = Header{
		Type: Type(b[4]), Flags: Flags(b[5]), Codec: Codec(b[6]),
		StoredLen: le.Uint32(b[8:]), RawLen: le.Uint32(b[12:]), Seq: le.Uint64(b[16:]),
		TMin: int64(le.Uint64(b[24:])), TMax: int64(le.Uint64(b[32:])),
		Records: le.Uint32(b[40:]), Shard: le.Uint32(b[44:]), Tag: le.Uint32(b[48:]),
		Dropped: le.Uint32(b[52:]), CRC: le.Uint32(b[56:]),
	}
	return h, h.StoredLen <= MaxRaw && h.RawLen <= MaxRaw
}
