package replay

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// A Plan is a trace compiled into what the player runs. Its data is in the file already while the rest is still in
// memory, so that a plan of many gigabytes needs no more memory than its calls do.
type Plan struct {
	ownFiles  []ownFile // in the order of the calls
	model     *api.Model
	path      string
	dir       string
	o         *Options
	file      *os.File
	out       *bufio.Writer
	crc       uint32
	data      uint64  // bytes written
	scratch   uint64  // bytes
	sharedMem uint64  // bytes of memory that all processes share
	scale     float64 // of the recorded times, 0 where they are not kept
	untilNS   uint64
	tolerance Tolerance

	threads []program // those of one process one after the other
	procs   []planned
	lanes   []string // names of the streams
	fns     []*api.Func
	fnIndex map[api.ID]uint32
	slots   []slotInfo
	parts   spoolFile
	checks  uint64 // instructions that compare
	zeros   struct {
		size   uint64
		reason verify.Reason // for which each process marks it as unknown, "" if it does not
	}
	ops         spool[packedOperand]
	relocs      spool[reloc]
	kernels     []string          // names
	kernelIndex map[string]uint32 // number from 1
	layout      planHeader
	written     mapped // the file, once it is written

	// env is what the processes of the player begin with, by name. Each value is as long as the longest that the player
	// puts in its place.
	env map[string]string

	found findings
}

// planned is a captured process in the plan.
type planned struct {
	process      uint32 // index into the trace's processes
	first, count int    // in Plan.threads
	pid          int
	forked       bool // by opFork
	begun        bool // its first call is compiled
}

// slotInfo says what a slot will hold.
type slotInfo struct {
	what   string
	object *timeline.Object
}

// findings is what the planner has to say about a trace, for the report.
type findings struct {
	ignored      []IgnoredVariable // simulated backends only
	unverified   []Unverified
	unsupported  []Unsupported // nothing is run
	leftOut      []Unsupported // what they enclose is run
	absent       []Unsupported // known to be missing from the trace
	asked        []string      // functions that the program could have called unseen
	substituted  []Substituted
	relocated    []Relocated
	relocations  int
	ambiguous    []Ambiguous
	ambiguities  int
	volatile     uint64
	maps         []hostMap
	doubts       []Unverified // effects that the replay does not reproduce and that no single result shows
	from, to     int64
	longest      int64 // recorded call, nanoseconds
	calls        uint64
	scope        format.Scope
	cut          string // why the end of the recording is missing, "" if it is there
	deviceBlocks []deviceBlock
	because      map[verify.Reason]string // why results have a reason, if it can be said in more detail
}

// hostMap is host memory of the program that is registered for the device.
type hostMap struct {
	planMap
	recorded uint64 // address
}

