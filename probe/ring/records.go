package ring

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe"
)

// record decodes one record and delivers it. It returns errRing if the shim can't have written it.
func (r *ring) record(s *Session, sink probe.Sink, b []byte, state byte) error {
	switch b[6] {
	case recCall:
		c, err := r.call(s, b, state)
		if err != nil {
			return err
		}
		r.save()
		return sink.Call(c)
	case recBegin:
		c, err := r.call(s, b, stateEntered)
		if err != nil {
			return err
		}
		if err := r.endOuter(sink); err != nil {
			return err
		}
		outer := copyCall(c) // c shares memory with the next records
		r.outer, r.begun = &outer, false
	case recEnd:
		return r.end(s, sink, b)
	case recPayload:
		return r.payload(s, sink, b)
	case recTime:
		return r.time(s, sink, b)
	case recOwner:
		return r.handOver(s, sink, b)
	case recLost:
		if len(b) < lostBytes {
			return errRing
		}
		n := le.Uint64(b[8:])
		if !s.possible(n) {
			return errRing
		}
		g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(le.Uint64(b[16:])), To: s.clock.nanoseconds(le.Uint64(b[24:])), Calls: n, Reason: probe.RingFull}
		if le.Uint16(b[4:]) == lostNested {
			g.Reason = probe.Nested
		}
		r.seq += n
		if g.Reason != probe.Nested { // finish has reported the first of them if it found the thread without room
			known := min(n, r.head.ahead.Load())
			g.Calls = n - known
			r.head.ahead.Add(-known)
		}
		r.lost += g.Calls
		if r.save(); g.Calls == 0 {
			return nil
		}
		return sink.Gap(&g)
	default:
		return errRing
	}
	return nil
}

// handOver ends the calls of a ring's thread, and begins those of the next one.
func (r *ring) handOver(s *Session, sink probe.Sink, b []byte) error {
	if len(b) < ownerBytes {
		return errRing
	}
	o, lost := readOwner(b), le.Uint64(b[32:])
	if o.first < r.seq || !s.possible(o.first-r.seq) || !s.possible(lost) {
		return errRing
	}
	if err := r.endOuter(sink); err != nil {
		return err
	}
	// The thread may have lost calls since its last record. finish has reported the first of them if it found the thread without room.
	end := s.clock.nanoseconds(le.Uint64(b[16:]))
	g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: cmp.Or(r.lastTime, end), To: end, Calls: lost - min(lost, r.lost), Reason: probe.RingFull}
	r.seq, r.lost = o.first, r.lost+g.Calls
	r.countCalls(s)
	r.setOwner(s, o)
	next := r.head.marked.Load() ^ 2
	r.head.owner[next>>1&1] = o.ringOwner
	r.head.ahead.Store(r.lost - lost)
	r.saveAs(next ^ 1)
	if g.Calls == 0 {
		return nil
	}
	return sink.Gap(&g)
}

// readOwner decodes an owner record.
func readOwner(b []byte) owner {
	o := owner{ringOwner: ringOwner{tid: le.Uint32(b[8:]), generation: le.Uint32(b[12:])}, first: le.Uint64(b[24:])}
	copy(o.name[:], b[40:ownerBytes])
	return o
}

// end completes the enclosing call.
func (r *ring) end(s *Session, sink probe.Sink, b []byte) error {
	c := r.outer
	if c == nil && r.begun {
		r.begun = false // an earlier recorder has taken the call
		return nil
	}
	if len(b) < callHeader || c == nil || le.Uint16(b[4:]) != uint16(c.Func) {
		return errRing
	}
	c.End, c.Ret = max(after(s.clock.nanoseconds(le.Uint64(b[16:])), r.lastTime), c.Start, 1), le.Uint64(b[24:])
	r.lastTime, r.recording = c.End, 0 // the payload time is part of the call
	if err := readPieces(c, s.model.Func(c.Func), b[callHeader:]); err != nil {
		return err
	}
	return r.endOuter(sink)
}

// call decodes a call record. The call refers to the memory of b.
func (r *ring) call(s *Session, b []byte, state byte) (*probe.Call, error) {
	if len(b) < callHeader || len(r.list) == 0 {
		return nil, errRing
	}
	words := int(b[32])
	f := s.model.Func(api.ID(le.Uint16(b[4:])))
	if f == nil || words != int(f.Words) || len(b) < callHeader+8*words {
		return nil, errRing
	}
	c := &r.current
	*c = probe.Call{PID: int(r.pid), TID: int(r.tid), Seq: r.list[r.at].number(r.seq), Func: f.ID, Start: after(s.clock.nanoseconds(le.Uint64(b[8:])), r.lastTime), Blocked: int64(le.Uint32(b[36:])) * blockedUnit, Recording: r.recording, Pieces: c.Pieces[:0]}
	c.Kept = b[33] != 0
	r.lastTime, r.recording = c.Start, 0
	if end := le.Uint64(b[16:]); state == stateDone {
		c.End, c.Ret = max(s.clock.nanoseconds(end), c.Start), le.Uint64(b[24:])
		if c.End == 0 {
			c.End = 1
		}
		r.lastTime = c.End
	}
	r.seq++
	c.Words = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b[callHeader:]))), words)
	return c, readPieces(c, f, b[callHeader+8*words:])
}

