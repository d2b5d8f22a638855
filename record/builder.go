package record

import (
	"fmt"
	"path/filepath"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// builder turns what a probe sees into the rows of a trace. Payloads come apart from their calls, in parts, and some
// long after them; it finds the call that each belongs to.
type builder struct {
	model    *api.Model
	w        *format.Writer
	origin   int64 // CLOCK_MONOTONIC of the trace's time 0
	hashOnly bool
	maxSize  int64 // bytes of the file at which payloads end, 0 for none
	cut      bool  // payloads have ended
	threads  map[threadKey]*thread
	procs    map[int]uint32
	parts    map[partKey]*part
	early    map[callKey][]probe.Payload // parts that came before their call

	calls, failed, unfinished, lost uint64
	last                            int64 // latest time seen
	libraries                       map[string]bool
	kernelLibs                      []string
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
	// calls that may still get payloads, by sequence number: their number in the file
	open map[uint64]uint64
	next uint64 // sequence number of the next call
}

type part struct {
	data format.Data
	blob *format.Blobber
	got  uint64
}

func newBuilder(m *api.Model, w *format.Writer, origin int64) *builder {
	return &builder{model: m, w: w, origin: origin, threads: map[threadKey]*thread{}, procs: map[int]uint32{},
		parts: map[partKey]*part{}, early: map[callKey][]probe.Payload{}, libraries: map[string]bool{}}
}

func (b *builder) time(mono int64) int64 {
	t := mono - b.origin
	b.last = max(b.last, t)
	return t
}

func (b *builder) Process(p *probe.Process) error {
	i, err := b.w.Process(format.Process{PID: p.PID, PPID: p.PPID, Start: b.time(p.Start), Exe: p.Exe, Argv: p.Argv})
	b.procs[p.PID] = i
	b.look(p.PID)
	return err
}

// look remembers what of a process can't be learnt after its end.
func (b *builder) look(pid int) {
	for _, path := range runtimeLibraries(pid) {
		b.libraries[path] = true
	}
	if libs := environment(pid, "ACLSIM_KERNELS"); libs != "" && b.kernelLibs == nil {
		cwd, _ := cwdOf(pid)
		for _, l := range filepath.SplitList(libs) {
			if !filepath.IsAbs(l) {
				l = filepath.Join(cwd, l)
			}
			b.kernelLibs = append(b.kernelLibs, l)
		}
	}
}

func (b *builder) thread(k threadKey) (*thread, error) {
	if t := b.threads[k]; t != nil {
		return t, nil
	}
	proc, ok := b.procs[k.pid]
	if !ok {
		if err := b.Process(&probe.Process{PID: k.pid}); err != nil {
			return nil, err
		}
		proc = b.procs[k.pid]
	}
	i, err := b.w.Thread(format.Thread{Process: proc, TID: k.tid, Name: threadName(k.pid, k.tid)})
	if err != nil {
		return nil, err
	}
	t := &thread{index: i, open: map[uint64]uint64{}}
	b.threads[k] = t
	return t, nil
}

func (b *builder) Call(c *probe.Call) error {
	k := threadKey{c.PID, c.TID}
	t, err := b.thread(k)
	if err != nil {
		return err
	}
	f := b.model.Func(c.Func)
	out := format.Call{Func: uint16(c.Func), Thread: t.index, Start: b.time(c.Start), Ret: c.Ret, Args: c.Words}
	if c.Unfinished() {
		out.Flags |= format.Unfinished
		out.End = max(b.last, out.Start)
		b.unfinished++
	} else {
		out.End = b.time(c.End)
	}
	if f.RetError && int32(c.Ret) != 0 {
		b.failed++
	}
	group := group(f, c.Words)
	for i := range c.Pieces {
		p := &c.Pieces[i]
		if int(p.Param) < len(f.Params) && p.Dir == probe.Out && f.Params[p.Param].Out() && len(p.Bytes) <= 8 {
			out.Outs = append(out.Outs, format.Out{Param: p.Param, Value: word(p.Bytes)})
			continue
		}
		d := data(p)
		d.Group, d.Time = group, out.Start
		if p.Dir == probe.Out {
			d.Time = out.End
		}
		if d.Status == format.Whole {
			d.Bytes = p.Bytes
		}
		out.Data = append(out.Data, d)
	}
	index, err := b.w.Call(&out)
	if err != nil {
		return err
	}
	b.calls++
	t.next = c.Seq + 1
	if b.expects(f, c.Words) {
		t.open[c.Seq] = index
	}
	ck := callKey{k, c.Seq}
	for _, p := range b.early[ck] {
		t.open[c.Seq] = index
		if err := b.Payload(&p); err != nil {
			return err
		}
	}
	delete(b.early, ck)
	return nil
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

var reasons = map[probe.Missing]format.Reason{
	probe.DeviceMemory: format.DeviceMemory, probe.Dropped: format.Dropped, probe.OverLimit: format.LimitReached,
	probe.Unreadable: format.Unreadable, probe.NotSynchronized: format.NeverSynchronized, probe.Overwritten: format.Overwritten,
	probe.TableFull: format.Dropped, probe.UnknownSize: format.Unreadable, probe.NotAsked: format.LevelExcluded,
}

func data(p *probe.Piece) format.Data {
	d := format.Data{Param: p.Param, Item: p.Item, Dir: format.Dir(p.Dir), Addr: p.Addr, Len: p.Len}
	if p.Missing != probe.Present {
		d.Status, d.Reason = format.Missing, reasons[p.Missing]
	}
	return d
}

// expects reports whether payloads of a call may come after it.
func (b *builder) expects(f *api.Func, words []uint64) bool {
	for i := range f.Params {
		p := &f.Params[i]
		switch p.Role {
		case api.Reads, api.Writes:
			if p.ItemSizes >= 0 {
				return true
			}
			if a := words[p.Word]; a != 0 && (a < b.model.Device.From || a >= b.model.Device.To) {
				return true
			}
		case api.File:
			return true
		case api.In:
			if n, ok := p.Size.Bytes(f, words); !ok || n > format.InlineLimit {
				return true
			}
		}
	}
	return false
}

func (b *builder) Payload(p *probe.Payload) error {
	k := threadKey{p.PID, p.TID}
	t, err := b.thread(k)
	if err != nil {
		return err
	}
	ck := callKey{k, p.Seq}
	index, ok := t.open[p.Seq]
	if !ok {
		if p.Seq >= t.next {
			q := *p
			q.Bytes = append([]byte(nil), p.Bytes...)
			b.early[ck] = append(b.early[ck], q)
		}
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
		d.Call, d.Time = index, b.time(p.Time)
		return b.w.Data(&d)
	}
	if cur == nil {
		if p.Offset != 0 {
			return nil // the beginning was lost, and said so
		}
		cur = &part{data: data(&p.Piece)}
		cur.data.Call, cur.data.Time = index, b.time(p.Time)
		b.parts[pk] = cur
		if p.Len > format.InlineLimit {
			cur.blob = b.w.Blobber()
		}
	}
	if p.Offset != cur.got {
		return b.abandon(pk, cur, format.Dropped)
	}
	if b.maxSize > 0 && b.w.Size() > b.maxSize {
		b.cut = true
		return b.abandon(pk, cur, format.LimitReached)
	}
	cur.got += uint64(len(p.Bytes))
	if cur.blob == nil {
		cur.data.Bytes = append(cur.data.Bytes, p.Bytes...)
	} else if _, err := cur.blob.Write(p.Bytes); err != nil {
		return err
	}
	if cur.got < p.Len {
		return nil
	}
	delete(b.parts, pk)
	if cur.blob != nil {
		if cur.data.Blob, err = cur.blob.Close(); err != nil {
			return err
		}
	}
	return b.w.Data(&cur.data)
}

// abandon records a payload of which a part is missing.
func (b *builder) abandon(k partKey, p *part, why format.Reason) error {
	if p.blob != nil {
		p.blob.Abort()
	}
	delete(b.parts, k)
	p.data.Status, p.data.Reason, p.data.Bytes = format.Missing, why, nil
	return b.w.Data(&p.data)
}

func (b *builder) Gap(g *probe.Gap) error {
	t, err := b.thread(threadKey{g.PID, g.TID})
	if err != nil {
		return err
	}
	b.lost += g.Calls
	return b.w.Gap(format.Gap{Thread: t.index, From: b.time(g.From), To: b.time(g.To), Calls: g.Calls, Reason: format.Dropped})
}

// finish records what will never be complete.
func (b *builder) finish() error {
	for k, p := range b.parts {
		if err := b.abandon(k, p, format.Dropped); err != nil {
			return fmt.Errorf("payload of call %d: %w", p.data.Call, err)
		}
	}
	return nil
}
