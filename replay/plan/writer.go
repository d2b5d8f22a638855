package plan

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/atomicfile"
)

// A Writer writes a plan. Data goes to the file at once, the other lists to a temporary one until Finish.
type Writer struct {
	path    string
	file    *os.File
	out     *bufio.Writer
	crc     uint32
	size    uint64 // bytes of data written
	scratch uint64 // bytes
	shared  uint64 // bytes of memory that all processes share

	parts   spoolFile
	ops     spool[packedOperand]
	relocs  spool[Reloc]
	threads []*ThreadWriter
	checks  uint64 // instructions that compare

	funcs     []*api.Func
	funcIndex map[api.ID]uint32
	kernels   []string
	kernel    map[string]uint32 // number from 1
	names     []byte
}

// A ThreadWriter takes the instructions of one captured thread, in their order.
type ThreadWriter struct {
	Scratch uint64 // bytes of the thread's own scratch memory; set before Finish
	w       *Writer
	insts   spool[Instruction]
	calls   spool[PlayedCall]
}

var errStop = errors.New("stop")

// ErrTooLarge is the error of Finish about a plan with more operands or relocations than an instruction can number.
var ErrTooLarge = errors.New("it has too many calls for one plan")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Create begins a plan. With os.DevNull as the path nothing is written: the plan can't be finished.
func Create(path string) (*Writer, error) {
	create := atomicfile.Fresh
	if path == os.DevNull {
		create = func(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) }
	}
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: f, out: bufio.NewWriterSize(f, 1<<18), funcIndex: map[api.ID]uint32{}, kernel: map[string]uint32{}}
	if path != os.DevNull {
		if _, err = f.Seek(dataAt, io.SeekStart); err == nil {
			err = w.parts.create(filepath.Dir(path))
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	w.ops.in, w.relocs.in = &w.parts, &w.parts
	return w, nil
}

// Close ends a plan that is not to be finished.
func (w *Writer) Close() error { return errors.Join(w.file.Close(), w.parts.close()) }

// Thread adds a thread.
func (w *Writer) Thread() *ThreadWriter {
	t := &ThreadWriter{w: w, insts: spool[Instruction]{in: &w.parts}, calls: spool[PlayedCall]{in: &w.parts}}
	w.threads = append(w.threads, t)
	return t
}

// Count returns the number of instructions so far.
func (t *ThreadWriter) Count() int { return t.insts.count() }

// Add appends instructions and returns the number of the first one.
func (t *ThreadWriter) Add(insts ...Instruction) int {
	for i := range insts {
		if insts[i].Op == OpCheck {
			t.w.checks++
		}
	}
	return t.insts.add(insts...)
}

// At returns an instruction by its number in the thread.
func (t *ThreadWriter) At(i int) Instruction { return t.insts.at(i) }

// Set replaces an instruction.
func (t *ThreadWriter) Set(i int, in Instruction) { t.insts.set(i, in) }

// Play notes a call for reports.
func (t *ThreadWriter) Play(c PlayedCall) { t.calls.add(c) }

// Write adds data without alignment.
func (w *Writer) Write(b []byte) error {
	w.crc = crc32.Update(w.crc, castagnoli, b)
	w.size += uint64(len(b))
	_, err := w.out.Write(b)
	return err
}

// DataAlign is the number of bytes that Align and Put align data to.
const DataAlign = 16

const cacheLine = 64

var padding [cacheLine]byte

// Align makes the next data begin at a multiple of 16 bytes and returns where.
func (w *Writer) Align() (uint64, error) { return w.alignTo(DataAlign) }

func (w *Writer) alignTo(n uint64) (uint64, error) {
	if pad := -w.size & (n - 1); pad > 0 {
		if err := w.Write(padding[:pad]); err != nil {
			return 0, err
		}
	}
	return w.size, nil
}

// Put adds aligned data and returns its offset.
func (w *Writer) Put(b []byte) (uint64, error) {
	at, err := w.Align()
	if err != nil {
		return 0, err
	}
	return at, w.Write(b)
}

// Share returns an operand for n bytes that all processes see.
func (w *Writer) Share(n uint64) Operand {
	at := (w.shared + 63) &^ 63
	w.shared = at + n
	return Operand{Slot: SlotShared, Addend: at}
}

// Reserve returns the offset of n bytes of scratch memory that nothing else uses.
func (w *Writer) Reserve(n uint64) uint64 {
	at := (w.scratch + 63) &^ 63
	w.scratch = at + n
	return at
}

// Scratch returns how many bytes of scratch memory are reserved.
func (w *Writer) Scratch() uint64 { return w.scratch }

// Function returns the number of a function of the runtime.
func (w *Writer) Function(f *api.Func) uint32 {
	i, ok := w.funcIndex[f.ID]
	if !ok {
		i = uint32(len(w.funcs))
		w.funcIndex[f.ID] = i
		w.funcs = append(w.funcs, f)
	}
	return i
}

// Kernel returns the number of a kernel's name, from 1.
func (w *Writer) Kernel(name string) uint32 {
	n, ok := w.kernel[name]
	if !ok {
		w.kernels = append(w.kernels, name)
		n = uint32(len(w.kernels))
		w.kernel[name] = n
	}
	return n
}

// Name returns the place of a string among the names.
func (w *Writer) Name(s string) uint32 {
	at := uint32(len(w.names))
	w.names = append(append(w.names, s...), 0)
	return at
}

// Operands adds operands and returns the number of the first one.
func (w *Writer) Operands(ops ...Operand) uint32 {
	var packed [64]packedOperand
	at := w.ops.count()
	for len(ops) > 0 {
		n := min(len(ops), len(packed))
		for i, o := range ops[:n] {
			packed[i] = pack(o)
		}
		w.ops.add(packed[:n]...)
		ops = ops[n:]
	}
	return uint32(at)
}

// Operand returns an operand by its number.
func (w *Writer) Operand(i uint32) Operand { return w.ops.at(int(i)).operand() }

// SetOperand replaces an operand.
func (w *Writer) SetOperand(i uint32, o Operand) { w.ops.set(int(i), pack(o)) }

// Relocs adds relocations and returns the number of the first one. It sets sizes that are 0 to 8.
func (w *Writer) Relocs(rs ...Reloc) uint32 {
	for i := range rs {
		if rs[i].Size == 0 {
			rs[i].Size = 8
		}
	}
	return uint32(w.relocs.add(rs...))
}

// Reloc returns a relocation by its number.
func (w *Writer) Reloc(i int) Reloc { return w.relocs.at(i) }

// SetReloc replaces a relocation.
func (w *Writer) SetReloc(i int, r Reloc) { w.relocs.set(i, r) }

// Err is the first error of the lists, whose functions return none.
func (w *Writer) Err() error { return w.parts.err }

// Tables are the short lists of a plan, which are complete only at its end.
type Tables struct {
	Processes []Process
	Reasons   []uint32 // names of the reasons
	Doubts    []Doubt
	Maps      []Map
}

// Finish writes everything after the data, and the header, and closes the file. The fields of h about the run are set by the caller: the
// number of slots, times, tolerance and zeros.
func (w *Writer) Finish(h *Header, t *Tables) (*File, error) {
	if uint64(w.ops.count())>>32 != 0 || uint64(w.relocs.count())>>32 != 0 {
		return nil, ErrTooLarge
	}
	copy(h.Magic[:], magic)
	h.Version, h.Data = version, w.size
	var threads []Thread
	for _, tw := range w.threads {
		n := uint64(tw.insts.count())
		threads = append(threads, Thread{First: h.Instructions.Count, Count: n, Scratch: w.Reserve(tw.Scratch)})
		h.Instructions.Count += n
	}
	h.Scratch, h.Shared = w.scratch, w.shared
	if err := w.tables(h, t, threads); err != nil {
		return nil, fmt.Errorf("write %s: %w", w.path, err)
	}
	w.placeResults(h)
	if err := w.header(h); err != nil {
		return nil, fmt.Errorf("write %s: %w", w.path, err)
	}
	f, err := open(w.path, h)
	if err != nil {
		return nil, err
	}
	f.Funcs, f.Kernels, f.written, f.parts = w.funcs, w.kernels, w.threads, &w.parts
	return f, nil
}

// tables writes all tables.
func (w *Writer) tables(h *Header, t *Tables, threads []Thread) error {
	var fns []Function
	for _, f := range w.funcs {
		how := uint32(f.Words)
		if !f.Plain() {
			how = callSpecial + uint32(f.ID)
		}
		fns = append(fns, Function{How: how, Name: w.Name(f.Symbol())})
	}
	n := int(h.Instructions.Count)
	return cmpOr(
		func() error { return w.section(&h.Names, len(w.names), w.names) },
		func() error { return w.section(&h.Functions, len(fns), Bytes(fns)) },
		func() error { return w.section(&h.Processes, len(t.Processes), Bytes(t.Processes)) },
		func() error { return w.section(&h.Threads, len(threads), Bytes(threads)) },
		func() error { return w.instructions(&h.Instructions, n, 0) },
		func() error { return w.instructions(&h.Rest, n, instructionPart) },
		func() error { return list(w, &h.Ops, &w.ops) },
		func() error { return list(w, &h.Relocs, &w.relocs) },
		func() error { return w.section(&h.Reasons, len(t.Reasons), Bytes(t.Reasons)) },
		func() error { return w.section(&h.Doubts, len(t.Doubts), Bytes(t.Doubts)) },
		func() error { return w.section(&h.Maps, len(t.Maps), Bytes(t.Maps)) },
		w.out.Flush,
	)
}

// cmpOr calls functions until one fails.
func cmpOr(fs ...func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// section writes a table. It begins with a cache line, so that no instruction lies in two.
func (w *Writer) section(t *table, count int, b []byte) error {
	at, err := w.alignTo(cacheLine)
	if err != nil {
		return err
	}
	t.Offset, t.Count = dataAt+at, uint64(count)
	return w.Write(b)
}

func list[T any](w *Writer, t *table, s *spool[T]) error {
	if err := w.section(t, s.count(), nil); err != nil {
		return err
	}
	return s.each(func(some []T) error { return w.Write(Bytes(some)) })
}

// instructions writes one of their two tables.
func (w *Writer) instructions(t *table, count, part int) error {
	if err := w.section(t, count, nil); err != nil {
		return err
	}
	var b []byte
	for _, tw := range w.threads {
		if err := tw.insts.each(func(insts []Instruction) error {
			b = b[:0]
			for k := range insts {
				b = append(b, Bytes(insts[k : k+1])[part:part+instructionPart]...)
			}
			return w.Write(b)
		}); err != nil {
			return err
		}
	}
	return nil
}

// placeResults says where the results of a run are in their file.
func (w *Writer) placeResults(h *Header) {
	const slots = 8 * SlotAlign
	h.Size = dataAt + w.size
	h.ResThreads = uint64(unsafe.Sizeof(ResultHeader{}))
	h.ResSlots = (h.ResThreads + uint64(unsafe.Sizeof(ResultThread{}))*h.Threads.Count + slots - 1) &^ (slots - 1)
	h.ResInstructions = (h.ResSlots + 8*h.Slots + cacheLine - 1) &^ (cacheLine - 1)
	h.ResDetails = h.ResInstructions + uint64(unsafe.Sizeof(Result{}))*h.Instructions.Count
	h.ResKernels = h.ResDetails + uint64(unsafe.Sizeof(Detail{}))*max(w.checks, 1)
	h.ResBytes = h.ResKernels + KernelNames*KernelName
}

// header writes the first page, and closes the file.
func (w *Writer) header(h *Header) error {
	page := make([]byte, dataAt)
	copy(page, Bytes([]Header{*h}))
	h.Checksum = crc32.Update(w.crc, castagnoli, page)
	copy(page, Bytes([]Header{*h}))
	if _, err := w.file.WriteAt(page, 0); err != nil {
		return err
	}
	return w.file.Close()
}

// Number returns up to eight bytes as a number, as the player stores it.
func Number(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}
