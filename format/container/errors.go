package container

import (
	"errors"
	"fmt"
)

// ErrNotTrace is returned for a file with another format.
type ErrNotTrace struct {
	Path  string
	Found string // start of the file, in words
}

func (e *ErrNotTrace) Error() string {
	return fmt.Sprintf("%s: not an acltrace trace: found %s", e.Path, e.Found)
}

// ErrVersion is returned for a newer major version, or for a file that needs a later release's feature.
type ErrVersion struct {
	Path     string
	Major    uint16
	Minor    uint16
	Incompat uint32 // unknown feature bits
}

func (e *ErrVersion) Error() string {
	if e.Incompat != 0 {
		return fmt.Sprintf("%s: trace needs features %#x that this acltrace does not know; upgrade acltrace", e.Path, e.Incompat)
	}
	return fmt.Sprintf("%s: trace format version %d.%d is newer than this acltrace can read (%d.x); upgrade acltrace", e.Path, e.Major, e.Minor, Major)
}

// ErrTruncated is returned for a file that ends before its first chunk.
var ErrTruncated = errors.New("trace is cut off")

// ErrCorrupt is a damaged place in a file.
type ErrCorrupt struct {
	Path   string
	Offset int64  // of the chunk, in bytes from the start of the file
	Chunk  Type   // 0 if the type is unknown
	Seq    uint64 // sequence number of the chunk, if the type is known
	What   string
}

func (e *ErrCorrupt) Error() string {
	if e.Chunk == 0 {
		return fmt.Sprintf("%s: corrupt at offset %d: %s", e.Path, e.Offset, e.What)
	}
	return fmt.Sprintf("%s: corrupt %s chunk %d at offset %d: %s", e.Path, e.Chunk, e.Seq, e.Offset, e.What)
}

// IgnoreDamage returns nil for damage, which costs a chunk, and other errors, which end everything.
func IgnoreDamage(err error) error {
	var c *ErrCorrupt
	if errors.As(err, &c) {
		return nil
	}
	return err
}
