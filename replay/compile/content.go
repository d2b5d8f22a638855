package compile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

func (p *callCompiler) inBlob(d *format.Data, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("call %d %s, payload of parameter %s, blob %d: %w", p.c.Index, p.f.Name, p.paramOf(d).Name, d.Blob, err)
}

// reader returns a payload's content.
func (p *callCompiler) reader(d *format.Data) (io.Reader, error) {
	if d.Blob == 0 {
		return bytes.NewReader(d.Bytes), nil
	}
	r, err := p.r.BlobReader(d.Blob)
	return r, p.inBlob(d, err)
}

// bytes returns a small payload's content. It is read-only and valid until the next call is compiled.
func (p *callCompiler) bytes(d *format.Data) ([]byte, error) {
	if d.Blob == 0 {
		return d.Bytes, nil
	}
	r, err := p.reader(d)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, p.inBlob(d, err)
}

// content adds a payload to the plan's data. If it may hold device addresses, each 8-byte word in a live device allocation gets a
// relocation. The findings list the words that the runtime reads. The relocations are valid until the next call is compiled.
func (p *callCompiler) content(d *format.Data, addresses bool) (plan.Operand, []plan.Reloc, error) {
	if d.Blob != 0 {
		if at, ok := p.pointers.payloads[d.Blob]; ok {
			return plan.Operand{Slot: plan.SlotData, Addend: at}, nil, nil
		}
	}
	at, err := p.Align()
	if err != nil {
		return plan.Operand{}, nil, err
	}
	op := plan.Operand{Slot: plan.SlotData, Addend: at}
	q := p.paramOf(d)
	s := scan{d: d, q: q, at: at, addresses: addresses, reaches: p.reachesHost(q), first: len(p.found)}
	if q.Role != api.Image && p.objects.tokens.byWord != nil {
		s.most = p.objects.tokens.most
	}
	if d.Blob == 0 {
		if err := p.inline(&s); err != nil {
			return op, nil, err
		}
	} else if err := p.blob(&s); err != nil {
		return op, nil, p.inBlob(d, err)
	}
	// Copies do not change their sources, but argument blocks are patched.
	if d.Blob != 0 && !s.suspect && (q.Role == api.Reads || q.Role == api.Writes) {
		p.pointers.payloads[d.Blob] = at
	}
	return op, slices.Clip(p.found[s.first:]), nil
}

// inline adds a payload that is stored in the call.
func (p *callCompiler) inline(s *scan) error {
	if uint64(len(s.d.Bytes)) != s.d.Len {
		return fmt.Errorf("call %d %s, payload of parameter %s: %d bytes instead of %d", p.c.Index, p.f.Name, p.paramOf(s.d).Name, len(s.d.Bytes), s.d.Len)
	}
	p.scanWords(s, s.d.Bytes, 0, s.d.Len)
	return p.Write(s.d.Bytes)
}

