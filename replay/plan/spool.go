package plan

import (
	"hash/crc32"
	"os"
	"slices"
	"sort"
	"unsafe"
)

// A spoolFile is the plan's file, with extents of several spools.
type spoolFile struct {
	file *os.File
	size int64 // bytes, whole pages
	err  error // first error; later calls do nothing
}

// reserve begins an extent with room for n bytes, in whole pages, at the end of the file.
func (f *spoolFile) reserve(n int) extent {
	e := extent{Offset: uint64(f.size)}
	f.size += int64(wholePages(n))
	return e
}

// append writes the next bytes of an extent, padded to whole pages.
func (f *spoolFile) append(e *extent, b []byte) {
	b = append(b[:len(b):len(b)], make([]byte, wholePages(len(b))-len(b))...)
	e.Checksum = crc32.Update(e.Checksum, castagnoli, b)
	f.write(b, int64(e.Offset+e.Size))
	e.Size += uint64(len(b))
}

func wholePages(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }

func (f *spoolFile) write(b []byte, at int64) {
	if f.err == nil {
		_, f.err = f.file.WriteAt(b, at)
	}
}

func (f *spoolFile) read(b []byte, at int64) {
	if f.err == nil {
		_, f.err = f.file.ReadAt(b, at)
	}
}

// An extent is a part of a spool in a file, in whole pages. The player maps a list's extents contiguously.
type extent struct {
	Offset, Size uint64
	Checksum, _  uint32 // CRC32C of its bytes
}

const pageSize = 4096

// A spool is a list without a length limit. Only its end is in memory. Elements are bytes, or structures without pointers whose size is a
// multiple of four.
type spool[T any] struct {
	in      *spoolFile
	extents []extent // written
	firsts  []int    // first element's number, by extent
	start   int      // number for tail[0]
	tail    []T
	full    int              // length at which tail is written
	left    int              // elements that the last extent still has room for
	changed map[int]struct{} // extents with an outdated checksum
}

// An extent has between firstExtent and firstExtent<<doublings elements. The size grows with the plan, since the player maps each extent
// separately. It is written in pieces that stay in a processor's cache. These numbers of elements are whole pages.
const (
	firstExtent  = 1 << 10
	doublings    = 6
	piece        = firstExtent << 3
	extentsAlike = 8  // extents before the size doubles
	bytesUnit    = 64 // bytes that count as one element
)

func elemSize[T any]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

func (s *spool[T]) count() int { return s.start + len(s.tail) }

// add appends elements and returns the first one's number.
func (s *spool[T]) add(vs ...T) int {
	first := s.count()
	for len(vs) > 0 {
		vs = vs[copy(s.next(len(vs)), vs):]
	}
	return first
}

// push appends one element.
func (s *spool[T]) push(v T) {
	if n := len(s.tail); n < s.full && n < cap(s.tail) {
		s.tail = append(s.tail, v)
		return
	}
	s.next(1)[0] = v
}

// next appends between one and n elements, and returns them for the caller to set before the next call.
func (s *spool[T]) next(n int) []T {
	if len(s.tail) == s.full {
		s.flush()
		if s.full = s.left; s.full == 0 {
			s.full = s.extentRoom()
		}
		s.full = min(s.full, elements[T](piece))
	}
	from := len(s.tail)
	n = min(n, s.full-from)
	s.tail = slices.Grow(s.tail, n)[:from+n]
	return s.tail[from:]
}

// room appends n elements, and returns them for the caller to set. It returns nil if next must make room for them.
func (s *spool[T]) room(n int) []T {
	from := len(s.tail)
	if n > min(s.full, cap(s.tail))-from {
		return nil
	}
	s.tail = s.tail[:from+n]
	return s.tail[from:]
}

// extentRoom returns how many elements the next extent has room for.
func (s *spool[T]) extentRoom() int {
	return elements[T](firstExtent << min(len(s.extents)/extentsAlike, doublings))
}

// elements returns a number of elements, more if they are bytes.
func elements[T any](n int) int {
	if elemSize[T]() == 1 {
		return n * bytesUnit
	}
	return n
}

// flush writes the tail, which is full except at the end of the list.
func (s *spool[T]) flush() {
	if len(s.tail) == 0 {
		return
	}
	if s.left == 0 {
		if s.left = s.extentRoom(); len(s.tail) < s.full {
			s.left = len(s.tail)
		}
		s.extents, s.firsts = append(s.extents, s.in.reserve(s.left*elemSize[T]())), append(s.firsts, s.start)
	}
	s.in.append(&s.extents[len(s.extents)-1], Bytes(s.tail))
	s.left -= len(s.tail)
	s.start += len(s.tail)
	s.tail = s.tail[:0]
}

// place returns the extent and the file offset for an element outside the tail.
func (s *spool[T]) place(i int) (n int, at int64) {
	n = sort.SearchInts(s.firsts, i+1) - 1
	return n, int64(s.extents[n].Offset) + int64((i-s.firsts[n])*elemSize[T]())
}

func (s *spool[T]) at(i int) T {
	if i >= s.start {
		return s.tail[i-s.start]
	}
	v := make([]T, 1)
	_, at := s.place(i)
	s.in.read(Bytes(v), at)
	return v[0]
}

// from returns the elements from number i on.
func (s *spool[T]) from(i int) []T {
	var all []T
	for ; i < s.start; i++ {
		all = append(all, s.at(i))
	}
	return append(all, s.tail[i-s.start:]...)
}

func (s *spool[T]) set(i int, v T) {
	if i >= s.start {
		s.tail[i-s.start] = v
		return
	}
	n, at := s.place(i)
	s.in.write(Bytes([]T{v}), at)
	if s.changed == nil {
		s.changed = map[int]struct{}{}
	}
	s.changed[n] = struct{}{}
}

// finish writes the tail and returns all extents, with their checksums.
func (s *spool[T]) finish() []extent {
	s.flush()
	for n := range s.changed {
		e := &s.extents[n]
		b := make([]byte, e.Size)
		s.in.read(b, int64(e.Offset))
		e.Checksum = crc32.Checksum(b, castagnoli)
	}
	return s.extents
}
