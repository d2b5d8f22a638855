package rows

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record/host"
)

// Call writes a call with the payloads that arrived with it.
func (b *Builder) Call(c *probe.Call) error {
	k := threadKey{c.PID, c.TID}
	t, err := b.thread(k)
	if err != nil {
		return err
	}
	r := &b.rules[c.Func]
	out := b.begin(c, t, r.fn)
	if b.Hooks.Call != nil {
		if err := b.Hooks.Call(r.fn, out); err != nil {
			return err
		}
	}
	if b.Hooks.Keep != nil {
		if ok, err := b.Hooks.Keep(r.fn, out, c.Pieces); err != nil || !ok {
			t.next = max(t.next, c.Seq+1)
			return err
		}
	}
	timed, results := b.pieces(c, r)
	index, err := b.seg.W.Call(out)
	if err != nil {
		return err
	}
	if b.o.Follower != nil {
		b.follow(r, timed)
	}
	b.Count.Calls++
	if r.fn != nil && r.fn.EntryMark() {
		b.Count.Marks++
	}
	t.next = max(t.next, c.Seq+1) // an enclosing call has a lower number and comes later
	t.latest, t.stands = r.fn, c.Unfinished() && !c.NoEnd
	if timed {
		if err := b.times.call(callKey{k, c.Seq}, timedCall{place{b.seg, index}, c.Start}); err != nil {
			return err
		}
	}
	if b.o.Visible {
		t.last, t.seq = openCall{fn: r.fn, place: place{b.seg, index}}, c.Seq
		if err := b.contentAhead(callKey{k, c.Seq}); err != nil {
			return err
		}
	}
	if r.fn.RetError && int32(c.Ret) != 0 || c.Unfinished() {
		return nil
	}
	return b.succeeded(c, r, t, index, results)
}

// begin fills in the fields that every call has. It sets them one by one, since the row's slices keep their memory.
func (b *Builder) begin(c *probe.Call, t *thread, f *api.Func) *format.Call {
	out := &b.row
	out.Func, out.Thread, out.Flags, out.Start = uint16(c.Func), t.index, 0, b.time(c.Start)
	out.Ret, out.Args, out.Outs, out.Data = c.Ret, c.Words, out.Outs[:0], out.Data[:0]
	if c.Kept {
		out.Flags |= format.Kept
	}
	if c.Unfinished() {
		out.Flags |= format.Unfinished
		out.End = max(b.now(), out.Start)
		b.Count.Unfinished++
		if c.NoEnd {
			out.Flags |= format.NoEnd
			out.End = out.Start // no later time is known
			b.Count.NoEnd++
		}
		if c.Cut {
			out.Flags |= format.NoEnd | format.Cut
			b.Count.Cut++
		}
	} else {
		out.End = b.time(c.End)
	}
	if f.Wrong(c.Ret) {
		b.Count.Failed++
		if f.Allocates() != nil {
			b.Count.NoMemory++
		}
	}
	return out
}

// pieces adds the payloads that arrived with a call to the row. It returns whether the task's time is measured, and how many
// results will follow from a graph's copies to the host.
func (b *Builder) pieces(c *probe.Call, r *rules) (timed bool, results int) {
	f, out := r.fn, &b.row
	if c.Blocked > 0 {
		out.Outs = append(out.Outs, format.Out{Param: api.BlockedParam, Value: uint64(c.Blocked)})
	}
	if c.Recording > 0 {
		out.Outs = append(out.Outs, format.Out{Param: api.RecordingParam, Value: uint64(c.Recording)})
	}
	if r.namesDevice && b.device == "" {
		for i := range c.Pieces {
			if p := &c.Pieces[i]; p.Param == api.RetParam {
				b.device = string(p.Bytes)
			}
		}
	}
	for i := range c.Pieces {
		p := &c.Pieces[i]
		if p.Dir == probe.Out {
			if p.Param >= probe.StackParam && len(p.Bytes) == 8 || int(p.Param) < len(f.Params) && f.Params[p.Param].Out() && len(p.Bytes) <= 8 {
				out.Outs = append(out.Outs, format.Out{Param: p.Param, Value: word(p.Bytes)})
				continue
			}
			if f.Task == api.GraphRun && int(p.Param) < len(f.Params) && f.Params[p.Param].Object == api.Graph {
				results = int(word(p.Bytes))
				continue
			}
		}
		if int(p.Param) >= len(f.Params) {
			switch p.Param {
			case probe.TimeParam:
				timed = true
				continue
			case probe.MapsParam:
				b.Processes.maps[c.PID] = host.ParseMaps(p.Bytes)
				continue
			case probe.StackParam:
				b.learnCode(c.PID, p.Bytes)
			}
		}
		b.piece(p, r)
	}
	// The probe's parameters, such as the stack, have higher numbers than the function's own.
	if len(out.Outs) > 1 {
		slices.SortFunc(out.Outs, func(a, b format.Out) int { return int(a.Param) - int(b.Param) })
	}
	return timed, results
}

