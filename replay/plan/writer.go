package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/atomicfile"
)

// A Writer writes a plan. Data, operands, relocations and instructions go to the file in extents, as they come.
type Writer struct {
	path      string
	plan      spoolFile
	data      spool[byte]
	scratch   uint64 // bytes
	shared    uint64 // bytes that all processes share
	ops       sharedSpool[packedOperand]
	packed    []packedOperand // the last operands
	relocs    sharedSpool[Reloc]
	templates sharedSpool[template]
	template  [1]template // the last one
	threads   []*ThreadWriter
	checks    uint64 // comparing instructions
	last      uint64 // highest call number

	index     []byte // written after all extents
	funcs     []*api.Func
	funcIndex []uint32 // by api.ID: number from 1, 0 for a function not in funcs
	kernels   []string
	kernel    map[string]uint32 // number from 1
	names     []byte
}

// A ThreadWriter takes one captured thread's instructions, in order.
type ThreadWriter struct {
	Scratch uint64 // scratch memory, bytes; set before Finish
	w       *Writer
	rows    spool[row]
}

// ErrTooLarge is returned by Finish for a plan with 2^32 calls, operands or relocations, or 64 GiB of data.
var ErrTooLarge = errors.New("it has too many calls for one plan")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Create begins a plan.
func Create(path string) (*Writer, error) {
	f, err := atomicfile.Fresh(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, plan: spoolFile{file: f, size: headerSize}, kernel: map[string]uint32{}}
	w.data.in, w.ops.in, w.relocs.in, w.templates.in = &w.plan, &w.plan, &w.plan, &w.plan
	w.relocs.add(Reloc{}) // number 0 stands for no list
	return w, nil
}

// Close ends a plan without Finish.
func (w *Writer) Close() error { return w.plan.file.Close() }

// Thread adds a thread.
func (w *Writer) Thread() *ThreadWriter {
	t := &ThreadWriter{w: w}
	t.rows.in = &w.plan
	w.threads = append(w.threads, t)
	return t
}

// Count returns the instruction count so far.
func (t *ThreadWriter) Count() int { return t.rows.count() }

// Add appends instructions and returns the first one's number.
func (t *ThreadWriter) Add(insts ...Instruction) int {
	n := t.rows.count()
	for i := range insts {
		in := &insts[i]
		if in.Op == OpCheck {
			t.w.checks++
		}
		t.w.last = max(t.w.last, in.Call)
		t.rows.push(t.w.row(in))
	}
	return n
}

// row returns an instruction's row, and stores its template.
func (w *Writer) row(in *Instruction) row {
	w.template[0] = in.template()
	n := w.templates.share(w.template[:], mix(uint64(in.Operands), uint64(in.Flags)))
	return row{uint32(n), in.Base, in.Relocs, uint32(in.Call), in.At, in.Dur}
}

// At returns an instruction by its number in the thread.
func (t *ThreadWriter) At(i int) Instruction {
	r := t.rows.at(i)
	of := t.w.templates.at(int(r.Template))
	return r.instruction(&of)
}

// Set replaces an instruction.
func (t *ThreadWriter) Set(i int, in Instruction) { t.rows.set(i, t.w.row(&in)) }

// Write adds data without alignment.
func (w *Writer) Write(b []byte) error {
	for len(b) > 0 {
		b = b[copy(w.data.next(len(b)), b):]
	}
	return w.plan.err
}

// DataAlign is the alignment for Align and Put, in bytes.
const DataAlign = 16

var padding [DataAlign]byte

// Aligned returns the offset of the data that Align or Put adds next.
func (w *Writer) Aligned() uint64 { return uint64(w.data.count()+DataAlign-1) &^ (DataAlign - 1) }

// Align pads the data to DataAlign and returns the next offset.
func (w *Writer) Align() (uint64, error) {
	err := w.Write(padding[:-w.data.count()&(DataAlign-1)])
	return uint64(w.data.count()), err
}

// Put adds aligned data and returns its offset.
func (w *Writer) Put(b []byte) (uint64, error) {
	pad := -w.data.count() & (DataAlign - 1)
	if room := w.data.room(pad + len(b)); room != nil { // nearly always
		copy(room[copy(room, padding[:pad]):], b)
		return uint64(w.data.count() - len(b)), w.plan.err
	}
	at, err := w.Align()
	if err != nil {
		return 0, err
	}
	return at, w.Write(b)
}

