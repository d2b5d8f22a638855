package replay

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

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
	ops     []operand
	relocs  []reloc
	layout  planHeader

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
}

// program is the part of one captured thread: its calls in order, and after layOut its instructions.
type program struct {
	thread  uint32 // index into the trace's threads
	tid     int
	process int // index into Plan.procs
	groups  []group
	scratch uint64 // bytes of its own scratch memory
	insts   []instruction
}

// A group is what becomes of one call: what is stored before it, the call, and what is compared after it.
type group struct {
	call       uint64
	fn         *api.Func
	start, end int64
	stream     int    // index into Plan.lanes, -1 for none
	names      uint64 // number of the stream of a wait or of the record of an event
	event      uint64 // handle of the event of either
	unready    bool   // it asked, and was told that not all is complete
	on         uint64 // number of the stream that its task goes to
	kernel     string // that it launches, "" for none
	insts      []instruction
	waits      []place       // before the group
	late       []instruction // results of earlier copies that are complete after this call
	lateWaits  []place       // before those
	poll       pollKey
}

// place is a group of a thread: in a list of waits, one that must have been played.
type place struct{ thread, group int }

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
	return &Plan{model: m, path: path, file: f, out: bufio.NewWriterSize(f, 1<<18), fnIndex: map[api.ID]uint32{}, env: map[string]string{}}, nil
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
	at := uint32(len(p.ops))
	p.ops = append(p.ops, ops...)
	return at
}

// layOut turns the groups into instructions, once all of them are known, since an edge needs the place of its other end.
func (p *Plan) layOut() {
	if p.o.Backend == Null {
		p.calm()
	}
	p.clock()
	// Instructions up to the end of a group. The comparisons with late results belong to it: whoever waits for the call
	// that the program waited with may overwrite them next.
	ends := make([][]uint64, len(p.threads))
	for t := range p.threads {
		ends[t] = make([]uint64, len(p.threads[t].groups))
		n := uint64(0)
		for i := range p.threads[t].groups {
			g := &p.threads[t].groups[i]
			n += uint64(len(g.waits) + len(g.insts) + len(g.lateWaits) + len(g.late))
			ends[t][i] = n
		}
		p.enclose(p.threads[t].groups, ends[t])
	}
	for t := range p.threads {
		pr := &p.threads[t]
		for i := range pr.groups {
			g := &pr.groups[i]
			wait := func(edges []place) {
				for _, e := range edges {
					pr.insts = append(pr.insts, instruction{Op: opWait, Fn: uint32(e.thread), Want: ends[e.thread][e.group], Call: g.call})
				}
			}
			wait(g.waits)
			for k := range g.insts {
				if in := &g.insts[k]; in.calls() {
					in.At = uint64(float64(max(g.start-p.found.from, 0)) * p.scale)
				}
			}
			pr.insts = append(pr.insts, g.insts...)
			wait(g.lateWaits)
			pr.insts = append(pr.insts, g.late...)
		}
	}
}

// calm takes out of the groups what needs more of a call than that it returns: comparisons, and stores to memory that calls
// were to make, or of what lies there.
func (p *Plan) calm() {
	made := p.processID(len(p.procs)) // the first slot that calls fill
	idle := func(in instruction) bool {
		return in.Op == opCheck || in.Op == opTake || in.Op == opMark || in.Op == opStore && max(p.ops[in.Operands].Slot, p.ops[in.Operands+1].Slot) >= made
	}
	for t := range p.threads {
		for i := range p.threads[t].groups {
			g := &p.threads[t].groups[i]
			g.insts, g.late = slices.DeleteFunc(g.insts, idle), slices.DeleteFunc(g.late, idle)
			for k := range g.insts {
				if in := &g.insts[k]; in.calls() {
					in.Op, in.Flags, in.Bits, in.Len, in.Width = opCall, in.Flags&^instStop, 0, 0, 0
				}
			}
		}
	}
}

// enclose has calls that were made in a function of the program's, which a call of the same thread ran, made in the
// stub that it runs again.
func (p *Plan) enclose(gs []group, ends []uint64) {
	for i := len(gs) - 1; i >= 0; i-- {
		g := &gs[i]
		last := i
		for last+1 < len(gs) && gs[last+1].start < g.end {
			last++
		}
		if g.fn == nil || !g.fn.PollsCallbacks || last == i || len(g.insts) == 0 || g.insts[len(g.insts)-1].Op != opUntil {
			continue
		}
		g.insts[len(g.insts)-1].Len = ends[last] - ends[i]
		ends[i] = ends[last] // they are finished together
	}
}

