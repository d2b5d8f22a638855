package plan

import (
	"io"
	"os"
	"slices"
	"unsafe"
)

// A spoolFile is the temporary file that the spools of one plan share. It has no name. A plan that is only looked at has none.
type spoolFile struct {
	file *os.File
	size int64
	err  error // the first one; later calls do nothing
}

// create makes the file in a folder. It is gone when it is closed.
func (f *spoolFile) create(dir string) (err error) {
	if f.file, err = os.CreateTemp(dir, "plan-parts-"); err != nil {
		return err
	}
	return os.Remove(f.file.Name())
}

func (f *spoolFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// spoolChunk is how many elements a spool collects in memory before it writes them.
const spoolChunk = 512

// A spool is a list of any length of which only the end is in memory. Elements are structures without pointers.
type spool[T any] struct {
	in     *spoolFile
	chunks []int64 // offsets in the file
	tail   []T
}

func (s *spool[T]) count() int { return spoolChunk*len(s.chunks) + len(s.tail) }

// add appends elements and returns the number of the first one.
func (s *spool[T]) add(vs ...T) int {
	first := s.count()
	for len(vs) > 0 {
		n := min(len(vs), spoolChunk-len(s.tail))
		s.tail = append(s.tail, vs[:n]...)
		vs = vs[n:]
		if len(s.tail) == spoolChunk {
			s.chunks = append(s.chunks, s.in.size)
			s.in.write(Bytes(s.tail))
			s.tail = s.tail[:0]
		}
	}
	return first
}

func (f *spoolFile) write(b []byte) {
	if f.err == nil && f.file != nil {
		_, f.err = f.file.WriteAt(b, f.size)
	}
	f.size += int64(len(b))
}

// place returns where an element is in the file, false if it is in memory.
func (s *spool[T]) place(i int) (int64, bool) {
	if i/spoolChunk == len(s.chunks) {
		return 0, false
	}
	var t T
	return s.chunks[i/spoolChunk] + int64(i%spoolChunk)*int64(unsafe.Sizeof(t)), true
}

func (s *spool[T]) at(i int) T {
	v := make([]T, 1)
	if at, ok := s.place(i); !ok {
		v[0] = s.tail[i%spoolChunk]
	} else if f := s.in; f.err == nil && f.file != nil {
		_, f.err = f.file.ReadAt(Bytes(v), at)
	}
	return v[0]
}

func (s *spool[T]) set(i int, v T) {
	if at, ok := s.place(i); !ok {
		s.tail[i%spoolChunk] = v
	} else if f := s.in; f.err == nil && f.file != nil {
		_, f.err = f.file.WriteAt(Bytes([]T{v}), at)
	}
}

// each passes all elements on, some at a time. They are valid during the call.
func (s *spool[T]) each(to func([]T) error) error {
	buf := slices.Grow([]T(nil), spoolChunk)[:spoolChunk]
	for _, at := range s.chunks {
		if s.in.file == nil {
			return nil
		}
		if _, err := s.in.file.ReadAt(Bytes(buf), at); err != nil && err != io.EOF {
			return err
		}
		if err := to(buf); err != nil {
			return err
		}
	}
	if len(s.tail) == 0 {
		return nil
	}
	return to(s.tail)
}