// blob adds a payload that is stored as a blob.
func (p *callCompiler) blob(s *scan) error {
	d := s.d
	r, err := p.r.BlobReader(d.Blob)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(r, int(min(d.Len, 1<<20)))
	for off := uint64(0); off < d.Len; {
		b, err := in.Peek(int(min(d.Len-off, 1<<20)))
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		n := uint64(len(b))
		if off+n < d.Len {
			n = (n - s.most) &^ 7 // the rest is read again with the bytes after it
		}
		n = p.scanWords(s, b, off, n)
		if err := p.Write(b[:n]); err != nil {
			return err
		}
		off += n
		if _, err := in.Discard(int(n)); err != nil {
			return err
		}
	}
	// The reader checks the hash at the payload's end.
	if n, err := in.Read(make([]byte, 1)); n != 0 {
		return fmt.Errorf("longer than its %d bytes", d.Len)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// reachesHost reports whether a parameter has kernel arguments, and so may hold host addresses that the device can access.
func (p *callCompiler) reachesHost(q *api.Param) bool {
	if p.f.Task != api.Kernel {
		return false
	}
	switch q.Role {
	case api.Args, api.ArgArray, api.Packed, api.Struct:
		return true
	}
	return false
}

// zeroCopy records that kernels may access a host memory range.
func (p *callCompiler) zeroCopy(o *timeline.Object) {
	if !p.pointers.hostReached[o] {
		p.pointers.hostReached[o] = true
		p.doubt(verify.Managed, "kernels may read what the program writes to this memory without a call; only copies of it are in the trace")
	}
}

// relocation returns the relocation of a word that is an address. A word that comes back from the device and was sent there as an address
// is the same address, even if its allocation was freed.
func (p *callCompiler) relocation(s *scan, w, off uint64) (plan.Reloc, bool) {
	d, q, at := s.d, s.q, s.at
	if d.Dir == format.DirOut {
		if op, ok := p.pointers.copied[w]; ok {
			return plan.Reloc{At: at + off, Addend: op.Addend, Slot: op.Slot}, true
		}
	}
	o, in, op, ok := p.allocation(q, w)
	if !ok || o.Kind.OnHost() && !s.reaches {
		return plan.Reloc{}, false
	}
	evidence := ByRange
	if q.Role == api.Args {
		switch a, known := timeline.ArgumentAt(p.layout(), off); {
		case known && a.Level > 0:
			evidence = ByLayout
		case known && a.Kind == kernelbin.General:
			return plan.Reloc{}, false // a number that looks like an address
		}
	}
	op.Addend += in
	if o.Kind.OnHost() && p.visibleOf(o) == nil {
		p.zeroCopy(o)
	}
	if d.Dir == format.DirIn {
		how := access.Names
		if q.Role == api.Reads {
			p.pointers.copied[w] = op
			how = access.Points
		}
		p.access(o, 0, 0, how)
		if p.Found.Relocations++; len(p.Found.Relocated) < MaxListed {
			p.listRelocated(Relocated{Call: p.c.Index, Func: p.f.Name, Param: q.Name, Item: d.Item, Offset: off, Allocation: o.Created, At: in, Evidence: evidence}, w)
		}
	}
	return plan.Reloc{At: at + off, Addend: op.Addend, Slot: op.Slot}, true
}

// allocation returns the live allocation that a word points into, the offset, and the operand. It keeps recent results, since loops use
// the same addresses again.
func (p *callCompiler) allocation(q *api.Param, w uint64) (o *timeline.Object, in uint64, op plan.Operand, ok bool) {
	recent := &p.pointers.recent[w*golden>>(64-recentBits)]
	if o := recent.object; o != nil && recent.addr == w && o.Ended == timeline.NoCall && o.Process == p.owner() {
		return o, w - o.Handle, recent.op, true
	}
	o, in, ok = p.state.Find(p.owner(), w)
	inside := ok
	if !ok && q.Role != api.Reads && q.Role != api.Writes {
		// An argument may point to an allocation's end.
		o, in, ok = p.state.FindEnd(p.owner(), w)
	}
	if !ok {
		// Reserved addresses count even without memory.
		o, in, ok = p.state.Reserved(p.owner(), w)
	}
	if !ok {
		return nil, 0, plan.Operand{}, false
	}
	if op, ok = p.objects.operands.get(o); ok && inside && o.Kind == api.Device && o.Parent == nil {
		*recent = found{w, o, op}
	}
	return o, in, op, ok
}

// layout returns the arguments that the kernel's binary declares.
func (p *callCompiler) layout() []kernelbin.Arg {
	if p.args != nil {
		return p.args.args
	}
	for _, u := range p.e.Uses {
		if o := u.Object; o.Kind == api.Function && o.Parent != nil {
			known, ok := p.known.layouts.get(o)
			if !ok || known.kernel != p.e.Kernel {
				known = &layout{p.e.Kernel, p.state.Arguments(p.e)}
				p.known.layouts.set(o, known)
			}
			p.args = known
			return p.args.args
		}
	}
	p.args = &layout{p.e.Kernel, p.state.Arguments(p.e)}
	return p.args.args
}

func (p *compiler) relocated(r Relocated, w uint64) {
	if p.Found.Relocations++; len(p.Found.Relocated) < MaxListed {
		p.listRelocated(r, w)
	}
}

// listRelocated adds a relocated word to the findings.
func (p *compiler) listRelocated(r Relocated, w uint64) {
	r.Value = hexWord(w)
	p.Found.Relocated = append(p.Found.Relocated, r)
}

// MemoryParam describes host-visible memory content, which belongs to no parameter.
var MemoryParam = api.Param{Name: "memory", Role: api.Reads}

// paramOf returns the parameter that a payload belongs to.
func (p *callCompiler) paramOf(d *format.Data) *api.Param {
	if d.Param == api.MemoryParam {
		return &MemoryParam
	}
	return &p.f.Params[d.Param]
}
