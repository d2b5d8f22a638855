package uprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// decoder turns records of the programs into calls and payloads for the sink.
type decoder struct {
	model     *api.Model
	limit     uint64 // Options.PayloadLimit
	sleepable bool   // see programs
	kernels   *kernels
	callers   *callers
	sink      probe.Sink
	processes map[int]*knownProcess
	parts     map[int]*partial // by thread
	seqs      map[int]uint64   // latest call number, by thread
	names     map[int]string   // at the first call, by thread
	gaps      uint64           // calls in delivered gaps
	ended     bool             // the recording: calls of live threads without an end are cut
}

func newDecoder(m *api.Model, limit uint64, sleepable bool, k *kernels, c *callers) decoder {
	return decoder{model: m, limit: limit, sleepable: sleepable, kernels: k, callers: c, processes: map[int]*knownProcess{}, parts: map[int]*partial{}, seqs: map[int]uint64{}, names: map[int]string{}}
}

// partial is the state of a call whose payloads arrive in parts.
type partial struct {
	f      *api.Func
	pid    int
	pieces []probe.Piece
	seq    uint64
	have   []uint64
	at     int            // index of the piece that the latest part belongs to
	arrays map[int][]byte // content of arrays of buffers so far, by parameter
}

func (d *decoder) deliver(b []byte) error {
	if len(b) < headSize {
		return fmt.Errorf("uprobe record of %d bytes", len(b))
	}
	if b[0] == eventPayload {
		return d.deliverPart(b)
	}
	kind, pid, tid := b[0], int(le32(b[8:])), int(le32(b[12:]))
	lost, from, to := le64(b[16:]), int64(le64(b[24:])), int64(le64(b[32:]))
	b = b[headSize:]
	if kind == eventThread {
		if len(b) < 24 {
			return fmt.Errorf("uprobe record of a thread of %d bytes", len(b))
		}
		comm, _, _ := strings.Cut(string(b[8:24]), "\x00")
		delete(d.seqs, tid)
		d.names[tid] = comm
		return d.process(pid, comm, int64(le64(b)))
	}
	if kind == eventInner {
		if len(b) < 16 {
			return fmt.Errorf("uprobe record of an inner call of %d bytes", len(b))
		}
		if at := int64(le64(b[8:])); !d.callers.runtime(pid, le64(b)) {
			return d.sink.Gap(&probe.Gap{PID: pid, TID: tid, From: at, To: at, Calls: 1, Reason: probe.Nested})
		}
		return nil
	}
	if err := d.partsEnd(tid); err != nil {
		return err
	}
	if lost > 0 {
		d.gaps += lost
		if err := d.sink.Gap(&probe.Gap{PID: pid, TID: tid, From: from, To: to, Calls: lost, Reason: probe.RingFull}); err != nil {
			return err
		}
	}
	seq := d.seqs[tid]
	for len(b) >= eventSize {
		n := eventSize + int(le16(b[2:]))
		if n > len(b) {
			return fmt.Errorf("uprobe record of function %d is damaged", le16(b))
		}
		// The record has the low 32 bits. An enclosing call comes after its nested calls and has a lower number.
		seq += uint64(int32(le32(b[4:]) - uint32(seq)))
		if err := d.deliverCall(b[:n], pid, tid, seq); err != nil {
			return err
		}
		b = b[n:]
	}
	d.seqs[tid] = seq
	return nil
}

