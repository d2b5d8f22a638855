package plan

import (
	"errors"
	"iter"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api"
)

// File is a finished plan. Its tables are mapped from the file.
type File struct {
	Header  Header
	Path    string
	Funcs   []*api.Func // by Instruction.Fn
	Kernels []string    // by PlayedCall.Kernel - 1

	index       []byte
	threads     []Thread
	mapped      [][]byte // to be unmapped
	first, rest []instructionPart
	ops         []packedOperand
	relocs      []Reloc
	written     []*ThreadWriter // for Played
	parts       *spoolFile
}

// open maps a finished plan.
func open(path string, h *Header) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w := &File{Header: *h, Path: path, index: make([]byte, h.Size-h.Index)}
	if _, err := f.ReadAt(w.index, int64(h.Index)); err != nil {
		return nil, err
	}
	w.threads = View[Thread](w.index, h.Threads.Offset, h.Threads.Count)
	if err := errors.Join(mapList(w, f, &h.First, &w.first), mapList(w, f, &h.Rest, &w.rest), mapList(w, f, &h.Ops, &w.ops), mapList(w, f, &h.Relocs, &w.relocs)); err != nil {
		return nil, &os.PathError{Op: "map", Path: path, Err: errors.Join(err, w.unmap())}
	}
	return w, nil
}

// mapList maps a list's extents contiguously.
func mapList[T any](w *File, f *os.File, t *table, list *[]T) error {
	extents, size := View[extent](w.index, t.Offset, t.Count), uint64(0)
	for _, e := range extents {
		size += e.Size
	}
	if size == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	w.mapped = append(w.mapped, b)
	at := b
	for _, e := range extents {
		if _, err := unix.MmapPtr(int(f.Fd()), int64(e.Offset), unsafe.Pointer(&at[0]), uintptr(e.Size), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			return err
		}
		at = at[e.Size:]
	}
	*list = View[T](b, 0, size/uint64(elemSize[T]()))
	return nil
}

func (f *File) unmap() error {
	var errs []error
	for _, b := range f.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	f.mapped, f.first, f.rest, f.ops, f.relocs = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// Close unmaps the file. Header, functions and kernels stay readable.
func (f *File) Close() error { return errors.Join(f.unmap(), f.parts.close()) }

// Count returns the instruction count over all threads.
func (f *File) Count() (n uint64) {
	for _, t := range f.threads {
		n += t.Count
	}
	return n
}

// Thread returns where a thread's instructions are.
func (f *File) Thread(t int) Thread { return f.threads[t] }

// At returns an instruction by its number in the plan.
func (f *File) At(i int) *Instruction {
	in := make([]Instruction, 1)
	f.load(in, i)
	return &in[0]
}

func (f *File) load(in []Instruction, i int) {
	parts := in[0].parts()
	parts[0], parts[1] = f.first[i], f.rest[i]
}

// Operand returns an operand by its number.
func (f *File) Operand(i uint32) Operand { return f.ops[i].operand() }

// Relocs returns an instruction's relocations.
func (f *File) Relocs(in *Instruction) []Reloc { return f.relocs[in.Relocs:][:in.NRelocs] }

// Instructions iterates over a thread's instructions, with their numbers in the plan. Each is valid until the next one.
func (f *File) Instructions(t int) iter.Seq2[int, *Instruction] {
	return func(yield func(int, *Instruction) bool) {
		in := make([]Instruction, 1)
		for i := int(f.threads[t].First); i < int(f.threads[t].First+f.threads[t].Count); i++ {
			if f.load(in, i); !yield(i, &in[0]) {
				return
			}
		}
	}
}

// Played iterates over a thread's replayed calls. Each is valid until the next one.
func (f *File) Played(t int) iter.Seq[*PlayedCall] {
	return func(yield func(*PlayedCall) bool) {
		_ = f.written[t].calls.each(func(calls []PlayedCall) error {
			for i := range calls {
				if !yield(&calls[i]) {
					return errStop
				}
			}
			return nil
		})
	}
}
