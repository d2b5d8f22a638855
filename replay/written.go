package replay

import (
	"cmp"
	"errors"
	"iter"
	"os"
	"syscall"
)

// mapped is a plan as it was written. Its tables are not in the memory of the process but in the file, however long they are.
type mapped struct {
	file        []byte
	first, rest [][instructionPart]byte // the two parts of the instructions
	ops         []packedOperand
	relocs      []reloc
}

// unnamed makes a file in a folder that has no name, and is gone when it is closed.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "plan-parts-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// open maps the file that was written.
func (p *Plan) open() error {
	f, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := &p.layout
	w := &p.written
	if w.file, err = syscall.Mmap(int(f.Fd()), 0, int(h.Size), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return &os.PathError{Op: "map", Path: p.path, Err: err}
	}
	w.first = view[[instructionPart]byte](w.file, h.Instructions.Offset, h.Instructions.Count)
	w.rest = view[[instructionPart]byte](w.file, h.Rest.Offset, h.Rest.Count)
	w.ops = view[packedOperand](w.file, h.Ops.Offset, h.Ops.Count)
	w.relocs = view[reloc](w.file, h.Relocs.Offset, h.Relocs.Count)
	return nil
}

// close gives back what a plan has of the system. Its findings can still be read.
func (p *Plan) close() error {
	var err error
	if p.written.file != nil {
		err = syscall.Munmap(p.written.file)
	}
	p.written = mapped{}
	if p.parts.file != nil {
		err = cmp.Or(err, p.parts.file.Close())
	}
	if cerr := p.file.Close(); !errors.Is(cerr, os.ErrClosed) {
		err = cmp.Or(err, cerr)
	}
	return err
}

// at returns an instruction by its number in the plan.
func (p *Plan) at(i int) *instruction {
	in := make([]instruction, 1)
	b := bytesOf(in)
	copy(b, p.written.first[i][:])
	copy(b[instructionPart:], p.written.rest[i][:])
	return &in[0]
}

// instructions gives those of a thread, with their numbers in the plan. Each is valid until the next one.
func (p *Plan) instructions(t int) iter.Seq2[int, *instruction] {
	return func(yield func(int, *instruction) bool) {
		table := view[planThread](p.written.file, p.layout.Threads.Offset, p.layout.Threads.Count)
		in := make([]instruction, 1)
		b := bytesOf(in)
		for i := int(table[t].First); i < int(table[t].First+table[t].Count); i++ {
			copy(b, p.written.first[i][:])
			copy(b[instructionPart:], p.written.rest[i][:])
			if !yield(i, &in[0]) {
				return
			}
		}
	}
}

// played gives the calls of a thread that have instructions.
func (p *Plan) played(t int) iter.Seq[*playedCall] {
	return func(yield func(*playedCall) bool) {
		_ = p.threads[t].calls.each(func(calls []playedCall) error {
			for i := range calls {
				if !yield(&calls[i]) {
					return os.ErrClosed
				}
			}
			return nil
		})
	}
}
