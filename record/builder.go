package record

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record/host"
)

// builder turns what a probe sees into the rows of a trace. Payloads come apart from their calls, in parts, and some
// long after them; it finds the call that each belongs to.
type builder struct {
	model    *api.Model
	seg      *segment // that is written to
	origin   int64    // CLOCK_MONOTONIC of the trace's time 0
	hashOnly bool
	maxSize  int64 // bytes of the file, 0 for any; payloads end at nine tenths of it
	cut      bool  // payloads have ended
	threads  map[threadKey]*thread
	procs    map[int]uint32
	parts    map[partKey]*part
	ahead    map[callKey][]probe.Payload // parts that came before their call
	times    *taskTimes
	given    map[int][]given // memory whose address does not tell what it is, by process, in ascending order
	gives    []bool          // by function: whether it gives out memory or takes it back
	apart    [][]int         // by function: the parameters of which payloads may come after the call

	row       format.Call // of the call at hand, kept for its memory
	recent    *thread     // of the call before, with its key
	recentKey threadKey

	calls, failed, unfinished, lost uint64
	nested                          uint64                   // of the lost ones, those made inside other calls
	early                           uint64                   // payloads that may not be what was copied
	payloadNS                       int64                    // of the program's threads, for hashing and copying payloads
	copies                          format.RecordedCopies    // their part of it
	visible                         bool                     // the probe records memory that programs and devices access without a call
	unkept                          uint64                   // bytes of such memory whose content is not in the trace
	unsized, cutArguments           uint64                   // launches without arguments, and arguments, that are not in the trace
	lacks                           format.Reason            // why calls are missing, waits for results among them perhaps; none where all are there
	last                            int64                    // latest time seen
	device                          string                   // name, as the program was told it
	libraries                       map[string]bool          // by path; false: of a process in another container, whose files are not seen
	processes                       map[int]format.Process   // as written
	maps                            map[int][]format.Mapping // code, where stacks are recorded
	kernelLibs                      []string
	procRows                        []format.Process // all, in the order of their places
	died                            []Died
	threadRows                      []format.Thread
	// called is told of each call before it is written; nil where nobody asks.
	called func(f *api.Func, c *format.Call) error
	// wanted reports whether a call is to be written; nil: all are.
	wanted func(f *api.Func, c *format.Call, pieces []probe.Piece) (bool, error)
	// joined is told of each process; name tells what a thread is called. nil where nobody asks, or knows.
	joined    func(p *probe.Process)
	name      func(pid, tid int) string
	local     map[int]int // processes as this one sees them, where it does
	following *following  // nil where nobody follows
}

// A segment is a file that calls are written to. A recording has one; a flight recorder begins others and lets go of the oldest.
type segment struct {
	w    *format.Writer
	gone bool // nothing is written to it any more

	closed bool // the keeper's

	path  string
	begun int64  // time of its beginning, on the clock of the calls
	first uint64 // how many calls of the recording came before
}

// place is where a call lies.
type place struct {
	*segment
	index uint64
}

// data adds to what is known of the call.
func (p place) data(d *format.Data) error {
	if p.gone {
		return nil
	}
	d.Call = p.index
	return p.w.Data(d)
}

type threadKey struct{ pid, tid int }

type callKey struct {
	threadKey
	seq uint64
}

type partKey struct {
	callKey
	param uint8
	item  uint32
	dir   probe.Dir
}

type thread struct {
	index uint32
	// calls that may still get payloads, by sequence number
	open map[uint64]*openCall
	next uint64   // sequence number of the next call
	last openCall // the latest recorded call, if content of memory may belong to it
	seq  uint64   // of last
	// latest is the function of the latest call, and stands whether that never returned.
	latest *api.Func
	stands bool
}

// openCall is a call that may still get payloads.
type openCall struct {
	place
	fn     *api.Func
	left   int    // payloads to come; less than 0 where nothing tells how many
	took   int64  // nanoseconds of the call
	result int    // the parameter with an asynchronous result that has not come, -1 for none
	addr   uint64 // of that result, and its length
	len    uint64
}

