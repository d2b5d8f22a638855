package compile

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// fillBuffers stores the program's placeholder content before the launch with an argument list.
func (p *callCompiler) fillBuffers(i int, list *timeline.Object) error {
	buffers, filled := p.objects.buffers[list], map[uint64]bool{}
	for k := range p.a.Data {
		d := &p.a.Data[k]
		if int(d.Param) != i || d.Item == 0 {
			continue
		}
		n := slices.IndexFunc(buffers, func(b buffer) bool { return b.addr == d.Addr })
		if n < 0 {
			p.cant = fmt.Sprintf("no call in the trace returned the buffer for its placeholder %d", d.Item)
			return nil
		}
		filled[d.Addr] = true
		if d.Status != format.Whole {
			p.substitute(i, d.Len, d)
			p.store(plan.Operand{Slot: buffers[n].slot}, p.zero(d.Len), nil, contiguous(d.Len))
			continue
		}
		from, relocs, err := p.content(d)
		if err != nil {
			return err
		}
		p.store(plan.Operand{Slot: buffers[n].slot}, from, relocs, contiguous(d.Len))
	}
	for _, b := range buffers {
		if !filled[b.addr] {
			p.substitute(i, b.size, nil)
			p.store(plan.Operand{Slot: b.slot}, p.zero(b.size), nil, contiguous(b.size))
		}
	}
	return nil
}

// input returns the operand for host memory that the call reads before it returns, or may keep.
func (p *callCompiler) input(i int, q *api.Param, item uint32, n uint64) (plan.Operand, error) {
	d := p.a.Find(i, item, format.DirIn)
	if d == nil || d.Status != format.Whole {
		if !p.ok || n == 0 {
			return p.temporary(n), nil
		}
		p.substitute(i, n, d)
		return p.zero(n), nil
	}
	if q.Token != 0 && p.ok {
		return p.tokensIn(q, d)
	}
	if p.f.Shares == api.Import && q.Role == api.In {
		if first, ok := p.sharing.keys[timeline.ImportKey(p.f, p.c)]; ok {
			return first, nil // the exported key's address
		}
	}
	from, relocs, err := p.content(d)
	p.relo = append(p.relo, relocs...)
	if p.takes() || q.Addresses {
		p.spoil(from, d.Len)
	}
	if err == nil && q.Role == api.In && q.Object == api.Process {
		err = p.processes(d, from)
	}
	return from, err
}

// takes reports whether the current call adds a task to a stream. Such a call must have read its arguments when it returns, since
// programs reuse their memory for the next call. Other functions may keep pointers, as those that load binaries do.
func (p *callCompiler) takes() bool { return p.f.Task != api.NoTask }

// spoilLimit is how many bytes are overwritten at most in one argument.
const spoilLimit = 4 << 10

// spoil makes the player overwrite an argument after the current call, as a program does when it prepares the next call. A runtime that
// reads the argument too late computes another result.
func (p *callCompiler) spoil(at plan.Operand, n uint64) {
	if at.Slot != plan.SlotData || n == 0 {
		return
	}
	last := len(p.spoils) - 1
	if last >= 0 && at.Addend-p.spoils[last].to < plan.DataAlign && at.Addend+n-p.spoils[last].from <= spoilLimit {
		p.spoils[last].to = at.Addend + n // with padding between them
		return
	}
	p.spoils = append(p.spoils, stretch{at.Addend, at.Addend + min(n, spoilLimit)})
}

// image returns the operand for a binary, whose size is in its content.
func (p *callCompiler) image(i int, q *api.Param) (plan.Operand, error) {
	d := p.a.Whole(i, 0, format.DirIn)
	if d == nil {
		p.refuse("its binary is not in the trace")
		return imm(0), nil
	}
	return p.plain(d)
}

// packed returns a list {pointer, block, bytes, size, 0} for a kernel argument block.
func (p *callCompiler) packed(i int, item uint32) (plan.Operand, error) {
	d := p.a.Whole(i, item, format.DirIn)
	if d == nil {
		p.refuse("its arguments were not recorded")
		return imm(0), nil
	}
	block, err := p.arguments(i, item, d.Len)
	if err != nil {
		return block, err
	}
	size, err := p.put(binary.LittleEndian.AppendUint64(nil, d.Len))
	if err != nil {
		return block, err
	}
	const pointer, bytes = 1, 2
	list := make([]byte, 5*8)
	list[0], list[16] = pointer, bytes
	return p.table(list, []plan.Reloc{block.Reloc(8), size.Reloc(24)})
}

// arguments returns the operand for kernel arguments, whose words may be addresses.
func (p *callCompiler) arguments(i int, item uint32, n uint64) (plan.Operand, error) {
	q := p.f.Params[i]
	q.Addresses = true
	from, err := p.input(i, &q, item, n)
	if d := p.a.Whole(i, item, format.DirIn); err == nil && d != nil {
		err = p.numbers(i, d, from)
	}
	return from, err
}

