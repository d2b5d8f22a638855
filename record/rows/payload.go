package rows

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// Payloads are a recording's incomplete payloads, and counts.
type Payloads struct {
	Cut bool // the file has reached nine tenths of its limit: payloads are not stored any more
	// Early counts asynchronous copies from pinned memory, which the program may have changed meanwhile.
	Early uint64
	// Unkept counts bytes that are accessible without a call and whose content is not in the trace.
	Unkept       uint64
	Unsized      uint64                // launches whose arguments are missing, since their size is unknown
	CutArguments uint64                // arguments above the limit
	NS           int64                 // time that the program's threads spent on hashing and copying payloads
	Copies       format.RecordedCopies // the part for copies

	parts map[partKey]*part
	ahead map[callKey][]probe.Payload // that arrived before their call
}

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

// part is a payload that has arrived in part.
type part struct {
	at   place
	data format.Data
	blob *format.Blobber // nil if the content is in data
	got  uint64          // bytes
	took int64           // nanoseconds of the program's threads
}

func newPayloads() Payloads {
	return Payloads{parts: map[partKey]*part{}, ahead: map[callKey][]probe.Payload{}}
}

// argument counts a missing kernel argument.
func (ps *Payloads) argument(f *api.Func, p *probe.Piece) {
	if int(p.Param) >= len(f.Params) {
		return
	}
	if role := f.Params[p.Param].Role; role != api.ArgArray && (role != api.Struct || p.Item <= api.ArgItems) {
		return
	}
	switch p.Missing {
	case probe.UnknownSize:
		ps.Unsized++
	case probe.OverLimit:
		ps.CutArguments++
	}
}

// recorded counts a copy whose content was hashed or copied, and the time that this took.
func (ps *Payloads) recorded(t *thread, p *probe.Payload, took int64) {
	if took == 0 || t.open[p.Seq] == nil || !t.copied(p.Seq, p.Param) {
		return
	}
	c := &ps.Copies
	c.Count, c.Bytes, c.RecordingNS, c.CallsNS = c.Count+1, c.Bytes+p.Len, c.RecordingNS+took, c.CallsNS+t.open[p.Seq].took
}

func (ps *Payloads) doubted(p *probe.Payload) {
	if p.Early && p.Dir == probe.In {
		ps.Early++
	}
}

// reasons are indexed by probe.Missing.
var reasons = [...]format.Reason{
	probe.DeviceMemory: format.DeviceMemory, probe.Dropped: format.Dropped, probe.OverLimit: format.LimitReached,
	probe.Unreadable: format.Unreadable, probe.NotSynchronized: format.NeverSynchronized, probe.Overwritten: format.Overwritten,
	probe.Freed: format.Freed, probe.Unregistered: format.Unregistered, probe.Detached: format.Detached, probe.Filtered: format.Filtered,
	probe.TableFull: format.TooManyPending, probe.UnknownSize: format.Unreadable, probe.NotAsked: format.LevelExcluded, probe.Unawaited: format.Unawaited,
}

// describe sets all fields but the content.
func describe(d *format.Data, p *probe.Piece) {
	d.Call, d.Time, d.Param, d.Dir, d.Item, d.Addr, d.Len, d.Group = 0, 0, p.Param, format.Dir(p.Dir), p.Item, p.Addr, p.Len, 0
	d.Status, d.Reason, d.Bytes, d.Blob, d.Aside = format.Whole, format.NoReason, nil, 0, false
	if p.Missing != probe.Present {
		d.Status = format.Missing
		if int(p.Missing) < len(reasons) {
			d.Reason = reasons[p.Missing]
		}
	} else if p.Early {
		d.Reason = doubt(p.Dir)
	}
}

// aside reports whether a piece is the program's data, which belongs into the blob file: content of copies, memory and files. Arguments,
// strings and structures describe the call.
func aside(f *api.Func, p *probe.Piece) bool {
	switch {
	case p.Param >= probe.MemoryParam:
		return p.Param == probe.MemoryParam
	case copied(f, p.Param):
		return true
	}
	return int(p.Param) < len(f.Params) && f.Params[p.Param].Role == api.File && p.Item > 0
}

func data(p *probe.Piece) (d format.Data) {
	describe(&d, p)
	return d
}

// doubt is the reason why a payload may differ from what was copied.
func doubt(dir probe.Dir) format.Reason {
	if dir == probe.Out {
		return format.Unchecked
	}
	return format.TakenEarly
}