// copied reports whether a parameter of an open call is what a copy moves, and not what describes the call.
func (t *thread) copied(seq uint64, param uint8) bool {
	f := t.open[seq].fn
	return f.Task == api.GraphRun || int(param) < len(f.Params) && (f.Params[param].Role == api.Reads || f.Params[param].Role == api.Writes)
}

type part struct {
	at   place
	data format.Data
	blob *format.Blobber
	got  uint64
	took int64 // nanoseconds of the program's threads
}

func newBuilder(m *api.Model, w *format.Writer, origin int64) *builder {
	b := &builder{model: m, seg: &segment{w: w}, origin: origin, threads: map[threadKey]*thread{}, procs: map[int]uint32{}, local: map[int]int{}, given: map[int][]given{}, gives: make([]bool, m.Funcs[len(m.Funcs)-1].ID+1), apart: make([][]int, m.Funcs[len(m.Funcs)-1].ID+1),
		parts: map[partKey]*part{}, ahead: map[callKey][]probe.Payload{}, libraries: map[string]bool{}, processes: map[int]format.Process{}, maps: map[int][]format.Mapping{}}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		b.gives[f.ID] = slices.ContainsFunc(f.Params, func(p api.Param) bool { return givenOut(&p) })
		for n := range f.Params {
			switch f.Params[n].Role {
			case api.Struct:
				if f.Task == api.Kernel {
					continue
				}
			case api.Reads, api.Writes, api.File, api.In, api.Uses, api.Image:
			default:
				continue
			}
			b.apart[f.ID] = append(b.apart[f.ID], n)
		}
	}
	b.times = newTaskTimes(b)
	return b
}

// given is memory that the runtime gave out where its address does not tell what it is: host memory among the addresses of the
// device, and device memory elsewhere.
type given struct {
	from, to uint64
	kind     api.Object
}

// givenOut reports whether a parameter is memory that a call gives out or takes back. Device memory that is mapped into a reservation
// is a part of that.
func givenOut(p *api.Param) bool {
	switch p.Object {
	case api.Host, api.Registered:
		return p.Role == api.New || p.Role == api.Map || p.Role == api.End
	case api.Device, api.Reservation:
		return p.Role == api.New || p.Role == api.End
	}
	return false
}

// remember notes what a call has given out or taken back.
func (b *builder) remember(pid int, f *api.Func, c *format.Call) {
	for i := range f.Params {
		p := &f.Params[i]
		if !givenOut(p) {
			continue
		}
		addr, known := c.Args[p.Word], p.Role != api.New
		for _, o := range c.Outs {
			if p.Role == api.New && int(o.Param) == i {
				addr, known = o.Value, true
			}
		}
		n, sized := p.Size.Bytes(f, c.Args)
		at, found := slices.BinarySearchFunc(b.given[pid], addr, func(g given, addr uint64) int { return cmp.Compare(g.from, addr) })
		switch {
		case !known:
		case p.Role == api.End:
			if found && b.given[pid][at].kind == p.Object {
				b.given[pid] = slices.Delete(b.given[pid], at, at+1)
			}
		case !found && sized && b.inWindow(addr) == p.Object.OnHost():
			b.given[pid] = slices.Insert(b.given[pid], at, given{addr, addr + n, p.Object})
		}
	}
}

func (b *builder) inWindow(addr uint64) bool {
	return addr >= b.model.Device.From && addr < b.model.Device.To
}

// onHost reports whether an address is one of the host's memory.
func (b *builder) onHost(pid int, addr uint64) bool {
	gs := b.given[pid]
	at, found := slices.BinarySearchFunc(gs, addr, func(g given, addr uint64) int { return cmp.Compare(g.from, addr) })
	if !found {
		at--
	}
	if at >= 0 && addr < gs[at].to {
		return gs[at].kind.OnHost()
	}
	return addr != 0 && !b.inWindow(addr)
}

func (b *builder) time(mono int64) int64 {
	t := mono - b.origin
	b.last = max(b.last, t)
	return t
}