// readPieces decodes the pieces that follow a call.
func readPieces(c *probe.Call, f *api.Func, rest []byte) error {
	for len(rest) > 0 {
		if len(rest) < pieceHeader {
			return errRing
		}
		flags, n := rest[1], int(le.Uint32(rest[4:]))
		p := probe.Piece{Param: rest[0], Missing: probe.Missing(rest[2]), Len: uint64(n)}
		if flags&pieceOut != 0 {
			p.Dir = probe.Out
		}
		rest = rest[pieceHeader:]
		if flags&far != 0 {
			if len(rest) < 24 {
				return errRing
			}
			p.Addr, p.Len, p.Item = le.Uint64(rest), le.Uint64(rest[8:]), le.Uint32(rest[16:])
			rest = rest[24:]
		} else if int(p.Param) < len(f.Params) {
			p.Addr = c.Words[f.Params[p.Param].Word]
		}
		if flags&pieceBytes != 0 {
			padded := (n + 7) &^ 7
			if padded > len(rest) {
				return errRing
			}
			p.Bytes = rest[:n:n]
			rest = rest[padded:]
		}
		c.Pieces = append(c.Pieces, p)
	}
	return nil
}

// copyCall returns a call with its own memory.
func copyCall(c *probe.Call) probe.Call {
	n := *c
	n.Words, n.Pieces = slices.Clone(c.Words), slices.Clone(c.Pieces)
	for i := range n.Pieces {
		n.Pieces[i].Bytes = bytes.Clone(n.Pieces[i].Bytes)
	}
	return n
}

// callOf returns the thread of a call and the call's number there, from the call's slot and its number in the ring. ok is false if an
// earlier recorder has read the call. The thread may have got its ring since the last look.
func (s *Session) callOf(sink probe.Sink, slot int, seq uint64) (id threadID, number uint64, ok bool, err error) {
	if slot >= maxSlots {
		return id, 0, false, errRing
	}
	r := s.rings.at(slot)
	if r == nil || r.released {
		if err := s.open(sink); err != nil {
			return id, 0, false, err
		}
		r = s.rings.at(slot)
	}
	if r == nil || r.slot == nil {
		return id, 0, false, errRing
	}
	if seq < r.firstSeq {
		return id, 0, false, nil
	}
	if seq >= r.seq && r.handedOn(s) {
		r.lookAhead()
	}
	if len(r.list) == 0 {
		return id, 0, false, errRing
	}
	o := r.of(seq)
	return threadID{r.pid, o.tid}, o.number(seq), true, nil
}

func (r *ring) payload(s *Session, sink probe.Sink, b []byte) error {
	if len(b) < payloadHeader {
		return errRing
	}
	n := int(le.Uint32(b[60:]))
	slot := int(le.Uint32(b[8:]))
	bytes := b[payloadHeader:]
	if chunk := int(le.Uint32(b[64:])) - 1; chunk >= 0 {
		if n > arenaChunk || (chunk+1)*arenaChunk > len(s.files.arena) {
			return errRing
		}
		s.rings.part = append(s.rings.part[:0], s.files.arena[chunk*arenaChunk:][:n]...)
		bytes = s.rings.part
		s.files.ctl.arenaFree[chunk/64].Or(1 << (chunk % 64))
		defer s.yieldAfter(uint64(n))
	}
	if n > len(bytes) {
		return errRing
	}
	th, seq, ok, err := s.callOf(sink, slot, le.Uint64(b[16:]))
	if err != nil || !ok {
		return err
	}
	p := probe.Payload{PID: int(th.pid), TID: int(th.tid), Seq: seq, Offset: le.Uint64(b[40:]), Time: s.clock.nanoseconds(le.Uint64(b[48:]))}
	p.Piece = probe.Piece{Param: b[12], Missing: probe.Missing(b[14]), Addr: le.Uint64(b[24:]), Len: le.Uint64(b[32:]), Item: le.Uint32(b[56:]), Bytes: bytes[:n:n]}
	if b[13]&pieceOut != 0 {
		p.Dir = probe.Out
	}
	p.Early = b[13]&pieceEarly != 0
	if s.files.arenaGone && le.Uint32(b[64:]) != 0 {
		p.Missing, p.Bytes = probe.Unreadable, nil
	}
	// The time belongs to the thread that wrote the record. Another thread may have made the call.
	p.Recording = s.clock.duration(uint64(le.Uint32(b[68:])) * recordingTicks)
	r.recording += p.Recording
	return sink.Payload(&p)
}

func (r *ring) time(s *Session, sink probe.Sink, b []byte) error {
	if len(b) < timeBytes {
		return errRing
	}
	th, seq, ok, err := s.callOf(sink, int(le.Uint32(b[8:])), le.Uint64(b[16:]))
	if err != nil || !ok {
		return err
	}
	t := probe.TaskTime{PID: int(th.pid), TID: int(th.tid), Seq: seq, Device: int(int32(le.Uint32(b[12:]))) - 1, Stream: le.Uint64(b[24:]),
		Issued: s.clock.nanoseconds(le.Uint64(b[32:])), Closed: s.clock.nanoseconds(le.Uint64(b[40:])), Seen: s.clock.nanoseconds(le.Uint64(b[48:])),
		From: int64(le.Uint64(b[56:])) * 1000, To: int64(le.Uint64(b[64:])) * 1000, Elapsed: int64(math.Round(float64(math.Float32frombits(le.Uint32(b[72:]))) * 1e6))}
	return sink.TaskTime(&t)
}