func (d *decoder) deliverCall(b []byte, pid, tid int, seq uint64) error {
	c := &probe.Call{
		PID: pid, TID: tid,
		Func: api.ID(le16(b)),
		Seq:  seq, Start: int64(le64(b[8:])), End: int64(le64(b[16:])), Ret: le64(b[24:]),
	}
	if c.NoEnd = c.Unfinished() && c.Ret == unseen; c.NoEnd {
		c.Ret = 0
	}
	c.Cut = d.ended && c.Unfinished() && !c.NoEnd && !errors.Is(unix.Tgkill(pid, tid, 0), unix.ESRCH)
	f := d.model.Func(c.Func)
	data := b[eventSize:]
	if f == nil || len(data) < 8*int(f.Words) {
		return fmt.Errorf("uprobe record of function %d is damaged", c.Func)
	}
	if err := d.process(pid, "", c.Start); err != nil {
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
	var args uint64 // bit set of the parameters with decoded kernel arguments
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
			p.Missing = probe.Unawaited // uprobes do not follow waits
		}
		if (n+7)&^7 > len(data) {
			return fmt.Errorf("uprobe record of %s is damaged", f.Name)
		}
		if p.Missing == probe.Present {
			p.Bytes = data[:n:n]
		}
		data = data[(n+7)&^7:]
		switch {
		case flags&pieceCaller != 0:
			if d.callers.runtime(pid, p.Addr) {
				return nil
			}
		case flags&pieceParams != 0 && int(p.Param) < len(f.Params):
			args |= 1 << p.Param
			c.Pieces = append(c.Pieces, d.kernels.params(p, c.Start, c.Words[f.Params[p.Param].Word], p.Bytes)...)
		case flags&pieceFollows != 0:
			later.expect([]probe.Piece{p})
		case isPayload(f, &p):
			payloads = append(payloads, p)
		default:
			c.Pieces = append(c.Pieces, p)
		}
	}
	c.Pieces = append(c.Pieces, unsized(f, c.Words, args)...)
	d.kernels.call(f, c)
	items := later.expect(d.items(f, func(param int) []byte {
		for i := range c.Pieces {
			if int(c.Pieces[i].Param) == param {
				return c.Pieces[i].Bytes
			}
		}
		return nil
	}))
	if len(later.pieces) > 0 && !failed {
		later.f, later.pid, later.seq = f, pid, c.Seq
		d.parts[tid] = &later
	}
	if err := d.sink.Call(c); err != nil || failed {
		return err
	}
	for _, p := range append(payloads, items...) {
		if err := d.payload(&probe.Payload{PID: pid, TID: tid, Seq: c.Seq, Piece: p, Time: c.End}); err != nil {
			return err
		}
	}
	return d.files(f, c)
}

// unsized returns the pieces whose size only the runtime knows. The bit set there excludes parameters that have pieces.
func unsized(f *api.Func, words []uint64, there uint64) (ps []probe.Piece) {
	for i := range f.Params {
		p := &f.Params[i]
		if _, ok := readerOf(f, i); ok && p.Role != api.ArgArray || words[p.Word] == 0 || there>>i&1 != 0 {
			continue
		}
		if p.Role == api.ArgArray || p.Role == api.In && p.Size.Stored {
			ps = append(ps, probe.Piece{Param: uint8(i), Addr: words[p.Word], Missing: probe.UnknownSize})
		}
	}
	return ps
}

func (d *decoder) payload(p *probe.Payload) error {
	d.kernels.content(p.TID, p.Seq, &p.Piece, p.Offset)
	return d.sink.Payload(p)
}

// isPayload reports whether a piece is delivered as a payload after its call, as the shim does, although the kernel sent it
// with the call.
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