// deviceBlock is an allocation of device memory whose address is compared after the run.
type deviceBlock struct {
	slot   uint32
	object *timeline.Object
	end    int64 // of the call that made it
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func createPlan(path string, m *api.Model) (*Plan, error) {
	create := atomicfile.Fresh
	if path == os.DevNull {
		create = func(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR, 0) }
	}
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(planData, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	p := &Plan{model: m, path: path, file: f, out: bufio.NewWriterSize(f, 1<<18), fnIndex: map[api.ID]uint32{}, kernelIndex: map[string]uint32{}, env: map[string]string{}}
	if path != os.DevNull {
		if p.parts.file, err = unnamed(filepath.Dir(path)); err != nil {
			f.Close()
			return nil, err
		}
	}
	p.ops.in, p.relocs.in = &p.parts, &p.parts
	return p, nil
}

func (p *Plan) write(b []byte) error {
	p.crc = crc32.Update(p.crc, castagnoli, b)
	_, err := p.out.Write(b)
	return err
}

const cacheLine = 64

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

var padding [cacheLine]byte

const dataAlign = 16

// align makes the next data begin at a multiple of dataAlign bytes and returns where.
func (p *Plan) align() (uint64, error) { return p.alignTo(dataAlign) }

// alignTo makes the next data begin at a multiple of n bytes, a power of 2 up to 64, and returns where.
func (p *Plan) alignTo(n uint64) (uint64, error) {
	if n := -p.data & (n - 1); n > 0 {
		p.data += n
		return p.data, p.write(padding[:n])
	}
	return p.data, nil
}

// put adds data and returns its offset.
func (p *Plan) put(b []byte) (uint64, error) {
	at, err := p.align()
	if err != nil {
		return 0, err
	}
	p.data += uint64(len(b))
	return at, p.write(b)
}

// share returns an operand for n bytes that all processes see.
func (p *Plan) share(n uint64) operand {
	at := (p.sharedMem + 63) &^ 63
	p.sharedMem = at + n
	return operand{Slot: slotShared, Addend: at}
}

// reserve returns the offset of n bytes of scratch memory that nothing else uses.
func (p *Plan) reserve(n uint64) uint64 {
	at := (p.scratch + 63) &^ 63
	p.scratch = at + n
	return at
}

// slot makes a new slot.
func (p *Plan) slot(what string, o *timeline.Object) uint32 {
	p.slots = append(p.slots, slotInfo{what, o})
	return uint32(len(p.slots) - 1)
}

func (p *Plan) function(f *api.Func) uint32 {
	i, ok := p.fnIndex[f.ID]
	if !ok {
		i = uint32(len(p.fns))
		p.fnIndex[f.ID] = i
		p.fns = append(p.fns, f)
	}
	return i
}

func (p *Plan) operands(ops ...operand) uint32 {
	var packed [64]packedOperand
	n := 0
	at := p.ops.count()
	for _, o := range ops {
		if packed[n] = pack(o); n+1 == len(packed) {
			p.ops.add(packed[:]...)
			n = -1
		}
		n++
	}
	p.ops.add(packed[:n]...)
	return uint32(at)
}

// kernel returns the number of a kernel's name, from 1.
func (p *Plan) kernel(name string) uint32 {
	n, ok := p.kernelIndex[name]
	if !ok {
		p.kernels = append(p.kernels, name)
		n = uint32(len(p.kernels))
		p.kernelIndex[name] = n
	}
	return n
}

// finish writes everything behind the data, and the header, and closes the file.
func (p *Plan) finish() error {
	h := &p.layout
	*h = planHeader{Version: planVersion, Data: p.data, Slots: uint64(len(p.slots)), UntilNS: p.untilNS, Zeros: p.zeros.size, ZerosReason: uint32(p.zeros.reason.Code())}
	copy(h.Magic[:], planMagic)
	h.Tolerance, h.Relative, h.Absolute = p.tolerance.kind, p.tolerance.Relative, p.tolerance.Absolute
	if p.scale > 0 {
		h.Paced = 1
	}
	var threads []planThread
	var procs []planProcess
	var fns []planFunction
	var names []byte
	for i := range p.threads {
		pr := &p.threads[i]
		n := uint64(pr.insts.count())
		threads = append(threads, planThread{First: h.Instructions.Count, Count: n, Scratch: p.reserve(pr.scratch)})
		h.Instructions.Count += n
	}
	if uint64(p.ops.count())>>32 != 0 || uint64(p.relocs.count())>>32 != 0 {
		return fmt.Errorf("the trace %w: it has too many calls for one plan", errRefused)
	}
	for _, f := range p.fns {
		how := uint32(f.Words)
		if !f.Plain() {
			how = callSpecial + uint32(f.ID)
		}
		fns = append(fns, planFunction{How: how, Name: uint32(len(names))})
		names = append(append(names, f.Symbol()...), 0)
	}
	for i := range p.procs {
		pr := &p.procs[i]
		env, err := p.environment(i)
		if err != nil {
			return err
		}
		procs = append(procs, planProcess{First: uint32(pr.first), Count: uint32(pr.count), Env: uint32(len(names)), Vars: uint32(len(env)), Forked: bit(pr.forked)})
		for _, v := range env {
			names = append(append(names, v...), 0)
			name, _, _ := strings.Cut(v, "=")
			if len(p.env[name]) < len(v) {
				p.env[name] = v
			}
		}
	}
	var reasons []uint32
	for _, r := range verify.Reasons {
		reasons = append(reasons, uint32(len(names)))
		names = append(append(names, r.Text()...), 0)
	}
	var maps []planMap
	for _, m := range p.found.maps {
		maps = append(maps, m.planMap)
	}
	var doubts []planDoubt
	for _, u := range p.found.unproved() {
		doubts = append(doubts, planDoubt{Call: u.Call, Reason: uint32(u.Code.Code()), Results: uint32(u.Results), Text: uint32(len(names))})
		names = append(append(names, u.Reason...), 0)
	}
	h.Scratch, h.Shared = p.scratch, p.sharedMem
	// Tables begin with a cache line: no instruction lies in two.
	section := func(t *table, count int, b []byte) error {
		if _, err := p.alignTo(cacheLine); err != nil {
			return err
		}
		t.Offset, t.Count = planData+p.data, uint64(count)
		p.data += uint64(len(b))
		return p.write(b)
	}
	// list is a section whose elements come in pieces.
	list := func(t *table, count, size int, each func(func([]byte) error) error) error {
		if err := section(t, count, nil); err != nil {
			return err
		}
		p.data += uint64(count) * uint64(size)
		return each(p.write)
	}
	parts := func(at int) func(func([]byte) error) error {
		var some []byte
		return func(write func([]byte) error) error {
			for i := range p.threads {
				if err := p.threads[i].insts.each(func(insts []instruction) error {
					some = some[:0]
					for k := range insts {
						some = append(some, bytesOf(insts[k : k+1])[at:at+instructionPart]...)
					}
					return write(some)
				}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, err := range []error{
		section(&h.Names, len(names), names),
		section(&h.Functions, len(fns), bytesOf(fns)),
		section(&h.Processes, len(procs), bytesOf(procs)),
		section(&h.Threads, len(threads), bytesOf(threads)),
		list(&h.Instructions, int(h.Instructions.Count), instructionPart, parts(0)),
		list(&h.Rest, int(h.Instructions.Count), instructionPart, parts(instructionPart)),
		list(&h.Ops, p.ops.count(), int(unsafe.Sizeof(packedOperand{})), func(write func([]byte) error) error {
			return p.ops.each(func(v []packedOperand) error { return write(bytesOf(v)) })
		}),
		list(&h.Relocs, p.relocs.count(), int(unsafe.Sizeof(reloc{})), func(write func([]byte) error) error {
			return p.relocs.each(func(v []reloc) error { return write(bytesOf(v)) })
		}),
		section(&h.Reasons, len(reasons), bytesOf(reasons)),
		section(&h.Doubts, len(doubts), bytesOf(doubts)),
		section(&h.Maps, len(p.found.maps), bytesOf(maps)),
		p.out.Flush(),
	} {
		if err != nil {
			return fmt.Errorf("write %s: %w", p.path, err)
		}
	}
	h.Size = planData + p.data
	h.ResThreads = 4096
	h.ResSlots = (h.ResThreads + 64*uint64(len(threads)) + 8*tokenAlign - 1) &^ (8*tokenAlign - 1)
	h.ResInstructions = (h.ResSlots + 8*h.Slots + cacheLine - 1) &^ (cacheLine - 1)
	h.ResDetails = h.ResInstructions + 32*h.Instructions.Count
	h.ResKernels = h.ResDetails + 56*max(p.checks, 1)
	h.ResBytes = h.ResKernels + kernelNames*kernelName
	page := make([]byte, planData)
	copy(page, bytesOf([]planHeader{*h}))
	h.Checksum = crc32.Update(p.crc, castagnoli, page)
	copy(page, bytesOf([]planHeader{*h}))
	if _, err := p.file.WriteAt(page, 0); err != nil {
		return fmt.Errorf("write %s: %w", p.path, err)
	}
	if err := p.file.Close(); err != nil {
		return fmt.Errorf("write %s: %w", p.path, err)
	}
	p.ops, p.relocs = spool[packedOperand]{in: &p.parts}, spool[reloc]{in: &p.parts}
	for t := range p.threads {
		p.threads[t].insts = spool[instruction]{in: &p.parts}
	}
	return p.open()
}

// Print writes the plan for people: what it needs, and every instruction of every thread.
func (p *Plan) Print(w io.Writer) error {
	b := bufio.NewWriter(w)
	report.Printf(b, "plan: %d calls, %d instructions, %d threads, %d functions, %d slots, %d bytes of data, %d of scratch\n",
		p.found.calls, p.layout.Instructions.Count, len(p.threads), len(p.fns), len(p.slots), p.layout.Data, p.scratch)
	for _, u := range p.found.unsupported {
		report.Printf(b, "unsupported: %s\n", &u)
	}
	for _, u := range p.found.leftOut {
		report.Printf(b, "left out: %s\n", &u)
	}
	for _, u := range p.found.absent {
		report.Printf(b, "absent: %s\n", &u)
	}
	for _, s := range p.found.substituted {
		report.Printf(b, "substituted: call %d %s, parameter %s: %d bytes: %s\n", s.Call, s.Func, s.Param, s.Bytes, s.Reason)
	}
	for _, u := range p.found.unverified {
		report.Printf(b, "unverified: %s\n", &u)
	}
	for t := range p.threads {
		report.Printf(b, "thread %d\n", p.threads[t].thread)
		first := -1
		for i, in := range p.instructions(t) {
			if first < 0 {
				first = i
			}
			p.printInstruction(b, i-first, in)
		}
	}
	return b.Flush()
}

func (p *Plan) printInstruction(w io.Writer, n int, in *instruction) {
	report.Printf(w, "%7d  %-5s  call %-6d ", n, opNames[in.Op], in.Call)
	op := func(i uint32) string { return p.operandText(p.written.ops[in.Operands+i].operand()) }
	switch in.Op {
	case opCall, opUntil:
		f := p.fns[in.Fn]
		var args []string
		for i := range f.Params {
			var ws []string
			for k := range f.Params[i].Words {
				ws = append(ws, op(uint32(f.Params[i].Word+k)))
			}
			args = append(args, f.Params[i].Name+"="+strings.Join(ws, ","))
		}
		report.Printf(w, "%s(%s)", f.Name, strings.Join(args, ", "))
		if in.Op == opUntil && in.Width > 0 {
			report.Printf(w, " until %s is %d", op(uint32(in.Words)), in.Len)
		}
		if in.RetSlot != 0 {
			report.Printf(w, " -> slot %d", in.RetSlot)
		}
		if in.Bits != 0 {
			report.Printf(w, " = %s", returned(f, p.model, in.Want))
		}
	case opStore, opCheck:
		report.Printf(w, "%s, %d bytes", op(0), in.Len)
		if in.Width != in.Len {
			report.Printf(w, " in rows of %d at distance %d", in.Width, p.written.ops[in.Operands+2].operand().Addend)
		}
		report.Printf(w, " with %s", op(1))
	case opTake:
		report.Printf(w, "%s with descriptor %s of process %s", op(0), op(2), op(1))
	case opMark:
		report.Printf(w, "%s, %d bytes: %s", op(0), in.Len, verify.ByCode(in.Bits))
	case opFork:
		report.Printf(w, "process %d", p.procs[in.Fn].pid)
	case opPlace:
		report.Printf(w, "%s", op(0))
	case opWait:
		report.Printf(w, "thread %d, instruction %d", p.threads[in.Fn].thread, in.Want)
	}
	if in.NRelocs > 0 {
		report.Printf(w, "  [")
		for i, r := range p.written.relocs[in.Relocs:][:in.NRelocs] {
			if i == 8 {
				report.Printf(w, " and %d more", int(in.NRelocs)-i)
				break
			}
			if i > 0 {
				report.Printf(w, " ")
			}
			report.Printf(w, "data+%#x:%s", r.At, p.operandText(operand{Addend: r.Addend, Slot: r.Slot}))
		}
		report.Printf(w, "]")
	}
	report.Printf(w, "\n")
}

func (p *Plan) operandText(o operand) string {
	plus := ""
	if o.Addend != 0 {
		plus = fmt.Sprintf("+%#x", o.Addend)
	}
	switch {
	case o.Slot == slotZero:
		return fmt.Sprintf("%#x", o.Addend)
	case o.Slot == slotSlots:
		return fmt.Sprintf("&slot %d", o.Addend/8)
	}
	return p.slots[o.Slot].what + plus
}

// returned is the text of a returned value.
func returned(f *api.Func, m *api.Model, v uint64) string {
	if f.RetError {
		return m.ErrorName(int64(int32(v)))
	}
	return fmt.Sprintf("%#x", v)
}

// missingFunctions are those that the library lacks, in a report.
func (p *Plan) missingFunctions(names []string) []Unsupported {
	calls, first := map[string]int{}, map[string]uint64{}
	for t := range p.threads {
		for _, in := range p.instructions(t) {
			if !in.calls() {
				continue
			}
			n := p.fns[in.Fn].Name
			if calls[n] == 0 || in.Call < first[n] {
				first[n] = in.Call
			}
			calls[n]++
		}
	}
	var us []Unsupported
	for _, n := range names {
		us = append(us, Unsupported{Func: n, Calls: calls[n], Call: first[n], Reason: "the library does not have it"})
	}
	return us
}

// failed reports whether a call has returned an error.
func failed(f *api.Func, c *format.Call) bool { return f.RetError && uint32(c.Ret) != 0 }