// DataFrom returns a copy of the data from an offset to the end.
func (w *Writer) DataFrom(at uint64) []byte {
	if at >= uint64(w.data.count()) {
		return nil
	}
	return w.data.from(int(at))
}

// Share returns an operand for n bytes shared by all processes.
func (w *Writer) Share(n uint64) Operand {
	at := (w.shared + 63) &^ 63
	w.shared = at + n
	return Operand{Slot: SlotShared, Addend: at}
}

// Reserve returns the offset for n new bytes in scratch memory.
func (w *Writer) Reserve(n uint64) uint64 {
	at := (w.scratch + 63) &^ 63
	w.scratch = at + n
	return at
}

// Function returns the number for a runtime function.
func (w *Writer) Function(f *api.Func) uint32 {
	if int(f.ID) >= len(w.funcIndex) {
		w.funcIndex = append(w.funcIndex, make([]uint32, int(f.ID)+1-len(w.funcIndex))...)
	}
	n := &w.funcIndex[f.ID]
	if *n == 0 {
		w.funcs = append(w.funcs, f)
		*n = uint32(len(w.funcs))
	}
	return *n - 1
}

// Kernel returns the number for a kernel name, from 1.
func (w *Writer) Kernel(name string) uint32 {
	n, ok := w.kernel[name]
	if !ok {
		w.kernels = append(w.kernels, name)
		n = uint32(len(w.kernels))
		w.kernel[name] = n
	}
	return n
}

// Name adds a name and returns its offset.
func (w *Writer) Name(s string) uint32 {
	at := uint32(len(w.names))
	w.names = append(append(w.names, s...), 0)
	return at
}

// Operands returns the first one's number in a list of operands.
func (w *Writer) Operands(ops ...Operand) uint32 { return uint32(w.ops.share(w.pack(ops))) }

// OwnOperands is Operands for a list that SetOperand may change.
func (w *Writer) OwnOperands(ops ...Operand) uint32 {
	packed, _ := w.pack(ops)
	return uint32(w.ops.add(packed...))
}

// pack returns operands as in the file, with a hash.
func (w *Writer) pack(ops []Operand) (packed []packedOperand, hash uint64) {
	packed = slices.Grow(w.packed[:0], len(ops))[:len(ops)]
	w.packed = packed
	for i, o := range ops {
		packed[i] = pack(o)
		hash = mix(hash, o.Addend+uint64(o.Slot)<<40)
	}
	return packed, hash
}

// Operand returns an operand by its number.
func (w *Writer) Operand(i uint32) Operand { return w.ops.at(int(i)).operand() }

// SetOperand replaces an operand.
func (w *Writer) SetOperand(i uint32, o Operand) { w.ops.set(int(i), pack(o)) }

// Relocs returns the first one's number in a list of relocations, 0 for an empty list. It sets the sizes that are 0 to 8.
func (w *Writer) Relocs(rs ...Reloc) uint32 {
	if len(rs) == 0 {
		return 0
	}
	return uint32(w.relocs.share(list(rs)))
}

// OwnRelocs is Relocs for a list that SetReloc may change.
func (w *Writer) OwnRelocs(rs ...Reloc) uint32 {
	list(rs)
	return uint32(w.relocs.add(rs...))
}

// list completes relocations and returns them with a hash.
func list(rs []Reloc) (all []Reloc, hash uint64) {
	for i := range rs {
		r := &rs[i]
		if r.Size == 0 {
			r.Size = 8
		}
		hash = mix(hash, r.At<<32+r.Addend+uint64(r.Slot)<<16)
	}
	rs[len(rs)-1].Flags |= RelocLast
	return rs, hash
}

// Reloc returns a relocation by its number.
func (w *Writer) Reloc(i int) Reloc { return w.relocs.at(i) }

// SetReloc replaces a relocation.
func (w *Writer) SetReloc(i int, r Reloc) { w.relocs.set(i, r) }

// Err returns the first error from methods that return none.
func (w *Writer) Err() error { return w.plan.err }

// Tables are the short tables, complete at the end of compilation.
type Tables struct {
	Processes []Process
	Reasons   []uint32 // name offsets
	Doubts    []Doubt
	Maps      []Map
	Blocks    []Block // if some result depends on their addresses
	Faults    []int32 // see InstLate
}