// clock says where the player reads its clock, which takes longer than all else that it does for a call: around calls that
// wait, where times of the report begin and end, and around every call where the pace is kept.
func (p *Plan) clock() {
	all := p.scale > 0
	for t := range p.threads {
		gs := p.threads[t].groups
		first, last := map[int]bool{}, map[int]*instruction{}
		mark := func(flags uint8, in *instruction) {
			if in != nil {
				in.Flags |= flags
			}
		}
		for i := range gs {
			g := &gs[i]
			k := slices.IndexFunc(g.insts, func(in instruction) bool { return in.calls() && in.Flags&instAside == 0 })
			if k < 0 {
				continue
			}
			in := &g.insts[k]
			switch {
			case all:
				mark(instEnd, in)
			case g.fn.Sync != api.NoSync, g.kernel != "" && p.o.Repeat > 1, len(first) == 0:
				mark(instStart|instEnd, in)
			}
			if !first[g.stream] {
				mark(instStart, in)
			}
			first[g.stream], first[-1] = true, true
			last[g.stream], last[-1] = in, in
		}
		for _, in := range last {
			mark(instEnd, in)
		}
	}
}

// finish writes everything behind the data, and the header, and closes the file.
func (p *Plan) finish() error {
	p.layOut()
	h := &p.layout
	*h = planHeader{Version: planVersion, Data: p.data, Slots: uint64(len(p.slots)), UntilNS: p.untilNS}
	copy(h.Magic[:], planMagic)
	h.Tolerance, h.Relative, h.Absolute = p.tolerance.kind, p.tolerance.Relative, p.tolerance.Absolute
	if p.scale > 0 {
		h.Paced = 1
	}
	var threads []planThread
	var procs []planProcess
	var fns []planFunction
	var names []byte
	for i := range p.relocs {
		if p.relocs[i].Size == 0 {
			p.relocs[i].Size = 8
		}
	}
	checks := uint64(0)
	for i := range p.threads {
		pr := &p.threads[i]
		threads = append(threads, planThread{First: h.Instructions.Count, Count: uint64(len(pr.insts)), Scratch: p.reserve(pr.scratch)})
		h.Instructions.Count += uint64(len(pr.insts))
		for k := range pr.insts {
			if pr.insts[k].Op == opCheck {
				checks++
			}
		}
	}
	if uint64(len(p.ops))>>32 != 0 || uint64(len(p.relocs))>>32 != 0 {
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
	parts := func(at int) []byte {
		b := make([]byte, 0, instructionPart*int(h.Instructions.Count))
		for i := range p.threads {
			for all := bytesOf(p.threads[i].insts); len(all) > 0; all = all[2*instructionPart:] {
				b = append(b, all[at:at+instructionPart]...)
			}
		}
		return b
	}
	ops := make([]byte, 0, operandSize*len(p.ops))
	for _, o := range p.ops {
		ops = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(ops, o.Slot), o.Addend)
	}
	for _, err := range []error{
		section(&h.Names, len(names), names),
		section(&h.Functions, len(fns), bytesOf(fns)),
		section(&h.Processes, len(procs), bytesOf(procs)),
		section(&h.Threads, len(threads), bytesOf(threads)),
		section(&h.Instructions, int(h.Instructions.Count), parts(0)),
		section(&h.Rest, int(h.Instructions.Count), parts(instructionPart)),
		section(&h.Ops, len(p.ops), ops),
		section(&h.Relocs, len(p.relocs), bytesOf(p.relocs)),
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
	h.ResKernels = h.ResDetails + 56*max(checks, 1)
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
	return nil
}

// Print writes the plan for people: what it needs, and every instruction of every thread.
func (p *Plan) Print(w io.Writer) error {
	b := bufio.NewWriter(w)
	instructions := 0
	for i := range p.threads {
		instructions += len(p.threads[i].insts)
	}
	report.Printf(b, "plan: %d calls, %d instructions, %d threads, %d functions, %d slots, %d bytes of data, %d of scratch\n",
		p.found.calls, instructions, len(p.threads), len(p.fns), len(p.slots), p.layout.Data, p.scratch)
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
		for i := range p.threads[t].insts {
			p.printInstruction(b, i, &p.threads[t].insts[i])
		}
	}
	return b.Flush()
}

func (p *Plan) printInstruction(w io.Writer, n int, in *instruction) {
	report.Printf(w, "%7d  %-5s  call %-6d ", n, opNames[in.Op], in.Call)
	op := func(i uint32) string { return p.operandText(p.ops[in.Operands+i]) }
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
			report.Printf(w, " in rows of %d at distance %d", in.Width, p.ops[in.Operands+2].Addend)
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
		for i, r := range p.relocs[in.Relocs:][:in.NRelocs] {
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
		for _, in := range p.threads[t].insts {
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
