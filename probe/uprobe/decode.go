package uprobe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/regular"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// Run hands what the probes see to sink until ctx ends. Then it takes the probes away and hands on what is left: calls
// that have not returned come without an end.
func (u *Probes) Run(ctx context.Context, sink probe.Sink) error {
	if u.reader == nil {
		return errors.New("run uprobes: they only count")
	}
	u.sink = sink
	var rec ringbuf.Record
	for ctx.Err() == nil {
		// The kernel wakes the reader seldom, so it looks by itself.
		u.reader.SetDeadline(time.Now().Add(20 * time.Millisecond))
		if err := errors.Join(u.read(ctx, &rec), u.meanwhile()); err != nil {
			return err
		}
	}
	if err := u.Pause(); err != nil {
		return err
	}
	u.ended = probe.Now()
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
func (u *Probes) read(ctx context.Context, rec *ringbuf.Record) error {
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
		if n%1024 != 0 {
			continue
		}
		if err := u.meanwhile(); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func (u *Probes) meanwhile() error {
	u.tidy()
	u.kernels.tidy(probe.Now())
	if u.opts.Meanwhile == nil {
		return nil
	}
	return u.opts.Meanwhile()
}

func (u *Probes) deliver(b []byte) error {
	if len(b) < headSize {
		return fmt.Errorf("uprobe record of %d bytes", len(b))
	}
	if b[0] == eventPayload {
		return u.deliverPart(b)
	}
	kind, pid, tid := b[0], int(le32(b[8:])), int(le32(b[12:]))
	lost, from, to := le64(b[16:]), int64(le64(b[24:])), int64(le64(b[32:]))
	b = b[headSize:]
	if kind == eventThread {
		if len(b) < 24 {
			return fmt.Errorf("uprobe record of a thread of %d bytes", len(b))
		}
		comm, _, _ := strings.Cut(string(b[8:24]), "\x00")
		delete(u.seqs, tid)
		return u.process(pid, comm, int64(le64(b)))
	}
	if err := u.partsEnd(tid); err != nil {
		return err
	}
	if lost > 0 {
		u.gaps += lost
		if err := u.sink.Gap(&probe.Gap{PID: pid, TID: tid, From: from, To: to, Calls: lost, Reason: "ring full"}); err != nil {
			return err
		}
	}
	seq := u.seqs[tid]
	for len(b) >= eventSize {
		n := eventSize + int(le16(b[2:]))
		if n > len(b) {
			return fmt.Errorf("uprobe record of function %d is damaged", le16(b))
		}
		// Numbers have 32 bits there. A call that encloses others comes after them with a lower one.
		seq += uint64(int32(le32(b[4:]) - uint32(seq)))
		if err := u.deliverCall(b[:n], pid, tid, seq); err != nil {
			return err
		}
		b = b[n:]
	}
	u.seqs[tid] = seq
	return nil
}

func (u *Probes) deliverCall(b []byte, pid, tid int, seq uint64) error {
	c := &probe.Call{
		PID: pid, TID: tid,
		Func: api.ID(le16(b)),
		Seq:  seq, Start: int64(le64(b[8:])), End: int64(le64(b[16:])), Ret: le64(b[24:]),
	}
	f := u.model.Func(c.Func)
	data := b[eventSize:]
	if f == nil || len(data) < 8*int(f.Words) {
		return fmt.Errorf("uprobe record of function %d is damaged", c.Func)
	}
	if err := u.process(pid, "", c.Start); err != nil {
		return err
	}
	c.Words = make([]uint64, f.Words)
	for i := range c.Words {
		c.Words[i] = le64(data[8*i:])
	}
	data = data[8*len(c.Words):]
	failed := c.Unfinished() || f.RetError && c.Ret != 0
	var later partial
	var payloads []probe.Piece
	var args uint64 // parameters that arguments of kernels are behind
	for len(data) >= shortPieceSize {
		p := probe.Piece{Param: data[0], Missing: probe.Missing(data[2]), Item: uint32(data[3])}
		flags, n := data[1], int(le32(data[4:]))
		switch {
		case flags&pieceShort == 0 && len(data) >= pieceSize:
			p.Addr, p.Len = le64(data[8:]), le64(data[16:])
			data = data[pieceSize:]
		case flags&pieceShort != 0 && int(p.Param) < len(f.Params):
			p.Addr, p.Len = c.Words[f.Params[p.Param].Word], uint64(n)
			data = data[shortPieceSize:]
		default:
			return fmt.Errorf("uprobe record of %s is damaged", f.Name)
		}
		if flags&pieceOut != 0 {
			p.Dir = probe.Out
		}
		if p.Missing == probe.NotSynchronized {
			p.Missing = probe.Unawaited // it may come yet, but nobody looks
		}
		if (n+7)&^7 > len(data) {
			return fmt.Errorf("uprobe record of %s is damaged", f.Name)
		}
		if p.Missing == probe.Present {
			p.Bytes = data[:n:n]
		}
		data = data[(n+7)&^7:]
		switch {
		case flags&pieceParams != 0 && int(p.Param) < len(f.Params):
			args |= 1 << p.Param
			c.Pieces = append(c.Pieces, u.kernels.params(p, c.Start, c.Words[f.Params[p.Param].Word], p.Bytes)...)
		case flags&pieceFollows != 0:
			later.expect([]probe.Piece{p})
		case isPayload(f, &p):
			payloads = append(payloads, p)
		default:
			c.Pieces = append(c.Pieces, p)
		}
	}
	c.Pieces = append(c.Pieces, unsized(f, c.Words, args)...)
	u.kernels.call(f, c)
	items := later.expect(u.items(f, func(param int) []byte {
		for i := range c.Pieces {
			if int(c.Pieces[i].Param) == param {
				return c.Pieces[i].Bytes
			}
		}
		return nil
	}))
	if len(later.pieces) > 0 && !failed {
		later.f, later.pid, later.seq = f, pid, c.Seq
		u.parts[tid] = &later
	}
	if err := u.sink.Call(c); err != nil || failed {
		return err
	}
	for _, p := range append(payloads, items...) {
		if err := u.payload(&probe.Payload{PID: pid, TID: tid, Seq: c.Seq, Piece: p, Time: c.End}); err != nil {
			return err
		}
	}
	return u.files(f, c)
}

// unsized returns the memory behind the parameters of a call whose size only the runtime could tell, but for some that are there.
func unsized(f *api.Func, words []uint64, there uint64) (ps []probe.Piece) {
	for i := range f.Params {
		p := &f.Params[i]
		if _, ok := readerOf(f, i); ok && p.Role != api.ArgArray || words[p.Word] == 0 || there>>i&1 != 0 {
			continue
		}
		switch p.Role {
		case api.In:
			if !p.Size.Stored {
				continue
			}
		case api.ArgArray:
		default:
			continue
		}
		ps = append(ps, probe.Piece{Param: uint8(i), Addr: words[p.Word], Missing: probe.UnknownSize})
	}
	return ps
}

func (u *Probes) payload(p *probe.Payload) error {
	u.kernels.content(p.TID, p.Seq, &p.Piece, p.Offset)
	return u.sink.Payload(p)
}

// isPayload reports whether a piece comes after its call, as the shim gives it, though it came from the kernel in one.
func isPayload(f *api.Func, p *probe.Piece) bool {
	if p.Param == none {
		return false
	}
	switch param := &f.Params[p.Param]; param.Role {
	case api.Reads, api.Writes:
		return param.ItemSizes < 0
	case api.In, api.Struct, api.Image:
		return p.Len > inlineBytes
	}
	return false
}

// files hands on the content of the files that a call has read. It is read here, a little later than by the call.
func (u *Probes) files(f *api.Func, c *probe.Call) error {
	for _, p := range c.Pieces {
		if p.Missing != probe.Present || p.Param == none || f.Params[p.Param].Role != api.File {
			continue
		}
		d := &probe.Payload{PID: c.PID, TID: c.TID, Seq: c.Seq, Time: c.End, Piece: probe.Piece{Param: p.Param, Item: 1}}
		if err := u.file(d, string(p.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

func (u *Probes) file(d *probe.Payload, path string) error {
	unreadable := func() error {
		d.Missing, d.Bytes = probe.Unreadable, nil
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
		if err := u.payload(d); err != nil {
			return err
		}
		d.Offset += uint64(n)
	}
	return nil
}

// openOf opens a file as a process sees it: its links are followed within its root directory, and nothing there can
// make the opening wait. The process may be gone.
func (u *Probes) openOf(pid int, path string) (*os.File, error) {
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

// expect adds pieces that come after the call, and returns the others.
func (ps *partial) expect(pieces []probe.Piece) (others []probe.Piece) {
	for _, p := range pieces {
		if p.Missing != probe.Present {
			others = append(others, p)
			continue
		}
		ps.pieces = append(ps.pieces, p)
		ps.have = append(ps.have, 0)
	}
	return others
}

// items returns what the arrays of buffers of a call point to, given their content by parameter: what is Present comes in parts of its own.
func (u *Probes) items(f *api.Func, bytes func(param int) []byte) []probe.Piece {
	var items []probe.Piece
	for i := range f.Params {
		p := &f.Params[i]
		if p.ItemSizes < 0 || p.Role != api.Reads && p.Role != api.Writes {
			continue
		}
		sizes := bytes(int(p.ItemSizes))
		addrs := bytes(i)
		for n := 0; 8*n+8 <= len(addrs) && 8*n+8 <= len(sizes); n++ {
			item := probe.Piece{Param: uint8(i), Item: uint32(1 + n), Addr: le64(addrs[8*n:]), Len: le64(sizes[8*n:])}
			if w := u.model.Device; item.Addr == 0 || item.Len == 0 || w.From <= item.Addr && item.Addr < w.To {
				continue
			}
			if p.Role == api.Writes {
				item.Dir = probe.Out
			}
			switch {
			case item.Len > u.opts.PayloadLimit, !u.sleepable, n >= maxItems:
				item.Missing = probe.OverLimit
			case item.Dir == probe.Out && f.Stream >= 0:
				item.Missing = probe.Unawaited
			}
			items = append(items, item)
		}
	}
	return items
}

func (u *Probes) deliverPart(b []byte) error {
	if len(b) < partSize {
		return fmt.Errorf("uprobe payload of %d bytes", len(b))
	}
	p := &probe.Payload{PID: int(le32(b[8:])), TID: int(le32(b[12:])), Seq: le64(b[16:]), Offset: le64(b[40:]), Time: int64(le64(b[48:]))}
	p.Piece = probe.Piece{Param: b[1], Missing: probe.Missing(b[3]), Item: le32(b[56:]), Addr: le64(b[24:]), Len: le64(b[32:])}
	if b[2]&pieceOut != 0 {
		p.Dir = probe.Out
	}
	n := int(le32(b[4:]))
	if n > len(b)-partSize {
		return errors.New("uprobe payload is damaged")
	}
	if p.Missing == probe.Present {
		p.Bytes = b[partSize:][:n:n]
	}
	ps := u.parts[p.TID]
	if ps == nil || uint32(ps.seq) != uint32(p.Seq) {
		// Its call was lost.
		return nil
	}
	p.Seq = ps.seq
	for range ps.pieces { // they come in this order
		if i := ps.at; ps.pieces[i].Param == p.Param && ps.pieces[i].Item == p.Item {
			ps.have[i] = p.Offset + uint64(n)
			if p.Missing != probe.Present {
				ps.have[i] = p.Len
			}
			break
		}
		ps.at = (ps.at + 1) % len(ps.pieces)
	}
	if err := u.payload(p); err != nil || p.Item != 0 || p.Missing != probe.Present {
		return err
	}
	return u.itemsLater(ps, p)
}

// itemsLater adds the buffers of arrays that are too large to come with their call, once they are there.
func (u *Probes) itemsLater(ps *partial, part *probe.Payload) error {
	if !slices.ContainsFunc(ps.f.Params, func(p api.Param) bool { return p.ItemSizes >= 0 }) {
		return nil
	}
	if ps.arrays == nil {
		ps.arrays = map[int][]byte{}
	}
	ps.arrays[int(part.Param)] = append(ps.arrays[int(part.Param)], part.Bytes...)
	for i, p := range ps.pieces {
		if p.Item != 0 || ps.have[i] < p.Len {
			return nil
		}
	}
	for _, p := range ps.expect(u.items(ps.f, func(param int) []byte { return ps.arrays[param] })) {
		if err := u.sink.Payload(&probe.Payload{PID: ps.pid, TID: part.TID, Seq: ps.seq, Piece: p, Time: part.Time}); err != nil {
			return err
		}
	}
	return nil
}

// partsEnd reports the payloads of a thread that did not come to their end.
func (u *Probes) partsEnd(tid int) error {
	ps := u.parts[tid]
	if ps == nil {
		return nil
	}
	delete(u.parts, tid)
	for i, p := range ps.pieces {
		if ps.have[i] < p.Len {
			p.Missing = probe.Dropped
			if err := u.sink.Payload(&probe.Payload{PID: ps.pid, TID: tid, Seq: ps.seq, Piece: p, Offset: ps.have[i]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftovers delivers what the kernel still holds of threads that live on.
func (u *Probes) leftovers() error {
	for tid := range u.parts {
		if err := u.partsEnd(tid); err != nil {
			return err
		}
	}
	var id, left uint64
	var b []byte
	it := u.coll.Maps[bpf.UprobeMapThreads].Iterate()
	for it.Next(&id, &b) {
		n, err := u.leftover(b)
		if err != nil {
			return err
		}
		left += n
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read threads of uprobes: %w", err)
	}
	lost, _, err := u.Lost()
	if err != nil {
		return err
	}
	if lost += left; lost > u.gaps {
		return u.sink.Gap(&probe.Gap{Calls: lost - u.gaps, Reason: "no memory for more threads"})
	}
	return nil
}

// leftover delivers what the kernel still holds of a thread, and returns how many calls are lost beyond those that it
// has counted.
func (u *Probes) leftover(b []byte) (left uint64, err error) {
	ring := b[headAt:]
	n := headSize + int(le32(b[48:])) // with the calls that wait for others
	ev := ring[n:]
	ring[0] = eventCall
	active, skipped := le32(b[32:]) != 0, le32(b[40:]) != 0
	if active && !skipped {
		binary.LittleEndian.PutUint16(ev[2:], uint16(le32(b[36:])))
		clear(ev[16:32])
		n += eventSize + int(le32(b[36:]))
	}
	if err := u.deliver(ring[:n]); err != nil || !active || !skipped {
		return 0, err
	}
	// The call that the thread is in is left out, and comes behind those.
	binary.LittleEndian.PutUint64(ring[16:], 1)
	copy(ring[24:], ev[8:16])
	copy(ring[32:], ev[8:16])
	return 1, u.deliver(ring[:headSize])
}

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
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
func (u *Probes) process(pid int, comm string, now int64) error {
	old := u.processes[pid]
	if old != nil && comm == "" {
		return nil
	}
	p := readProcess(pid)
	if p == nil {
		if old != nil {
			return nil
		}
		p = &probe.Process{PID: pid, Local: pid, Start: now, Exe: comm}
	}
	known := &knownProcess{start: p.Start, exe: p.Exe, argv: strings.Join(p.Argv, "\x00"), root: -1}
	if old != nil {
		if old.start == known.start && old.exe == known.exe && old.argv == known.argv {
			return nil
		}
		old.close()
		u.kernels.leave(pid, probe.Now())
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

// maxArguments is longer than what the kernel takes at the start of a program; a running one can say that it has more.
const maxArguments = 8 << 20

// readProcess returns what /proc says, nil where the process is gone.
func readProcess(pid int) *probe.Process {
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
	p := &probe.Process{PID: pid, Local: pid}
	var ticks int64
	fmt.Sscan(fields[1], &p.PPID)
	fmt.Sscan(fields[19], &ticks)
	var mono, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) == nil && unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) == nil {
		// The kernel counts in hundredths of a second since boot, with the time asleep.
		p.Start = ticks*1e7 - (boot.Nano()-mono.Nano())/1e7*1e7
	}
	p.Exe, _ = os.Readlink(dir + "exe")
	if line, err := regular.ReadFile(dir+"cmdline", maxArguments); err == nil {
		p.Argv = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	return p
}