// contentAhead adds memory content that arrived before its call, whether the call succeeded or not.
func (b *Builder) contentAhead(k callKey) error {
	if len(b.Payloads.ahead) == 0 {
		return nil
	}
	ps := b.Payloads.ahead[k]
	for i := range ps {
		if ps[i].Param == probe.MemoryParam {
			if err := b.Payload(&ps[i]); err != nil {
				return err
			}
		}
	}
	if ps = slices.DeleteFunc(ps, func(p probe.Payload) bool { return p.Param == probe.MemoryParam }); len(ps) > 0 {
		b.Payloads.ahead[k] = ps
	} else {
		delete(b.Payloads.ahead, k)
	}
	return nil
}

// Payload adds a payload, or a part, to its call.
func (b *Builder) Payload(p *probe.Payload) error {
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
		b.Payloads.ahead[ck] = append(b.Payloads.ahead[ck], q)
		return nil
	}
	b.Payloads.NS += p.Recording
	if !ok {
		return nil
	}
	if call.Gone {
		t.arrived(p.Seq, p.Param)
		return nil
	}
	pk := partKey{ck, p.Param, p.Item, p.Dir}
	if p.Missing != probe.Present {
		return b.missing(pk, p, t, call.place)
	}
	return b.part(pk, p, t, call)
}

// missing records that a payload has no content, or only a hash.
func (b *Builder) missing(k partKey, p *probe.Payload, t *thread, at place) (err error) {
	if cur := b.Payloads.parts[k]; cur != nil && cur.blob != nil {
		cur.blob.Abort()
	}
	delete(b.Payloads.parts, k)
	d := data(&p.Piece)
	d.Time = b.time(p.Time)
	if p.Param == probe.MemoryParam {
		b.Payloads.Unkept += p.Len
	}
	if p.Missing == probe.Hashed && len(p.Bytes) == 16 {
		d.Status, d.Reason = format.HashOnly, format.NoReason
		if p.Early {
			d.Reason = doubt(p.Dir)
		}
		b.Payloads.doubted(p)
		if d.Blob, err = at.W.Named(word(p.Bytes[:8]), word(p.Bytes[8:]), p.Len); err != nil {
			return err
		}
		b.Payloads.recorded(t, p, p.Recording)
	}
	t.arrived(p.Seq, p.Param)
	return at.data(&d)
}

// part adds a part to a payload, which is written when it is complete.
func (b *Builder) part(k partKey, p *probe.Payload, t *thread, call *openCall) (err error) {
	at := call.place
	cur := b.Payloads.parts[k]
	if cur == nil {
		if p.Offset != 0 {
			return nil // its first part was lost, and recorded as missing
		}
		cur = &part{at: at, data: data(&p.Piece)}
		cur.data.Time, cur.data.Aside = b.time(p.Time), aside(call.fn, &p.Piece)
		b.Payloads.parts[k] = cur
		switch {
		case b.o.HashOnly && p.Param != probe.MemoryParam && t.copied(p.Seq, p.Param):
			cur.data.Status, cur.blob = format.HashOnly, at.W.Hasher()
		case p.Len > format.InlineLimit:
			cur.blob = at.W.Blobber()
		}
	}
	if p.Offset != cur.got {
		t.arrived(p.Seq, p.Param)
		return b.abandon(k, cur, format.Dropped)
	}
	if b.o.MaxSize > 0 && at.W.Size() > b.o.MaxSize-b.o.MaxSize/10 {
		b.Payloads.Cut = true
		t.arrived(p.Seq, p.Param)
		return b.abandon(k, cur, format.LimitReached)
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
	delete(b.Payloads.parts, k)
	b.Payloads.recorded(t, p, cur.took)
	t.arrived(p.Seq, p.Param)
	if cur.blob != nil {
		if cur.data.Blob, err = cur.blob.Close(); err != nil {
			return err
		}
	}
	b.Payloads.doubted(p)
	return at.data(&cur.data)
}

// abandon records an incomplete payload as missing.
func (b *Builder) abandon(k partKey, p *part, why format.Reason) error {
	if p.blob != nil {
		p.blob.Abort()
	}
	delete(b.Payloads.parts, k)
	p.data.Status, p.data.Reason, p.data.Bytes = format.Missing, why, nil
	return p.at.data(&p.data)
}
