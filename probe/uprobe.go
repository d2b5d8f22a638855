package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotPermitted says that the process may not use uprobes.
	ErrNotPermitted = errors.New("uprobes need CAP_BPF and CAP_PERFMON")
	// ErrNotSupported says that the kernel lacks what uprobes need.
	ErrNotSupported = errors.New("the kernel does not support this")
)

// UprobeOptions says what uprobes see. The zero value means all functions of the model whose semantics are known, in all
// processes that use the library, without payloads.
type UprobeOptions struct {
	// PIDs are the processes to record, with the children that they make from then on: with its own, a process records
	// all that it will start. A probe lies on the file, so other processes that use it pay for it too, but are not
	// recorded. nil: all processes.
	PIDs []int
	// Functions are the names of the functions to record. nil: all whose semantics the model knows.
	Functions []string
	// PayloadLimit is the size in bytes up to which host memory that a copy reads or writes is kept.
	PayloadLimit uint64
	// CountOnly counts the calls and records nothing. Calls inside other calls count as well, and so do those of functions that
	// uprobes can't record.
	CountOnly bool
	// RingBytes is the size of the ring between kernel and reader, rounded up to a power of two. 0: 8 MiB.
	RingBytes int

	// Older kernels lack ways that newer ones have; tests go without them.
	noMulti, noSleep bool
}

// Uprobes are probes in the kernel on the functions of a runtime's libraries. They are on from AttachUprobes until Run
// ends or Close.
type Uprobes struct {
	model     *api.Model
	opts      UprobeOptions
	coll      *ebpf.Collection
	multi     bool
	enters    []link.Link
	leaves    []link.Link
	life      []link.Link // tracepoints of processes
	functions map[api.ID]bool
	reader    *ringbuf.Reader

	sink      Sink
	processes map[int]*knownProcess
	parts     map[int]*partial // by thread
	gaps      uint64           // calls that gaps were delivered for
}

// partial is a payload of which parts are to come.
type partial struct {
	pid    int
	pieces []Piece
	seq    uint64
	have   []uint64
}

// As in uprobe.bpf.c.
const (
	uprobeMaxWords   = 16
	uprobeMaxReaders = 16
	uprobeInline     = 4096
	uprobeNone       = 255
	uprobeEventSize  = 72
	uprobePartSize   = 56
	uprobePieceSize  = 24

	uprobeCall, uprobePayload, uprobeThread, uprobeLost = 1, 2, 3, 4

	uprobeBytes, uprobeString, uprobeList, uprobeCopy = 1, 2, 3, 4
	uprobeAtEntry, uprobeOut, uprobeLater             = 1, 2, 4
	uprobePieceOut, uprobeFollows                     = 1, 2
	uprobeRetError, uprobeRetVoid, uprobeRet32        = 1, 2, 4
	uprobeWake                                        = 8
	uprobeRingFull, uprobeNoThread, uprobeNoProcess   = 0, 1, 2
)

type uprobeReader struct {
	Param, Kind, Flags, Word, Mul0, Mul1, Pitch, _ uint8
	Unit                                           uint64
}

type uprobeFunction struct {
	Words, Readers, Flags, Stack uint8
	_                            uint32
	Place                        [uprobeMaxWords]uint8
	Width                        [uprobeMaxWords]uint8
	Reader                       [uprobeMaxReaders]uprobeReader
}

// AttachUprobes puts probes on the functions of model m in the library file at path.
func AttachUprobes(m *api.Model, library string, opts *UprobeOptions) (*Uprobes, error) {
	u := &Uprobes{model: m, functions: map[api.ID]bool{}, processes: map[int]*knownProcess{}, parts: map[int]*partial{}}
	if opts != nil {
		u.opts = *opts
	}
	// What needs no privilege is found first.
	if _, err := u.sites(library); err != nil {
		return nil, err
	}
	if err := u.load(); err != nil {
		return nil, uprobeError(fmt.Errorf("load uprobes: %w", err))
	}
	if err := u.Add(library); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// uprobeError makes what the kernel says matchable.
func uprobeError(err error) error {
	var rejected *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES) && !errors.As(err, &rejected):
		return fmt.Errorf("%w: %w", ErrNotPermitted, err)
	case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w", ErrNotSupported, err)
	}
	return err
}

