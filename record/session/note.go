// Package session describes a recording session's folder: the note that its recorder keeps there, and the socket on which
// the recorder takes requests.
//
// The recorder serves the socket, and ctl and the viewers call Ask. The package neither records nor reads the rings.
package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/record/host"
)

const (
	SharedMark = "shared"         // file of a shared session
	NoteFile   = "collector.json" // the recorder's note
)

// Note is written by a recorder. It is read if the recorder was killed.
type Note struct {
	PID    int    `json:"pid"`
	Output string `json:"output"`
	Handed uint64 `json:"handed"` // calls that others had taken before it
	Begun  int64  `json:"begun_mono_ns"`
	Ring   bool   `json:"ring,omitempty"`
	// UUID identifies the trace at Output. It is "" for a ring.
	UUID string `json:"uuid,omitempty"`
}

// IsSession reports whether a folder is a session folder.
func IsSession(dir string) bool { return host.Exists(filepath.Join(dir, "control")) }

// Bytes returns the content of the file.
func (c *Note) Bytes() []byte {
	b, _ := json.Marshal(c) // it has no value that JSON lacks
	return b
}

// ReadNote returns the recorder's note. Its PID is 0 if there is none.
func ReadNote(dir string) (c Note) {
	if b, err := os.ReadFile(filepath.Join(dir, NoteFile)); err != nil || json.Unmarshal(b, &c) != nil || c.Output == "" {
		c.Output = "salvaged.aclt"
	}
	return c
}

// WritesFile reports whether the recorder wrote all calls into a file.
func (c *Note) WritesFile() bool { return c.UUID != "" && !c.Ring }

// Open opens the file that a recorder had begun. It also finds a file that a later recording has moved aside. It returns nil if
// there is none.
func (c *Note) Open() *format.Reader {
	for _, path := range append([]string{c.Output}, atomicfile.Asides(c.Output)...) {
		r, err := format.Open(path, nil)
		switch {
		case err != nil:
		case r.Meta().UUID == c.UUID:
			return r
		default:
			r.Close()
		}
	}
	return nil
}

// began reports whether a file is the one that the recorder had begun.
func (c *Note) began(path string) bool {
	begun := c.Open()
	if begun == nil {
		return false
	}
	defer begun.Close()
	a, errA := os.Stat(path)
	b, errB := os.Stat(begun.Path())
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// HoldsCalls reports whether a session's folder may have calls that are in no trace. If the folder of the recording's file was
// removed, most calls are lost, and the rest is given up.
func HoldsCalls(dir string) bool {
	was := ReadNote(dir)
	files, _ := filepath.Glob(filepath.Join(dir, "flight", "*.aclt"))
	return was.WritesFile() && host.Exists(filepath.Dir(was.Output)) || len(files) > 0
}

// Abandoned reports whether a folder is this user's session, holds calls, and has no recorder.
func Abandoned(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false
	}
	if !private.Owns(st) || !IsSession(dir) || host.Exists(filepath.Join(dir, SharedMark)) || !HoldsCalls(dir) {
		return false
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil // given back by Close
}