// piece adds one payload to the row.
func (b *Builder) piece(p *probe.Piece, r *rules) {
	out := &b.row
	n := len(out.Data)
	if n < cap(out.Data) {
		out.Data = out.Data[:n+1]
	} else {
		out.Data = append(out.Data, format.Data{})
	}
	d := &out.Data[n]
	describe(d, p)
	d.Group, d.Time, d.Aside = r.group(out.Args), out.Start, aside(r.fn, p)
	if p.Dir == probe.Out {
		d.Time = out.End
	}
	if b.o.HashOnly && r.fn.Task == api.GraphRun && p.Dir == probe.In && p.Item > 0 {
		d.Status, d.Reason = format.Missing, format.LevelExcluded // earlier content at the destination of the graph's copies
	}
	if d.Status == format.Whole {
		d.Bytes = p.Bytes
	} else {
		b.Payloads.argument(r.fn, p)
	}
}

// succeeded notes a successful call's facts about devices, its allocations and the payloads that are still to come, and adds those that came before it.
func (b *Builder) succeeded(c *probe.Call, r *rules, t *thread, index uint64, results int) error {
	if !b.o.Visible && r.visible != nil {
		b.Payloads.Unkept += r.visibleBytes(c.Words)
	}
	if r.facts != nil || r.fn.Selects >= 0 {
		if err := b.learnDevice(r, t, &b.row); err != nil {
			return err
		}
	}
	if r.fn.Rank != "" {
		if err := b.learnRank(r.fn, t.process, &b.row); err != nil {
			return err
		}
	}
	if r.gives {
		b.given.note(c.PID, r.fn, &b.row)
	}
	if r.apart != nil || results != 0 {
		if left, result := b.expects(r, c); left+results != 0 {
			oc := &openCall{place: place{b.seg, index}, fn: r.fn, left: left + results, took: b.row.End - b.row.Start, result: result}
			if result >= 0 {
				p := &r.fn.Params[result]
				oc.addr = c.Words[p.Word]
				oc.len, _ = p.Size.Bytes(r.fn, c.Words)
			}
			t.open[c.Seq] = oc
		}
	}
	if len(b.Payloads.ahead) == 0 {
		return nil
	}
	ck := callKey{threadKey{c.PID, c.TID}, c.Seq}
	for _, p := range b.Payloads.ahead[ck] {
		if err := b.Payload(&p); err != nil {
			return err
		}
	}
	delete(b.Payloads.ahead, ck)
	return nil
}

// expects returns the number of payloads that may arrive after a call, and the parameter with an asynchronous result, -1 for
// none.
func (b *Builder) expects(r *rules, c *probe.Call) (left, result int) {
	f, words := r.fn, c.Words
	result = -1
	for _, i := range r.apart {
		p := &f.Params[i]
		switch p.Role {
		case api.Reads, api.Writes:
			if p.ItemSizes >= 0 {
				left = unknown
				continue
			}
			n, ok := p.Size.Bytes(f, words)
			host := b.given.onHost(c.PID, words[p.Word]) || b.given.inWindow(words[p.Word]) && f.SaysHost(i, words)
			if !host || ok && n == 0 {
				continue
			}
			left++
			if p.Role == api.Writes && f.Stream >= 0 {
				result = i
			}
		case api.File:
			if words[p.Word] != 0 {
				left++
			}
		case api.Struct:
			left = unknown // large memory that its pointers lead to
		case api.In, api.Uses, api.Image:
			if words[p.Word] == 0 {
				continue
			}
			n, ok := p.Size.Bytes(f, words)
			if !ok || p.Role == api.Image {
				// A small one is among the pieces, a large one arrives later.
				ok = slices.ContainsFunc(c.Pieces, func(q probe.Piece) bool { return int(q.Param) == i })
			}
			if !ok || n > format.InlineLimit {
				left++
			}
		}
	}
	return left, result
}

// unknown is openCall.left if the number of payloads is unknown.
const unknown = -1 << 30

// word decodes a little-endian value with at most 8 bytes.
func word(b []byte) uint64 {
	var v uint64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}
