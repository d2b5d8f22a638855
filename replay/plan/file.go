package plan

import (
	"cmp"
	"iter"
	"os"
	"syscall"

	"github.com/acltrace/acltrace/api"
)

// File is a plan that was written. Its tables are not in the memory of the process but in the file, however long they are.
type File struct {
	Header  Header
	Path    string
	Funcs   []*api.Func // by Instruction.Fn
	Kernels []string    // by PlayedCall.Kernel - 1

	mapped      []byte
	threads     []Thread
	first, rest [][instructionPart]byte // the two parts of the instructions
	ops         []packedOperand
	relocs      []Reloc
	written     []*ThreadWriter // for the calls
	parts       *spoolFile
}

// open maps the file that was written.
func open(path string, h *Header) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w := &File{Header: *h, Path: path}
	if w.mapped, err = syscall.Mmap(int(f.Fd()), 0, int(h.Size), syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
		return nil, &os.PathError{Op: "map", Path: path, Err: err}
	}
	w.threads = View[Thread](w.mapped, h.Threads.Offset, h.Threads.Count)
	w.first = View[[instructionPart]byte](w.mapped, h.Instructions.Offset, h.Instructions.Count)
	w.rest = View[[instructionPart]byte](w.mapped, h.Rest.Offset, h.Rest.Count)
	w.ops = View[packedOperand](w.mapped, h.Ops.Offset, h.Ops.Count)
	w.relocs = View[Reloc](w.mapped, h.Relocs.Offset, h.Relocs.Count)
	return w, nil
}

// Close gives back what the file has of the system. Its header, functions and kernels can still be read.
func (f *File) Close() error {
	err := syscall.Munmap(f.mapped)
	f.mapped, f.threads, f.first, f.rest, f.ops, f.relocs = nil, nil, nil, nil, nil, nil
	return cmp.Or(err, f.parts.close())
}

// Thread returns where the instructions of a thread are.
func (f *File) Thread(t int) Thread { return f.threads[t] }

// At returns an instruction by its number in the plan.
func (f *File) At(i int) *Instruction {
	in := make([]Instruction, 1)
	f.load(in, i)
	return &in[0]
}

func (f *File) load(in []Instruction, i int) {
	b := Bytes(in)
	copy(b, f.first[i][:])
	copy(b[instructionPart:], f.rest[i][:])
}

// Operand returns an operand by its number.
func (f *File) Operand(i uint32) Operand { return f.ops[i].operand() }

// Relocs returns the relocations of an instruction.
func (f *File) Relocs(in *Instruction) []Reloc { return f.relocs[in.Relocs:][:in.NRelocs] }

// Instructions gives those of a thread, with their numbers in the plan. Each is valid until the next one.
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

// Played gives the calls of a thread that have instructions. Each is valid until the next one.
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