// files delivers the content of files that a call has read. It reads them a little later than the call did.
func (d *decoder) files(f *api.Func, c *probe.Call) error {
	for _, p := range c.Pieces {
		if p.Missing != probe.Present || p.Param == none || f.Params[p.Param].Role != api.File {
			continue
		}
		out := &probe.Payload{PID: c.PID, TID: c.TID, Seq: c.Seq, Time: c.End, Piece: probe.Piece{Param: p.Param, Item: 1}}
		if err := d.file(out, string(p.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) file(out *probe.Payload, path string) error {
	unreadable := func() error {
		out.Missing, out.Bytes = probe.Unreadable, nil
		return d.sink.Payload(out)
	}
	file, err := d.openOf(out.PID, path)
	if err != nil {
		return unreadable()
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return unreadable()
	}
	out.Len = uint64(info.Size())
	part := make([]byte, min(out.Len, 1<<20))
	for out.Offset < out.Len {
		n, err := io.ReadFull(file, part[:min(uint64(len(part)), out.Len-out.Offset)])
		if err != nil {
			return unreadable()
		}
		out.Bytes = part[:n]
		if err := d.payload(out); err != nil {
			return err
		}
		out.Offset += uint64(n)
	}
	return nil
}

// openOf opens a file by a process's path. It resolves links inside the process's root directory and never blocks. The
// process may have ended.
func (d *decoder) openOf(pid int, path string) (*os.File, error) {
	p := d.processes[pid]
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

// expect adds the pieces that arrive after the call, and returns the others.
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

// items returns the buffers that arrays point to, given the arrays' content by parameter. Present ones arrive in parts.
func (d *decoder) items(f *api.Func, bytes func(param int) []byte) []probe.Piece {
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
			if w := d.model.Device; item.Addr == 0 || item.Len == 0 || w.From <= item.Addr && item.Addr < w.To {
				continue
			}
			if p.Role == api.Writes {
				item.Dir = probe.Out
			}
			switch {
			case item.Len > d.limit, !d.sleepable, n >= maxItems:
				item.Missing = probe.OverLimit
			case item.Dir == probe.Out && f.Stream >= 0:
				item.Missing = probe.Unawaited
			}
			items = append(items, item)
		}
	}
	return items
}

func (d *decoder) deliverPart(b []byte) error {
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
	ps := d.parts[p.TID]
	if ps == nil || uint32(ps.seq) != uint32(p.Seq) {
		// The call was lost.
		return nil
	}
	p.Seq = ps.seq
	for range ps.pieces { // parts arrive in this order
		if i := ps.at; ps.pieces[i].Param == p.Param && ps.pieces[i].Item == p.Item {
			ps.have[i] = p.Offset + uint64(n)
			if p.Missing != probe.Present {
				ps.have[i] = p.Len
			}
			break
		}
		ps.at = (ps.at + 1) % len(ps.pieces)
	}
	if err := d.payload(p); err != nil || p.Item != 0 || p.Missing != probe.Present {
		return err
	}
	return d.itemsLater(ps, p)
}

// itemsLater adds the buffers of arrays that arrived in parts, once the arrays are complete.
func (d *decoder) itemsLater(ps *partial, part *probe.Payload) error {
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
	for _, p := range ps.expect(d.items(ps.f, func(param int) []byte { return ps.arrays[param] })) {
		if err := d.sink.Payload(&probe.Payload{PID: ps.pid, TID: part.TID, Seq: ps.seq, Piece: p, Time: part.Time}); err != nil {
			return err
		}
	}
	return nil
}

// partsEnd reports a thread's incomplete payloads as dropped.
func (d *decoder) partsEnd(tid int) error {
	ps := d.parts[tid]
	if ps == nil {
		return nil
	}
	delete(d.parts, tid)
	for i, p := range ps.pieces {
		if ps.have[i] < p.Len {
			p.Missing = probe.Dropped
			if err := d.sink.Payload(&probe.Payload{PID: ps.pid, TID: tid, Seq: ps.seq, Piece: p, Offset: ps.have[i]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftover delivers a thread's records that are still in the kernel. It returns the lost calls that the programs have not
// counted.
func (d *decoder) leftover(b []byte) (left uint64, err error) {
	ring := b[headAt:]
	n := headSize + int(le32(b[48:])) // with the held calls
	ev := ring[n:]
	ring[0] = eventCall
	active, skipped := le32(b[32:]) != 0, le32(b[40:]) != 0
	if active && !skipped {
		binary.LittleEndian.PutUint16(ev[2:], uint16(le32(b[36:])))
		clear(ev[16:24])
		n += eventSize + int(le32(b[36:]))
	}
	if err := d.deliver(ring[:n]); err != nil || !active || !skipped {
		return 0, err
	}
	// The call in progress was sampled out. Its gap follows the others.
	binary.LittleEndian.PutUint64(ring[16:], 1)
	copy(ring[24:], ev[8:16])
	copy(ring[32:], ev[8:16])
	return 1, d.deliver(ring[:headSize])
}

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