func (b *builder) Process(p *probe.Process) error {
	row := format.Process{PID: p.PID, PPID: p.PPID, ForkedFrom: p.ForkedFrom, Start: b.time(p.Start), Exe: p.Exe, Argv: p.Argv}
	i, err := b.seg.w.Process(row)
	b.procRows = append(b.procRows, row)
	b.following.process(&row)
	b.procs[p.PID], b.processes[p.PID] = i, row
	if b.joined != nil {
		b.joined(p)
	}
	if p.Local == 0 {
		for _, path := range p.Libraries {
			b.libraries[path] = false
		}
		return err
	}
	b.local[p.PID] = p.Local
	if !b.look(p.Local) { // it has ended before anybody looked: what it has said itself is left
		for _, path := range p.Libraries {
			b.libraries[path] = filepath.IsAbs(path)
		}
	}
	return err
}

// ended notes how a process has ended.
func (b *builder) ended(e *probe.End) error {
	i, ok := b.procs[e.PID]
	if !ok || e.Replaced {
		return nil
	}
	row := b.processes[e.PID]
	row.End, row.Killed, row.Signal = max(e.Seen-b.origin, 1), !e.Clean, e.Signal
	if row.ExitCode = 0; e.Code != probe.NoCode {
		row.ExitCode = e.Code
	}
	b.processes[e.PID] = row
	if int(i) < len(b.procRows) {
		b.procRows[i] = row
	}
	if row.Killed {
		b.died = append(b.died, Died{PID: e.PID, Command: strings.Join(e.Args, " "), Signal: e.Signal, Last: b.latest(e.PID)})
	}
	return b.seg.w.UpdateProcess(i, row)
}

// latest lists the latest calls of a process's threads: first those that never returned.
func (b *builder) latest(pid int) []string {
	var standing, returned []string
	for k, t := range b.threads {
		switch {
		case k.pid != pid || t.latest == nil:
		case t.stands:
			standing = append(standing, fmt.Sprintf("thread %d in %s", k.tid, t.latest.Name))
		default:
			returned = append(returned, fmt.Sprintf("thread %d after %s", k.tid, t.latest.Name))
		}
	}
	slices.Sort(standing)
	slices.Sort(returned)
	return append(standing, returned...)
}

// look remembers what of a process can't be learnt after its end, and reports whether it maps a library of the runtime.
func (b *builder) look(pid int) (found bool) {
	for _, path := range host.RuntimeLibraries(b.model, pid) {
		b.libraries[path], found = true, true
	}
	if libs := host.Variable(pid, b.model.Simulator.Kernels); libs != "" && b.kernelLibs == nil {
		cwd, _ := host.Cwd(pid)
		list := filepath.SplitList(libs)
		for _, l := range list[:min(len(list), maxKernelLibs)] {
			if !filepath.IsAbs(l) {
				l = filepath.Join(cwd, l)
			}
			b.kernelLibs = append(b.kernelLibs, l)
		}
	}
	return found
}

// learnCode keeps the mappings of a process that a stack points into. They are read while the process lives, again whenever
// an address is new: it may have loaded more code.
func (b *builder) learnCode(pid int, stack []byte) {
	known := b.maps[pid]
	for s := stack; len(s) >= 8; s = s[8:] {
		pc := word(s[:8])
		if slices.ContainsFunc(known, func(m format.Mapping) bool { return pc >= m.Start && pc < m.End }) {
			continue
		}
		if now := host.Code(b.local[pid]); len(now) > 0 {
			known = now
			b.maps[pid] = known
		}
		break
	}
}

func (b *builder) thread(k threadKey) (*thread, error) {
	if b.recent != nil && b.recentKey == k {
		return b.recent, nil
	}
	if t := b.threads[k]; t != nil {
		b.recent, b.recentKey = t, k
		return t, nil
	}
	proc, ok := b.procs[k.pid]
	if !ok {
		if err := b.Process(&probe.Process{PID: k.pid, Local: k.pid}); err != nil {
			return nil, err
		}
		proc = b.procs[k.pid]
	}
	row := format.Thread{Process: proc, TID: k.tid}
	if b.name != nil {
		row.Name = b.name(k.pid, k.tid)
	} else if local := b.local[k.pid]; local != 0 {
		row.Name = host.ThreadName(local, k.tid)
	}
	i, err := b.seg.w.Thread(row)
	if err != nil {
		return nil, err
	}
	b.threadRows = append(b.threadRows, row)
	b.following.thread(&row)
	t := &thread{index: i, open: map[uint64]*openCall{}}
	b.threads[k] = t
	return t, nil
}

