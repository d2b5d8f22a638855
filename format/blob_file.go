package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/format/container"
	"github.com/acltrace/acltrace/internal/atomicfile"
)

// A blobFileWriter writes payload contents to a file beside the trace.
type blobFileWriter struct {
	file *container.Writer
	name string // path relative to the folder of the trace
}

// createBlobFile makes the blob file of a new trace. It has the trace's header, and describes itself for
// readers that find it alone.
func createBlobFile(path, trace string, h *container.FileHeader, m *Meta) (*blobFileWriter, error) {
	if SameFile(path, trace) {
		return nil, fmt.Errorf("create blob file: %s is the trace itself; name another file", path)
	}
	name, err := wayTo(path, trace)
	if err != nil {
		return nil, fmt.Errorf("create blob file: %w", err)
	}
	raw, err := json.Marshal(&Meta{UUID: m.UUID, Host: m.Host, API: m.API, StartWall: m.StartWall, StartMono: m.StartMono, Derivation: Derivation{BlobsOf: strings.TrimSuffix(filepath.Base(trace), atomicfile.Suffix)}})
	if err != nil {
		return nil, fmt.Errorf("create blob file: %w", err)
	}
	f, err := container.Create(path, h, nil)
	if err != nil {
		return nil, fmt.Errorf("blob file: %w", err)
	}
	if _, err := f.Append(&container.Chunk{Type: container.Meta, Flags: container.SelfContained, Codec: container.LZ4, Records: 1, Raw: raw}); err != nil {
		return nil, errors.Join(err, f.Abort(), os.Remove(path))
	}
	return &blobFileWriter{f, name}, nil
}

// SameFile reports whether two paths name one file.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// wayTo returns a blob file's path relative to the trace's folder.
func wayTo(path, trace string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	trace, err = filepath.Abs(trace)
	if err != nil {
		return "", err
	}
	name, err := filepath.Rel(filepath.Dir(trace), path)
	return filepath.ToSlash(name), err
}

// BlobFile returns the file with the payload contents, nil if they are in the trace itself.
func (r *Reader) BlobFile() *BlobFile {
	r.blobs.open()
	return r.blobs.beside
}

// PayloadsReadable returns an ErrBlobFile if the trace has a blob file that can't be read.
func (r *Reader) PayloadsReadable() error {
	if f := r.BlobFile(); f != nil && f.Err != nil {
		return f.missing(r)
	}
	return nil
}

// ErrBlobFile is returned for a payload whose content is in an unreadable blob file.
type ErrBlobFile struct {
	Path string // of the trace
	File string // blob file with the trace's payloads
	Err  error
}

func (e *ErrBlobFile) Error() string {
	return fmt.Sprintf("%s: its payloads are in %s: %v; put that file where the trace names it, or beside the trace", e.Path, e.File, e.Err)
}

func (e *ErrBlobFile) Unwrap() error { return e.Err }

var errOtherSession = errors.New("it belongs to another recording")

// missing is the error for a payload in an unreadable file.
func (f *BlobFile) missing(r *Reader) error { return &ErrBlobFile{r.file.Path(), f.Path, f.Err} }

// open finds the blob file of the trace: at the path in META, or beside the trace if both were moved.
func (b *blobReader) open() {
	b.find.Do(func() {
		name := filepath.FromSlash(b.r.meta.BlobFile)
		if name == "" {
			return
		}
		dir := filepath.Dir(b.r.file.Path())
		at := filepath.Join(dir, name)
		b.file, b.chunks = nil, nil
		b.beside = &BlobFile{Path: at}
		file, err := b.openAt(at)
		if err != nil {
			var e error
			if file, e = b.openAt(filepath.Join(dir, filepath.Base(name))); e != nil {
				b.beside.Err = err
				return
			}
		}
		b.opened.Store(file)
		b.file, b.beside.Path, b.beside.Size, b.beside.Recovered = file, file.Path(), file.Size(), file.Recovery()
		b.chunks = map[int64]*container.Entry{}
		for i := range file.Entries() {
			if e := &file.Entries()[i]; e.Type == container.Blob {
				b.chunks[e.Offset] = e
			}
		}
	})
}

func (b *blobReader) openAt(path string) (*container.File, error) {
	// The name comes from the trace: open nothing but a regular file.
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	if err != nil {
		return nil, err
	}
	file, err := container.Open(path)
	if err != nil {
		return nil, err
	}
	// Chunks are checked by the tag, and contents by their keys.
	h, own := file.Header(), b.r.file.Header()
	if h.Tag() != own.Tag() {
		return nil, errors.Join(errOtherSession, file.Close())
	}
	return file, nil
}

// absent is the error for a payload in a missing chunk.
func (b *blobReader) absent(offset uint64) error {
	e := &container.Entry{Offset: int64(offset), Header: container.Header{Type: container.Blob}}
	return b.file.Corrupt(e, "no such chunk is in the file")
}

func (b *blobReader) close() error {
	if f := b.opened.Load(); f != nil {
		return f.Close()
	}
	return nil
}

// damage returns the damaged places in the blob file.
func (b *blobReader) damage() []ErrCorrupt {
	if f := b.opened.Load(); f != nil {
		return f.Damage()
	}
	return nil
}
