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
	Kernels []string    // by Instruction.Kernel - 1

	index     []byte
	threads   []Thread
	processes int
	mapped    [][]byte // to be unmapped
	rows      []row
	templates []template
	ops       []packedOperand
	relocs    []Reloc
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
	w.processes = int(h.Processes.Count)
	if err := errors.Join(mapList(w, f, &h.Rows, &w.rows), mapList(w, f, &h.Templates, &w.templates), mapList(w, f, &h.Ops, &w.ops), mapList(w, f, &h.Relocs, &w.relocs)); err != nil {
		return nil, &os.PathError{Op: "map", Path: path, Err: errors.Join(err, w.Close())}
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

// Close unmaps the file. Header, functions and kernels stay readable.
func (f *File) Close() error {
	var errs []error
	for _, b := range f.mapped {
		errs = append(errs, unix.Munmap(b))
	}
	f.mapped, f.rows, f.templates, f.ops, f.relocs = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

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
	in := f.load(i)
	return &in
}

func (f *File) load(i int) Instruction {
	r := &f.rows[i]
	return r.instruction(&f.templates[r.Template])
}

// Operand returns an instruction's k-th operand. An address in the instruction's own data is returned as an address in the data.
func (f *File) Operand(in *Instruction, k int) Operand {
	return f.absolute(in, f.ops[int(in.Operands)+k].operand())
}

func (f *File) absolute(in *Instruction, o Operand) Operand {
	first := OwnSlot(len(f.threads), f.processes, 0)
	if o.Slot < first || o.Slot >= OwnSlot(len(f.threads), f.processes, len(f.threads)) {
		return o
	}
	return Operand{Slot: SlotData, Addend: in.data() + o.Addend}
}

// data returns the offset of an instruction's own data.
func (in *Instruction) data() uint64 { return uint64(in.Base) * DataAlign }

// Relocs returns an instruction's relocations, with offsets in the data, without the pieces to overwrite.
func (f *File) Relocs(in *Instruction) (rs []Reloc) {
	for i := in.Relocs; in.Relocs != 0; i++ {
		r := f.relocs[i]
		if r.Flags&RelocSpoil != 0 {
			break
		}
		to := f.absolute(in, Operand{Slot: r.Slot, Addend: r.Addend})
		rs = append(rs, Reloc{At: in.data() + r.At, Addend: to.Addend, Slot: to.Slot, Size: r.Size})
		if r.Flags&RelocLast != 0 {
			break
		}
	}
	return rs
}

// Instructions iterates over a thread's instructions, with their numbers in the plan. Each is valid until the next one.
func (f *File) Instructions(t int) iter.Seq2[int, *Instruction] {
	return func(yield func(int, *Instruction) bool) {
		for i := int(f.threads[t].First); i < int(f.threads[t].First+f.threads[t].Count); i++ {
			if in := f.load(i); !yield(i, &in) {
				return
			}
		}
	}
}