// standing writes a call that has not returned into the segment at hand. It counts for nothing: the call comes again.
func (b *builder) standing(c *probe.Call) error {
	t, err := b.thread(threadKey{c.PID, c.TID})
	if err != nil {
		return err
	}
	start := c.Start - b.origin
	out := format.Call{Func: uint16(c.Func), Thread: t.index, Flags: format.Unfinished, Start: start, End: max(b.last, start), Args: c.Words}
	for i := range c.Pieces {
		if p := &c.Pieces[i]; p.Dir == probe.In && int(p.Param) < len(b.model.Func(c.Func).Params) {
			d := data(p)
			if d.Time = start; d.Status == format.Whole {
				d.Bytes = p.Bytes
			}
			out.Data = append(out.Data, d)
		}
	}
	_, err = b.seg.w.Call(&out)
	return err
}

func (b *builder) Call(c *probe.Call) error {
	k := threadKey{c.PID, c.TID}
	t, err := b.thread(k)
	if err != nil {
		return err
	}
	f := b.model.Func(c.Func)
	out := &b.row
	*out = format.Call{Func: uint16(c.Func), Thread: t.index, Start: b.time(c.Start), Ret: c.Ret, Args: c.Words, Outs: out.Outs[:0], Data: out.Data[:0]}
	if c.Unfinished() {
		out.Flags |= format.Unfinished
		out.End = max(b.last, out.Start)
		b.unfinished++
	} else {
		out.End = b.time(c.End)
	}
	if f.Failed(c.Ret) {
		b.failed++
	}
	if b.called != nil {
		if err := b.called(f, out); err != nil {
			return err
		}
	}
	if b.wanted != nil {
		if ok, err := b.wanted(f, out, c.Pieces); err != nil || !ok {
			t.next = max(t.next, c.Seq+1)
			return err
		}
	}
	if f.Name == b.model.DeviceName && b.device == "" {
		for i := range c.Pieces {
			if p := &c.Pieces[i]; p.Param == api.RetParam {
				b.device = string(p.Bytes)
			}
		}
	}
	if c.Recording > 0 {
		out.Outs = append(out.Outs, format.Out{Param: api.RecordingParam, Value: uint64(c.Recording)})
	}
	timed, group := false, group(f, c.Words)
	results := 0 // that come of a graph's copies to the host
	for i := range c.Pieces {
		p := &c.Pieces[i]
		if p.Param >= probe.StackParam && p.Dir == probe.Out && len(p.Bytes) == 8 || int(p.Param) < len(f.Params) && p.Dir == probe.Out && f.Params[p.Param].Out() && len(p.Bytes) <= 8 {
			out.Outs = append(out.Outs, format.Out{Param: p.Param, Value: word(p.Bytes)})
			continue
		}
		if f.Task == api.GraphRun && p.Dir == probe.Out && int(p.Param) < len(f.Params) && f.Params[p.Param].Object == api.Graph {
			results = int(word(p.Bytes))
			continue
		}
		switch p.Param {
		case probe.TimeParam:
			timed = true
			continue
		case probe.MapsParam:
			b.maps[c.PID] = host.ParseMaps(p.Bytes)
			continue
		case probe.StackParam:
			b.learnCode(c.PID, p.Bytes)
		}
		d := data(p)
		d.Group, d.Time = group, out.Start
		if p.Dir == probe.Out {
			d.Time = out.End
		}
		if b.hashOnly && f.Task == api.GraphRun && p.Dir == probe.In && p.Item > 0 {
			d.Status, d.Reason = format.Missing, format.LevelExcluded // what lay where the graph copies to
		}
		if d.Status == format.Whole {
			d.Bytes = p.Bytes
		} else {
			b.argument(f, p)
		}
		out.Data = append(out.Data, d)
	}
	// What stands for no parameter, as the stack does, comes before the outputs of the call.
	if len(out.Outs) > 1 {
		slices.SortFunc(out.Outs, func(a, b format.Out) int { return int(a.Param) - int(b.Param) })
	}
	index, err := b.seg.w.Call(out)
	if err != nil {
		return err
	}
	b.following.call(b.calls, out, timed)
	b.calls++
	t.next = max(t.next, c.Seq+1) // a call that encloses others comes after them
	t.latest, t.stands = f, c.Unfinished()
	if timed {
		if err := b.times.call(callKey{k, c.Seq}, timedCall{place{b.seg, index}, c.Start}); err != nil {
			return err
		}
	}
	if b.visible {
		t.last, t.seq = openCall{fn: f, place: place{b.seg, index}}, c.Seq
		if err := b.contentAhead(callKey{k, c.Seq}); err != nil {
			return err
		}
	}
	if f.RetError && int32(c.Ret) != 0 || c.Unfinished() {
		return nil
	}
	if !b.visible {
		b.unkept += visibleBytes(f, c.Words)
	}
	if b.gives[f.ID] {
		b.remember(c.PID, f, out)
	}
	oc := openCall{fn: f, result: -1}
	if b.apart[f.ID] != nil {
		oc = b.expects(f, c)
	}
	if oc.left += results; oc.left != 0 {
		kept := oc
		kept.place, kept.took = place{b.seg, index}, out.End-out.Start
		t.open[c.Seq] = &kept
	}
	if len(b.ahead) == 0 {
		return nil
	}
	ck := callKey{k, c.Seq}
	for _, p := range b.ahead[ck] {
		if err := b.Payload(&p); err != nil {
			return err
		}
	}
	delete(b.ahead, ck)
	return nil
}