// Finish writes the remaining lists, the index and the header, and closes the file. The caller sets the fields of h about the run: number
// of slots, times, tolerance and zeros.
func (w *Writer) Finish(h *Header, t *Tables) (*File, error) {
	if (w.last|uint64(w.ops.count())|uint64(w.relocs.count())|uint64(w.data.count())/DataAlign)>>32 != 0 {
		return nil, ErrTooLarge
	}
	copy(h.Magic[:], magic)
	h.Version, h.Data = version, uint64(w.data.count())
	var threads []Thread
	var rows []extent
	instructions := uint64(0) // with the padding after each thread
	for _, tw := range w.threads {
		threads = append(threads, Thread{First: instructions, Count: uint64(tw.Count()), Scratch: w.Reserve(tw.Scratch)})
		for _, e := range tw.rows.finish() {
			rows, instructions = append(rows, e), instructions+e.Size/uint64(elemSize[row]())
		}
	}
	h.Scratch, h.Shared, h.Instructions = w.scratch, w.shared, instructions
	section(w, &h.DataExtents, w.data.finish())
	section(w, &h.Rows, rows)
	section(w, &h.Templates, w.templates.finish())
	section(w, &h.Ops, w.ops.finish())
	section(w, &h.Relocs, w.relocs.finish())
	w.tables(h, t, threads)
	h.Index = uint64(w.plan.size)
	w.plan.write(w.index, w.plan.size)
	w.placeResults(h)
	w.header(h)
	if err := errors.Join(w.Err(), w.plan.file.Close()); err != nil {
		return nil, fmt.Errorf("write %s: %w", w.path, err)
	}
	f, err := open(w.path, h)
	if err != nil {
		return nil, err
	}
	f.Funcs, f.Kernels = w.funcs, w.kernels
	return f, nil
}

// tables adds the short tables to the index.
func (w *Writer) tables(h *Header, t *Tables, threads []Thread) {
	var fns []Function
	for _, f := range w.funcs {
		how := uint32(f.Words)
		if !f.Plain() {
			how = callSpecial + uint32(f.ID)
		}
		fns = append(fns, Function{How: how, Name: w.Name(f.Symbol())})
	}
	section(w, &h.Functions, fns)
	section(w, &h.Processes, t.Processes)
	section(w, &h.Threads, threads)
	section(w, &h.Reasons, t.Reasons)
	section(w, &h.Doubts, t.Doubts)
	section(w, &h.Maps, t.Maps)
	section(w, &h.Blocks, t.Blocks)
	section(w, &h.Faults, t.Faults)
	section(w, &h.Names, w.names)
}

// section adds a table to the index.
func section[T any](w *Writer, t *table, rows []T) {
	const align = 8
	w.index = append(w.index, padding[:-len(w.index)&(align-1)]...)
	t.Offset, t.Count = uint64(len(w.index)), uint64(len(rows))
	w.index = append(w.index, Bytes(rows)...)
}

// placeResults lays out the results file.
func (w *Writer) placeResults(h *Header) {
	const slots, cacheLine = 8 * SlotAlign, 64
	h.Size = h.Index + uint64(len(w.index))
	h.ResThreads = uint64(unsafe.Sizeof(ResultHeader{}))
	h.ResSlots = (h.ResThreads + uint64(unsafe.Sizeof(ResultThread{}))*h.Threads.Count + slots - 1) &^ (slots - 1)
	h.ResInstructions = (h.ResSlots + 8*h.Slots + cacheLine - 1) &^ (cacheLine - 1)
	h.ResDetails = h.ResInstructions + uint64(unsafe.Sizeof(Result{}))*h.Instructions
	h.ResKernels = h.ResDetails + uint64(unsafe.Sizeof(Detail{}))*max(w.checks, 1)
	h.ResBytes = h.ResKernels + KernelNames*KernelName
}

// header writes the first page.
func (w *Writer) header(h *Header) {
	page := make([]byte, headerSize)
	copy(page, Bytes([]Header{*h}))
	h.Checksum = crc32.Update(crc32.Checksum(w.index, castagnoli), castagnoli, page)
	copy(page, Bytes([]Header{*h}))
	w.plan.write(page, 0)
}

// Number returns up to eight bytes as a little-endian number.
func Number(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}