// load brings programs and maps into the kernel, in the best way that it has.
func (u *Uprobes) load() error {
	// Kernels since 5.11 account differently and need no limit; where it matters, loading fails and says so.
	_ = rlimit.RemoveMemlock()
	u.multi = !u.opts.noMulti && features.HaveBPFLinkUprobeMulti() == nil
	var first error
	for _, sleepable := range []bool{true, false} {
		if sleepable && u.opts.noSleep {
			continue
		}
		err := u.loadAs(sleepable)
		if err == nil {
			return u.fill()
		}
		if errors.Is(err, unix.EPERM) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (u *Uprobes) loadAs(sleepable bool) error {
	spec, err := bpf.LoadUprobe()
	if err != nil {
		return err
	}
	last := u.model.Funcs[len(u.model.Funcs)-1].ID
	spec.Maps[bpf.UprobeMapFunctions].MaxEntries = uint32(last) + 1
	spec.Maps[bpf.UprobeMapCounts].MaxEntries = uint32(last) + 1
	spec.Maps[bpf.UprobeMapEvents].MaxEntries = u.ringBytes()
	for name, v := range map[string]any{
		bpf.UprobeVarSleepable:  toByte(sleepable),
		bpf.UprobeVarFilter:     toByte(u.opts.PIDs != nil),
		bpf.UprobeVarWakeAt:     uint64(u.ringBytes() / 8),
		bpf.UprobeVarLimit:      u.opts.PayloadLimit,
		bpf.UprobeVarDeviceFrom: u.model.Device.From,
		bpf.UprobeVarDeviceTo:   u.model.Device.To,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	want := []string{bpf.UprobeProgEnter, bpf.UprobeProgLeave}
	if u.opts.CountOnly {
		want = []string{bpf.UprobeProgTally}
	}
	for _, name := range want {
		p := spec.Programs[name]
		if u.multi {
			p.AttachType = ebpf.AttachTraceUprobeMulti
		}
		if sleepable && !u.opts.CountOnly {
			p.Flags |= unix.BPF_F_SLEEPABLE
		}
	}
	if _, err := btf.LoadKernelSpec(); err == nil {
		want = append(want, bpf.UprobeProgExited, bpf.UprobeProgExeced)
		if u.opts.PIDs != nil {
			want = append(want, bpf.UprobeProgForked)
		}
	} else if u.opts.PIDs != nil {
		return fmt.Errorf("follow children without type information: %w", ebpf.ErrNotSupported)
	}
	for name := range spec.Programs {
		if !slices.Contains(want, name) {
			delete(spec.Programs, name)
		}
	}
	u.coll, err = ebpf.NewCollection(spec)
	return err
}

func toByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func (u *Uprobes) ringBytes() uint32 {
	n := u.opts.RingBytes
	if n <= 0 {
		n = 8 << 20
	}
	size := uint32(os.Getpagesize())
	for size < uint32(n) && size < 1<<30 {
		size *= 2
	}
	return size
}

// fill writes the tables and follows the life of processes, so that all is ready for the first probe.
func (u *Uprobes) fill() error {
	fail := func(err error) error {
		u.Close()
		return err
	}
	for i := range u.model.Funcs {
		f := &u.model.Funcs[i]
		if t, err := functionTable(u.model, f, runtime.GOARCH); err == nil {
			if err := u.coll.Maps[bpf.UprobeMapFunctions].Put(uint32(f.ID), t); err != nil {
				return fail(fmt.Errorf("%s: %w", f.Name, err))
			}
		}
	}
	for _, pid := range u.opts.PIDs {
		if err := u.coll.Maps[bpf.UprobeMapPids].Put(uint32(pid), uint8(1)); err != nil {
			return fail(fmt.Errorf("process %d: %w", pid, err))
		}
	}
	for _, name := range []string{bpf.UprobeProgForked, bpf.UprobeProgExeced, bpf.UprobeProgExited} {
		if p := u.coll.Programs[name]; p != nil {
			l, err := link.AttachTracing(link.TracingOptions{Program: p})
			if err != nil {
				return fail(fmt.Errorf("%s: %w", name, err))
			}
			u.life = append(u.life, l)
		}
	}
	if !u.opts.CountOnly {
		r, err := ringbuf.NewReader(u.coll.Maps[bpf.UprobeMapEvents])
		if err != nil {
			return fail(err)
		}
		u.reader = r
	}
	return nil
}

// Add puts probes on the functions in one more library file, for programs that have several layers or copies. A call
// is recorded once, by its outermost layer.
func (u *Uprobes) Add(library string) error {
	sites, err := u.sites(library)
	if err != nil {
		return err
	}
	ex, err := link.OpenExecutable(library)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", library, err)
	}
	// The return first: an entry that is seen has its return seen too.
	if !u.opts.CountOnly {
		ls, err := u.attach(ex, u.coll.Programs[bpf.UprobeProgLeave], sites, true)
		u.leaves = append(u.leaves, ls...)
		if err != nil {
			return uprobeError(fmt.Errorf("attach to %s: %w", library, err))
		}
	}
	entry := bpf.UprobeProgEnter
	if u.opts.CountOnly {
		entry = bpf.UprobeProgTally
	}
	ls, err := u.attach(ex, u.coll.Programs[entry], sites, false)
	u.enters = append(u.enters, ls...)
	if err != nil {
		return uprobeError(fmt.Errorf("attach to %s: %w", library, err))
	}
	for _, s := range sites {
		u.functions[s.id()] = true
	}
	return nil
}

func (u *Uprobes) sites(library string) ([]uprobeSite, error) {
	want, err := u.wanted()
	if err != nil {
		return nil, err
	}
	sites, err := findSites(library, want, runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", library, err)
	}
	if len(sites) == 0 {
		return nil, fmt.Errorf("attach to %s: it exports no function to record", library)
	}
	return sites, nil
}

func (u *Uprobes) wanted() ([]*api.Func, error) {
	var want []*api.Func
	if u.opts.Functions == nil {
		for i := range u.model.Funcs {
			f := &u.model.Funcs[i]
			if f.Modelled && u.readable(f) == nil {
				want = append(want, f)
			}
		}
		return want, nil
	}
	for _, name := range u.opts.Functions {
		f := u.model.Lookup(name)
		if f == nil {
			return nil, fmt.Errorf("%s: no such function", name)
		}
		if err := u.readable(f); err != nil {
			return nil, err
		}
		want = append(want, f)
	}
	return want, nil
}

// readable returns why the probes can't do what is asked for with a function, nil where they can: whatever its arguments are, and
// whether it encloses other calls or not, its entries can be counted.
func (u *Uprobes) readable(f *api.Func) error {
	if u.opts.CountOnly {
		return nil
	}
	_, err := functionTable(u.model, f, runtime.GOARCH)
	return err
}

func (u *Uprobes) attach(ex *link.Executable, p *ebpf.Program, sites []uprobeSite, ret bool) ([]link.Link, error) {
	if u.multi {
		o := &link.UprobeMultiOptions{}
		for _, s := range sites {
			o.Addresses = append(o.Addresses, s.offset)
			o.Cookies = append(o.Cookies, s.cookie)
		}
		attach := ex.UprobeMulti
		if ret {
			attach = ex.UretprobeMulti
		}
		l, err := attach(nil, p, o)
		if err != nil {
			return nil, err
		}
		return []link.Link{l}, nil
	}
	attach := ex.Uprobe
	if ret {
		attach = ex.Uretprobe
	}
	var ls []link.Link
	for _, s := range sites {
		l, err := attach("", p, &link.UprobeOptions{Address: s.offset, Cookie: s.cookie})
		if errors.Is(err, unix.EACCES) {
			return ls, fmt.Errorf("%s: this kernel attaches one by one, which takes CAP_SYS_ADMIN too: %w", s.symbol, err)
		}
		if err != nil {
			return ls, fmt.Errorf("%s: %w", s.symbol, err)
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// Run hands what the probes see to sink until ctx ends. Then it takes the probes away and hands on what is left: calls
// that have not returned come without an end.
func (u *Uprobes) Run(ctx context.Context, sink Sink) error {
	if u.reader == nil {
		return errors.New("run uprobes: they only count")
	}
	u.sink = sink
	var rec ringbuf.Record
	for ctx.Err() == nil {
		// The kernel wakes the reader seldom, so it looks by itself.
		u.reader.SetDeadline(time.Now().Add(20 * time.Millisecond))
		if err := u.read(ctx, &rec); err != nil {
			return err
		}
	}
	if err := u.detach(); err != nil {
		return fmt.Errorf("detach uprobes: %w", err)
	}
	u.reader.SetDeadline(time.Now())
	if err := u.read(context.Background(), &rec); err != nil {
		return err
	}
	return u.leftovers()
}

// read delivers records until the deadline of the reader finds none.
func (u *Uprobes) read(ctx context.Context, rec *ringbuf.Record) error {
	for n := 1; ; n++ {
		err := u.reader.ReadInto(rec)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read uprobe ring: %w", err)
		}
		if err := u.deliver(rec.RawSample); err != nil {
			return err
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return nil
		}
	}
}

func (u *Uprobes) deliver(b []byte) error {
	if len(b) < uprobePartSize {
		return fmt.Errorf("uprobe record of %d bytes", len(b))
	}
	if b[0] == uprobePayload {
		return u.deliverPart(b)
	}
	if len(b) < uprobeEventSize {
		return fmt.Errorf("uprobe record of %d bytes", len(b))
	}
	pid, tid := int(le32(b[8:])), int(le32(b[12:]))
	if b[0] == uprobeThread {
		comm, _, _ := strings.Cut(string(b[uprobeEventSize:]), "\x00")
		return u.process(pid, comm, int64(le64(b[24:])))
	}
	if err := u.partsEnd(tid); err != nil {
		return err
	}
	if lost := le64(b[48:]); lost > 0 {
		u.gaps += lost
		if err := u.sink.Gap(&Gap{PID: pid, TID: tid, From: int64(le64(b[56:])), To: int64(le64(b[64:])), Calls: lost, Reason: "ring full"}); err != nil {
			return err
		}
	}
	if b[0] != uprobeCall {
		return nil
	}
	return u.deliverCall(b, pid, tid)
}

func (u *Uprobes) deliverCall(b []byte, pid, tid int) error {
	c := &Call{
		PID: pid, TID: tid,
		Func: api.ID(binary.LittleEndian.Uint16(b[2:])),
		Seq:  le64(b[16:]), Start: int64(le64(b[24:])), End: int64(le64(b[32:])), Ret: le64(b[40:]),
	}
	f := u.model.Func(c.Func)
	words, data := int(b[1]), b[uprobeEventSize:]
	if n := int(le32(b[4:])); n > len(data) || n < 8*words || f == nil {
		return fmt.Errorf("uprobe record of function %d is damaged", c.Func)
	} else {
		data = data[:n]
	}
	if err := u.process(pid, "", c.Start); err != nil {
		return err
	}
	c.Words = make([]uint64, words)
	for i := range c.Words {
		c.Words[i] = le64(data[8*i:])
	}
	data = data[8*words:]
	failed := c.Unfinished() || f.RetError && c.Ret != 0
	var later partial
	var payloads []Piece
	for len(data) >= uprobePieceSize {
		p := Piece{Param: data[0], Missing: Missing(data[2]), Addr: le64(data[8:]), Len: le64(data[16:])}
		flags, n := data[1], int(le32(data[4:]))
		if flags&uprobePieceOut != 0 {
			p.Dir = Out
		}
		data = data[uprobePieceSize:]
		if (n+7)&^7 > len(data) {
			return fmt.Errorf("uprobe record of %s is damaged", f.Name)
		}
		if p.Missing == Present {
			p.Bytes = data[:n:n]
		}
		data = data[(n+7)&^7:]
		switch {
		case flags&uprobeFollows != 0:
			if !failed {
				later.pieces = append(later.pieces, p)
				later.have = append(later.have, 0)
			}
		case isPayload(f, &p):
			payloads = append(payloads, p)
		default:
			c.Pieces = append(c.Pieces, p)
		}
	}
	if len(later.pieces) > 0 {
		later.pid, later.seq = pid, c.Seq
		u.parts[tid] = &later
	}
	if err := u.sink.Call(c); err != nil || failed {
		return err
	}
	for _, p := range append(payloads, u.items(f, c)...) {
		if err := u.sink.Payload(&Payload{PID: pid, TID: tid, Seq: c.Seq, Piece: p, Time: c.End}); err != nil {
			return err
		}
	}
	return u.files(f, c)
}

// isPayload reports whether a piece comes after its call, as the shim gives it, though it came from the kernel in one.
func isPayload(f *api.Func, p *Piece) bool {
	if p.Param == uprobeNone {
		return false
	}
	switch param := &f.Params[p.Param]; param.Role {
	case api.Reads, api.Writes:
		return param.ItemSizes < 0
	case api.In:
		return p.Len > uprobeInline
	}
	return false
}

// files hands on the content of the files that a call has read. It is read here, a little later than by the call.
func (u *Uprobes) files(f *api.Func, c *Call) error {
	for _, p := range c.Pieces {
		if p.Missing != Present || p.Param == uprobeNone || f.Params[p.Param].Role != api.File {
			continue
		}
		d := &Payload{PID: c.PID, TID: c.TID, Seq: c.Seq, Time: c.End, Piece: Piece{Param: p.Param, Item: 1}}
		if err := u.file(d, string(p.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

func (u *Uprobes) file(d *Payload, path string) error {
	unreadable := func() error {
		d.Missing, d.Bytes = Unreadable, nil
		return u.sink.Payload(d)
	}
	file, err := u.openOf(d.PID, path)
	if err != nil {
		return unreadable()
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return unreadable()
	}
	d.Len = uint64(info.Size())
	part := make([]byte, min(d.Len, 1<<20))
	for d.Offset < d.Len {
		n, err := io.ReadFull(file, part[:min(uint64(len(part)), d.Len-d.Offset)])
		if err != nil {
			return unreadable()
		}
		d.Bytes = part[:n]
		if err := u.sink.Payload(d); err != nil {
			return err
		}
		d.Offset += uint64(n)
	}
	return nil
}

// openOf opens a file as a process sees it: its links are followed within its root directory, and nothing there can
// make the opening wait. The process may be gone.
func (u *Uprobes) openOf(pid int, path string) (*os.File, error) {
	p := u.processes[pid]
	if p == nil || p.root < 0 {
		return nil, os.ErrNotExist
	}
	if !filepath.IsAbs(path) {
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil {
			cwd = p.cwd
		}
		path = filepath.Join(cwd, path)
	}
	fd, err := unix.Openat2(p.root, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// items returns what the arrays of buffers of a call point to. Its content is not captured.
func (u *Uprobes) items(f *api.Func, c *Call) []Piece {
	bytes := func(param int) []byte {
		for i := range c.Pieces {
			if int(c.Pieces[i].Param) == param {
				return c.Pieces[i].Bytes
			}
		}
		return nil
	}
	var items []Piece
	for i := range f.Params {
		p := &f.Params[i]
		if p.ItemSizes < 0 {
			continue
		}
		sizes := bytes(int(p.ItemSizes))
		addrs := bytes(i)
		for n := 0; 8*n+8 <= len(addrs) && 8*n+8 <= len(sizes); n++ {
			item := Piece{Param: uint8(i), Item: uint32(1 + n), Addr: le64(addrs[8*n:]), Len: le64(sizes[8*n:]), Missing: NotAsked}
			if item.Len > u.opts.PayloadLimit {
				item.Missing = OverLimit
			}
			if p.Role == api.Writes {
				item.Dir = Out
			}
			if w := u.model.Device; item.Addr == 0 || item.Len == 0 || w.From <= item.Addr && item.Addr < w.To {
				continue
			}
			items = append(items, item)
		}
	}
	return items
}

func (u *Uprobes) deliverPart(b []byte) error {
	p := &Payload{PID: int(le32(b[8:])), TID: int(le32(b[12:])), Seq: le64(b[16:]), Offset: le64(b[40:]), Time: int64(le64(b[48:]))}
	p.Piece = Piece{Param: b[1], Missing: Missing(b[3]), Addr: le64(b[24:]), Len: le64(b[32:])}
	if b[2]&uprobePieceOut != 0 {
		p.Dir = Out
	}
	n := int(le32(b[4:]))
	if n > len(b)-uprobePartSize {
		return errors.New("uprobe payload is damaged")
	}
	if p.Missing == Present {
		p.Bytes = b[uprobePartSize:][:n:n]
	}
	ps := u.parts[p.TID]
	if ps == nil || ps.seq != p.Seq {
		// Its call was lost.
		return nil
	}
	for i := range ps.pieces {
		if ps.pieces[i].Param == p.Param {
			ps.have[i] = p.Offset + uint64(n)
			if p.Missing != Present {
				ps.have[i] = p.Len
			}
		}
	}
	return u.sink.Payload(p)
}

// partsEnd reports the payloads of a thread that did not come to their end.
func (u *Uprobes) partsEnd(tid int) error {
	ps := u.parts[tid]
	if ps == nil {
		return nil
	}
	delete(u.parts, tid)
	for i, p := range ps.pieces {
		if ps.have[i] < p.Len {
			p.Missing = Dropped
			if err := u.sink.Payload(&Payload{PID: ps.pid, TID: tid, Seq: ps.seq, Piece: p, Offset: ps.have[i]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftovers delivers what the kernel still holds of threads that live on.
func (u *Uprobes) leftovers() error {
	for tid := range u.parts {
		if err := u.partsEnd(tid); err != nil {
			return err
		}
	}
	const head = 3*8 + 8 + 8 + 8*uprobeMaxWords // before the event, see struct thread
	var id uint64
	var b []byte
	it := u.coll.Maps[bpf.UprobeMapThreads].Iterate()
	for it.Next(&id, &b) {
		ev := b[head:]
		active := binary.LittleEndian.Uint32(b[32:]) != 0
		if active {
			binary.LittleEndian.PutUint32(ev[4:], binary.LittleEndian.Uint32(b[36:]))
			clear(ev[32:48])
		} else {
			ev[0] = uprobeLost
		}
		if err := u.deliver(ev); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read threads of uprobes: %w", err)
	}
	lost, err := u.Lost()
	if err != nil {
		return err
	}
	if lost > u.gaps {
		return u.sink.Gap(&Gap{Calls: lost - u.gaps, Reason: "no memory for more threads"})
	}
	return nil
}

// Counts returns the calls of each function as the kernel counted them, whether they were recorded or lost.
func (u *Uprobes) Counts() (map[string]uint64, error) {
	counts := make(map[string]uint64, len(u.functions))
	for id := range u.functions {
		n, err := perCPU(u.coll.Maps[bpf.UprobeMapCounts], uint32(id))
		if err != nil {
			return nil, fmt.Errorf("count of %s: %w", u.model.Func(id).Name, err)
		}
		counts[u.model.Func(id).Name] = n
	}
	return counts, nil
}

// Lost returns the number of calls that were counted and not recorded.
func (u *Uprobes) Lost() (uint64, error) {
	full, err := perCPU(u.coll.Maps[bpf.UprobeMapCounters], uprobeRingFull)
	if err != nil {
		return 0, fmt.Errorf("lost calls: %w", err)
	}
	threads, err := perCPU(u.coll.Maps[bpf.UprobeMapCounters], uprobeNoThread)
	if err != nil {
		return 0, fmt.Errorf("lost calls: %w", err)
	}
	return full + threads, nil
}

func perCPU(m *ebpf.Map, key uint32) (uint64, error) {
	var each []uint64
	if err := m.Lookup(key, &each); err != nil {
		return 0, err
	}
	var sum uint64
	for _, n := range each {
		sum += n
	}
	return sum, nil
}

// detach takes the probes away, entries first, so that no call is seen half. The kernel waits for programs that run.
func (u *Uprobes) detach() error {
	var errs []error
	for _, ls := range []*[]link.Link{&u.enters, &u.leaves, &u.life} {
		for _, l := range *ls {
			errs = append(errs, l.Close())
		}
		*ls = nil
	}
	return errors.Join(errs...)
}

// Close takes the probes away and frees everything.
func (u *Uprobes) Close() error {
	err := u.detach()
	if u.reader != nil {
		err = errors.Join(err, u.reader.Close())
	}
	if u.coll != nil {
		u.coll.Close()
	}
	for _, p := range u.processes {
		p.close()
	}
	if err != nil {
		return fmt.Errorf("close uprobes: %w", err)
	}
	return nil
}

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// knownProcess is what is kept of a process that the sink was told of.
type knownProcess struct {
	start     int64
	exe, argv string
	root      int // its root directory, -1 where it was gone
	cwd       string
}

// process tells the sink of a process when it is new or has become another program. When its first calls are read it
// may be gone; then the name that the kernel gave is all there is.
func (u *Uprobes) process(pid int, comm string, now int64) error {
	old := u.processes[pid]
	if old != nil && comm == "" {
		return nil
	}
	p := readProcess(pid)
	if p == nil {
		if old != nil {
			return nil
		}
		p = &Process{PID: pid, Start: now, Exe: comm}
	}
	known := &knownProcess{start: p.Start, exe: p.Exe, argv: strings.Join(p.Argv, "\x00"), root: -1}
	if old != nil {
		if old.start == known.start && old.exe == known.exe && old.argv == known.argv {
			return nil
		}
		old.close()
	}
	dir := fmt.Sprintf("/proc/%d/", pid)
	if fd, err := unix.Open(dir+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		known.root = fd
	}
	known.cwd, _ = os.Readlink(dir + "cwd")
	u.processes[pid] = known
	return u.sink.Process(p)
}

func (p *knownProcess) close() {
	if p.root >= 0 {
		unix.Close(p.root)
		p.root = -1
	}
}

// readProcess returns what /proc says, nil where the process is gone.
func readProcess(pid int) *Process {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return nil
	}
	// The name is in brackets and may hold anything; from there on it is numbers: state, parent, ….
	s := string(stat)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return nil
	}
	p := &Process{PID: pid}
	var ticks int64
	fmt.Sscan(fields[1], &p.PPID)
	fmt.Sscan(fields[19], &ticks)
	var mono, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) == nil && unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) == nil {
		// The kernel counts in hundredths of a second since boot, with the time asleep.
		p.Start = ticks*1e7 - (boot.Nano()-mono.Nano())/1e7*1e7
	}
	p.Exe, _ = os.Readlink(dir + "exe")
	if line, err := os.ReadFile(dir + "cmdline"); err == nil {
		p.Argv = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	return p
}