// contentAhead adds to a call the content of memory that was recorded before it, whether the call succeeded or not.
func (b *builder) contentAhead(k callKey) error {
	if len(b.ahead) == 0 {
		return nil
	}
	ps := b.ahead[k]
	for i := range ps {
		if ps[i].Param == probe.MemoryParam {
			if err := b.Payload(&ps[i]); err != nil {
				return err
			}
		}
	}
	if ps = slices.DeleteFunc(ps, func(p probe.Payload) bool { return p.Param == probe.MemoryParam }); len(ps) > 0 {
		b.ahead[k] = ps
	} else {
		delete(b.ahead, k)
	}
	return nil
}

// visibleBytes is the size of the memory that a call makes accessible to both the program and the device.
func visibleBytes(f *api.Func, words []uint64) (bytes uint64) {
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == api.New && p.HostVisible || p.Role == api.Map && p.Object == api.Registered {
			n, _ := p.Size.Bytes(f, words)
			bytes += n
		}
	}
	return bytes
}

// group is what the argument blocks of a launch have in common.
func group(f *api.Func, words []uint64) uint64 {
	if f.Task == api.Kernel {
		return words[0]
	}
	return 0
}

func word(b []byte) uint64 {
	var v uint64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// argument notes an argument of a kernel's, or all of them, that the trace lacks.
func (b *builder) argument(f *api.Func, p *probe.Piece) {
	if int(p.Param) >= len(f.Params) {
		return
	}
	if role := f.Params[p.Param].Role; role != api.ArgArray && (role != api.Struct || p.Item <= api.ArgItems) {
		return
	}
	switch p.Missing {
	case probe.UnknownSize:
		b.unsized++
	case probe.OverLimit:
		b.cutArguments++
	}
}

var reasons = map[probe.Missing]format.Reason{
	probe.DeviceMemory: format.DeviceMemory, probe.Dropped: format.Dropped, probe.OverLimit: format.LimitReached,
	probe.Unreadable: format.Unreadable, probe.NotSynchronized: format.NeverSynchronized, probe.Overwritten: format.Overwritten,
	probe.Freed: format.Freed, probe.Unregistered: format.Unregistered, probe.Detached: format.Detached, probe.Filtered: format.Filtered,
	probe.TableFull: format.TooManyPending, probe.UnknownSize: format.Unreadable, probe.NotAsked: format.LevelExcluded, probe.Unawaited: format.Unawaited,
}

func data(p *probe.Piece) format.Data {
	d := format.Data{Param: p.Param, Item: p.Item, Dir: format.Dir(p.Dir), Addr: p.Addr, Len: p.Len}
	if p.Missing != probe.Present {
		d.Status, d.Reason = format.Missing, reasons[p.Missing]
	} else if p.Early {
		d.Reason = doubt(p.Dir)
	}
	return d
}

// doubt is why data that is there may not be what was copied.
func doubt(dir probe.Dir) format.Reason {
	if dir == probe.Out {
		return format.Unchecked
	}
	return format.TakenEarly
}

func (b *builder) doubted(dir probe.Dir) {
	if dir == probe.In {
		b.early++
	}
}

// expects returns what payloads of a call may come after it; left is 0 for none.
func (b *builder) expects(f *api.Func, c *probe.Call) openCall {
	oc, words := openCall{fn: f, result: -1}, c.Words
	for _, i := range b.apart[f.ID] {
		p := &f.Params[i]
		switch p.Role {
		case api.Reads, api.Writes:
			if p.ItemSizes >= 0 {
				oc.left = -1 << 30
				continue
			}
			n, ok := p.Size.Bytes(f, words)
			host := b.onHost(c.PID, words[p.Word]) || b.inWindow(words[p.Word]) && f.SaysHost(i, words)
			if !host || ok && n == 0 {
				continue
			}
			oc.left++
			if p.Role == api.Writes && f.Stream >= 0 {
				oc.result, oc.addr, oc.len = i, words[p.Word], n
			}
		case api.File:
			if words[p.Word] != 0 {
				oc.left++
			}
		case api.Struct:
			oc.left = -1 << 30 // what its pointers lead to, as much as is large
		case api.In, api.Uses, api.Image:
			n, ok := p.Size.Bytes(f, words)
			if !ok || p.Role == api.Image {
				// Only a large one comes apart, and what is small is here.
				ok = slices.ContainsFunc(c.Pieces, func(q probe.Piece) bool { return int(q.Param) == i })
			}
			if words[p.Word] != 0 && (!ok || n > format.InlineLimit) {
				oc.left++
			}
		}
	}
	return oc
}

// recorded counts a payload of a call that was hashed or copied, and the time that it took.
func (b *builder) recorded(t *thread, p *probe.Payload, took int64) {
	if took == 0 || t.open[p.Seq] == nil || !t.copied(p.Seq, p.Param) {
		return
	}
	c := &b.copies
	c.Count, c.Bytes, c.RecordingNS, c.CallsNS = c.Count+1, c.Bytes+p.Len, c.RecordingNS+took, c.CallsNS+t.open[p.Seq].took
}

// came notes that a payload of an open call is complete, or known to be missing.
func (t *thread) came(seq uint64, param uint8) {
	oc := t.open[seq]
	if oc == nil || param == probe.MemoryParam {
		return
	}
	if oc.result == int(param) {
		oc.result = -1
	}
	if oc.left--; oc.left == 0 {
		delete(t.open, seq)
	}
}

func (b *builder) Payload(p *probe.Payload) error {
	k := threadKey{p.PID, p.TID}
	t, err := b.thread(k)
	if err != nil {
		return err
	}
	ck := callKey{k, p.Seq}
	call, ok := t.open[p.Seq]
	if p.Param == probe.MemoryParam {
		call, ok = &t.last, t.last.fn != nil && p.Seq == t.seq
	}
	if !ok && p.Seq >= t.next {
		q := *p
		q.Bytes = append([]byte(nil), p.Bytes...)
		b.ahead[ck] = append(b.ahead[ck], q)
		return nil
	}
	b.payloadNS += p.Recording
	if !ok {
		return nil
	}
	at := call.place
	if at.gone {
		t.came(p.Seq, p.Param)
		return nil
	}
	pk := partKey{ck, p.Param, p.Item, p.Dir}
	cur := b.parts[pk]
	if p.Missing != probe.Present {
		if cur != nil && cur.blob != nil {
			cur.blob.Abort()
		}
		delete(b.parts, pk)
		d := data(&p.Piece)
		d.Time = b.time(p.Time)
		if p.Param == probe.MemoryParam {
			b.unkept += p.Len
		}
		if p.Missing == probe.Hashed && len(p.Bytes) == 16 {
			d.Status, d.Reason = format.HashOnly, format.NoReason
			if p.Early {
				d.Reason = doubt(p.Dir)
				b.doubted(p.Dir)
			}
			if d.Blob, err = at.w.Named(word(p.Bytes[:8]), word(p.Bytes[8:]), p.Len); err != nil {
				return err
			}
			b.recorded(t, p, p.Recording)
		}
		t.came(p.Seq, p.Param)
		return at.data(&d)
	}
	if cur == nil {
		if p.Offset != 0 {
			return nil // the beginning was lost, and said so
		}
		cur = &part{at: at, data: data(&p.Piece)}
		cur.data.Time = b.time(p.Time)
		b.parts[pk] = cur
		switch {
		case b.hashOnly && p.Param != probe.MemoryParam && t.copied(p.Seq, p.Param):
			cur.data.Status, cur.blob = format.HashOnly, at.w.Hasher()
		case p.Len > format.InlineLimit:
			cur.blob = at.w.Blobber()
		}
	}
	if p.Offset != cur.got {
		t.came(p.Seq, p.Param)
		return b.abandon(pk, cur, format.Dropped)
	}
	if b.maxSize > 0 && at.w.Size() > b.maxSize-b.maxSize/10 {
		b.cut = true
		t.came(p.Seq, p.Param)
		return b.abandon(pk, cur, format.LimitReached)
	}
	cur.got, cur.took = cur.got+uint64(len(p.Bytes)), cur.took+p.Recording
	if cur.blob == nil {
		cur.data.Bytes = append(cur.data.Bytes, p.Bytes...)
	} else if _, err := cur.blob.Write(p.Bytes); err != nil {
		return err
	}
	if cur.got < p.Len {
		return nil
	}
	delete(b.parts, pk)
	b.recorded(t, p, cur.took)
	t.came(p.Seq, p.Param)
	if cur.blob != nil {
		if cur.data.Blob, err = cur.blob.Close(); err != nil {
			return err
		}
	}
	if p.Early {
		b.doubted(p.Dir)
	}
	return at.data(&cur.data)
}

// abandon records a payload of which a part is missing.
func (b *builder) abandon(k partKey, p *part, why format.Reason) error {
	if p.blob != nil {
		p.blob.Abort()
	}
	delete(b.parts, k)
	p.data.Status, p.data.Reason, p.data.Bytes = format.Missing, why, nil
	return p.at.data(&p.data)
}

func (b *builder) Gap(g *probe.Gap) error {
	t, err := b.thread(threadKey{g.PID, g.TID})
	if err != nil {
		return err
	}
	b.lost += g.Calls
	why := format.Dropped
	if g.Reason == probe.Nested {
		b.nested += g.Calls
		why = format.Nested
	}
	b.lacks = why
	return b.gap(format.Gap{Thread: t.index, From: b.time(g.From), To: b.time(g.To), Calls: g.Calls, Reason: why})
}

// gap records that calls are missing.
func (b *builder) gap(g format.Gap) error {
	b.following.gap(&g)
	return b.seg.w.Gap(g)
}

// finish records what will never be complete.
func (b *builder) finish() error {
	if err := b.times.finish(); err != nil {
		return fmt.Errorf("times of tasks on the device: %w", err)
	}
	for k, p := range b.parts {
		b.threads[k.threadKey].came(k.seq, k.param)
		if err := b.abandon(k, p, format.Dropped); err != nil {
			return fmt.Errorf("payload of call %d: %w", p.data.Call, err)
		}
	}
	for pid, maps := range b.maps {
		row := b.processes[pid]
		row.Maps = maps
		if err := b.seg.w.UpdateProcess(b.procs[pid], row); err != nil {
			return fmt.Errorf("mappings of process %d: %w", pid, err)
		}
	}
	return b.unsynchronized(nil)
}

// unsynchronized records the results that the program has not waited for, as far as is known, of the calls in a segment, or of all where that
// is nil.
func (b *builder) unsynchronized(s *segment) error {
	why := format.NeverSynchronized
	if b.lacks != format.NoReason {
		why = b.lacks
	}
	for _, t := range b.threads {
		for _, oc := range t.open {
			if oc.result < 0 || s != nil && oc.segment != s {
				continue
			}
			d := format.Data{Param: uint8(oc.result), Dir: format.DirOut, Status: format.Missing, Reason: why,
				Addr: oc.addr, Len: oc.len, Time: b.last}
			if err := oc.data(&d); err != nil {
				return fmt.Errorf("result of call %d: %w", oc.index, err)
			}
		}
	}
	return nil
}
