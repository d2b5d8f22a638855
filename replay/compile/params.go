package compile

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

func imm(v uint64) plan.Operand { return plan.Operand{Addend: v} }

// param is the operands for the words of a parameter; what the call needs besides goes before or after it.
func (p *callCompiler) param(i int) ([]plan.Operand, error) {
	q := &p.f.Params[i]
	w := p.c.Args[q.Word]
	one := func(o plan.Operand, err error) ([]plan.Operand, error) { return append(p.reused.param[:0], o), err }
	if q.OmitOnReplay {
		return make([]plan.Operand, q.Words), nil
	}
	switch q.Role {
	case api.Value:
		ops := p.reused.param[:0]
		for k := range int(q.Words) {
			ops = append(ops, imm(p.c.Args[int(q.Word)+k]))
		}
		if t, ok := p.reporter(q, w); ok {
			ops[0] = plan.Operand{Slot: p.identity(t)}
		}
		if p.f.Shares == api.Import && q.Words > 1 {
			// A key by value: the words that the other process got.
			if first, ok := p.sharing.keys[timeline.ImportKey(p.f, p.c)]; ok {
				for k := range ops {
					ops[k] = plan.Operand{Slot: uint32(first.Addend/8) + uint32(k)}
				}
			}
		}
		return ops, nil
	case api.Use, api.Launch, api.End:
		return one(p.handle(i, w))
	case api.Place:
		op := p.region(w, placeSize)
		if u, ok := p.e.Use(i); ok {
			p.bind(u.Object, op)
		}
		return one(op, nil)
	case api.Opaque:
		if callback := slices.ContainsFunc(p.f.Params, func(q api.Param) bool { return q.Role == api.Callback }); callback {
			return one(imm(0), nil) // for the program's function alone
		}
		if q.Cookie && w != 0 {
			return one(p.region(w, 8), nil)
		}
		if w != 0 && p.ok {
			p.cant = fmt.Sprintf("its parameter %s points to what only the program knows", q.Name)
		}
		return one(imm(w), nil)
	case api.Struct:
		return p.structure(i, q)
	}
	if w == 0 {
		return one(imm(0), nil)
	}
	switch q.Role {
	case api.Callback:
		return one(p.callback(q), nil)
	case api.Map:
		return one(p.mapping(i, q, w), nil)
	case api.Uses:
		return one(p.handles(i, q))
	case api.Answer:
		return one(p.answer(i, q))
	case api.OutHandles:
		return one(p.handlesFound(i, q))
	case api.New, api.Find, api.Buffer, api.Out, api.InOut, api.Text:
		return one(p.output(i, q))
	case api.DevArgs:
		op := p.address(i, w)
		p.deviceArgs(i)
		return one(op, nil)
	case api.Address:
		return one(p.address(i, w), nil)
	case api.Reads, api.Writes, api.Fills:
		if q.ItemSizes >= 0 {
			return one(p.items(i, q))
		}
		return one(p.memory(i, q, 0, w, p.size(q)))
	case api.In, api.Args:
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		return one(p.input(i, q, 0, n))
	case api.Image:
		return one(p.image(i, q))
	case api.Packed:
		return one(p.packed(i, 1))
	case api.ArgArray:
		return one(p.array(i, 0))
	case api.List:
		return one(p.list(i, q))
	case api.String:
		return one(p.text(i))
	case api.File:
		return one(p.fileName(i))
	case api.Target:
		return one(p.newPath(i))
	case api.Scratch:
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		return one(p.region(w, n), nil)
	}
	p.cant = fmt.Sprintf("the planner does not know the role %s of its parameter %s", q.Role, q.Name)
	return one(imm(w), nil)
}

type pieceKey struct {
	param int
	item  uint32
	dir   format.Dir
}

// find returns the data of a parameter.
func (p *callCompiler) find(param int, item uint32, dir format.Dir) *format.Data {
	if len(p.pieces) > 32 && p.index == nil {
		// A batch has thousands.
		p.index = make(map[pieceKey]*format.Data, len(p.pieces))
		for k := range slices.Backward(p.pieces) {
			d := &p.pieces[k]
			p.index[pieceKey{int(d.Param), d.Item, d.Dir}] = d
		}
	}
	if p.index != nil {
		return p.index[pieceKey{param, item, dir}]
	}
	for k := range p.pieces {
		if d := &p.pieces[k]; int(d.Param) == param && d.Item == item && d.Dir == dir {
			return d
		}
	}
	return nil
}

func (p *callCompiler) stored(param int) (uint64, bool) {
	for _, o := range p.c.Outs {
		if int(o.Param) == param {
			return o.Value, true
		}
	}
	return 0, false
}

func (p *callCompiler) unverified(code verify.Reason, reason string) {
	p.Found.Unverified = AddUnverified(p.Found.Unverified, p.c.Index, code, reason)
}

func (p *compiler) addRelocs(rs []plan.Reloc) (first, n uint32) {
	return p.Relocs(rs...), uint32(len(rs))
}