// array returns pointers to kernel arguments, which are the items with numbers above base.
func (p *callCompiler) array(i int, base uint32) (plan.Operand, error) {
	var words []byte
	var relocs []plan.Reloc
	for k := range p.a.Data {
		d := &p.a.Data[k]
		if int(d.Param) != i || d.Item <= base || d.Dir != format.DirIn {
			continue
		}
		from, err := p.arguments(i, d.Item, d.Len)
		if err != nil {
			return from, err
		}
		k := d.Item - base
		words = grown(words, 8*int(k))
		relocs = append(relocs, from.Reloc(8*uint64(k-1)))
	}
	if len(relocs) == 0 {
		p.refuse("its arguments were not recorded: the runtime did not report their sizes")
	}
	return p.table(words, relocs)
}

func grown(b []byte, n int) []byte {
	if n > len(b) {
		b = append(b, make([]byte, n-len(b))...)
	}
	return b
}

// table adds data with relocations relative to its start.
func (p *callCompiler) table(b []byte, relocs []plan.Reloc) (plan.Operand, error) {
	op, err := p.put(b)
	for _, r := range relocs {
		r.At += op.Addend
		p.relo = append(p.relo, r)
	}
	if p.takes() {
		p.spoil(op, uint64(len(b)))
	}
	return op, err
}

// list returns a structure {pointer, element count}, with no elements for data that is nil.
func (p *callCompiler) list(d *format.Data, elem uint32) (plan.Operand, error) {
	b := make([]byte, 16)
	var relocs []plan.Reloc
	if d != nil {
		from, _, err := p.content(d)
		if err != nil {
			return from, err
		}
		binary.LittleEndian.PutUint64(b[8:], d.Len/uint64(elem))
		relocs = append(relocs, from.Reloc(0))
		if p.takes() {
			p.spoil(from, d.Len)
		}
	}
	return p.table(b, relocs)
}

// text returns the operand for a string that the call reads.
func (p *callCompiler) text(i int) (plan.Operand, error) {
	d := p.a.Find(i, 0, format.DirIn)
	if d == nil || d.Status != format.Whole {
		if p.ok {
			p.substitute(i, 0, d)
		}
		return p.zero(1), nil
	}
	b, err := p.bytes(d)
	if err != nil {
		return plan.Operand{}, err
	}
	if op, ok := p.sharing.keys[string(b)]; ok {
		return op, nil
	}
	return p.put(append(slices.Clip(b), 0))
}

// items returns an array with pointers to a batch's memory.
func (p *callCompiler) items(i int, q *api.Param) (plan.Operand, error) {
	n := p.c.Args[p.f.Params[q.ItemCount].Word]
	addrs, err := p.array64(i, n)
	if err != nil || addrs == nil {
		return p.temporary(8 * min(n, 1<<20)), err
	}
	sizes, err := p.array64(int(q.ItemSizes), n)
	if err != nil || sizes == nil {
		return p.temporary(8 * min(n, 1<<20)), err
	}
	var relocs []plan.Reloc
	for k, w := range addrs {
		if w == 0 {
			continue
		}
		op, err := p.memory(i, q, uint32(1+k), w, contiguous(sizes[k]))
		if err != nil {
			return op, err
		}
		relocs = append(relocs, op.Reloc(8*uint64(k)))
	}
	return p.table(make([]byte, 8*n), relocs)
}

// array64 returns an array argument with n words, nil if they are not in the trace.
func (p *callCompiler) array64(i int, n uint64) ([]uint64, error) {
	d := p.a.Whole(i, 0, format.DirIn)
	if d == nil || d.Len != 8*n {
		if n > 0 {
			p.refuse("its array %s was not recorded", p.f.Params[i].Name)
		}
		return nil, nil
	}
	b, err := p.bytes(d)
	if err != nil {
		return nil, err
	}
	ws := make([]uint64, n)
	for k := range ws {
		ws[k] = binary.LittleEndian.Uint64(b[8*k:])
	}
	return ws, nil
}

// processes relocates recorded process ids to this run's.
func (p *callCompiler) processes(d *format.Data, from plan.Operand) error {
	b, err := p.bytes(d)
	if err != nil {
		return err
	}
	for k := 0; k+4 <= len(b); k += 4 {
		pid := int(int32(binary.LittleEndian.Uint32(b[k:])))
		for i := range p.procs {
			if p.procs[i].pid == pid && pid != 0 {
				p.relo = append(p.relo, plan.Reloc{At: from.Addend + uint64(k), Slot: p.processID(i), Size: 4})
			}
		}
	}
	return nil
}
