package kernel

import (
	"fmt"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// Computes reports whether the launches of a kernel are executed. If not, their output is unknown.
func (f *Function) Computes() bool { return f.Kernel != nil && f.Kernel.Computes() }

// Declares reports whether the launches of a kernel declare the memory that they access.
func (f *Function) Declares() bool {
	return f.Operator || f.Kernel != nil && (f.Kernel.Extents != nil || f.Kernel.Computes())
}

// declared returns the memory that a launch declares to access. known is false if the launch may access any memory that it reaches.
func (o *Order) declared(m *device.Machine, l *device.Launch) (extents []space.Extent, known bool) {
	f := o.Func
	if f.Operator {
		b, err := block.Decode(l.Args)
		if err != nil {
			m.LogOnce("operator "+f.Name, "operator %s: %v; its launch may have written all memory that it reaches", f.Name, err)
			return nil, false
		}
		return operands(b), true
	}
	if f.Kernel.Extents != nil {
		extents = f.Kernel.Extents(l, nil)
	}
	return extents, f.Declares()
}

// roleAccess is how an operator accesses memory, by role.
var roleAccess = map[block.Role]uint32{block.In: space.Read, block.Out: space.Write, block.In | block.Out: space.Read | space.Write, block.Scratch: space.Read | space.Write}

// operands returns the memory that an operator accesses. Arg is the index of the operand.
func operands(b *block.Block) []space.Extent {
	all := b.Operands()
	to := make([]space.Extent, len(all))
	for i, x := range all {
		to[i] = space.Extent{Addr: x.Addr + x.Lo, Size: x.Size, Access: roleAccess[x.Role], Arg: uint32(i)}
	}
	return to
}

// moves returns what a launch of an operator does that only moves and fills, which the simulator does itself; nil for all others.
func (f *Function) moves(args []byte) (b *block.Block, moves []*block.Move) {
	if !f.Operator || !block.Moves(f.Name) { // most launches need no second decoding
		return nil, nil
	}
	b, err := block.Decode(args)
	if err != nil {
		return nil, nil
	}
	return b, b.Moves()
}

// A Computer computes operators from their argument blocks, which package block has checked.
type Computer interface {
	// Computes reports whether Compute would compute a block.
	Computes(args []byte) bool
	// Compute computes a block. If it returns false, the results are unknown.
	Compute(args []byte) bool
}

// Executes reports whether the simulator itself does what a launch of an operator does.
func (f *Function) Executes(args []byte) bool {
	if _, moves := f.moves(args); moves != nil {
		return true
	}
	return f.computes(args) != nil && f.Computer.Computes(args)
}

// computes returns the block of an operator that the Computer may compute, nil for none.
func (f *Function) computes(args []byte) *block.Block {
	if !f.Operator || f.Computer == nil {
		return nil
	}
	b, err := block.Decode(args)
	if err != nil {
		return nil
	}
	return b
}

// leave does what a launch of a kernel without code does: it moves and fills, computes an operator, or does nothing. What it does not write is unknown.
func (o *Order) leave(m *device.Machine, l *device.Launch, extents []space.Extent) {
	b, moves := o.Func.moves(l.Args)
	if moves == nil {
		if b := o.Func.computes(l.Args); b != nil && o.Func.Computer.Compute(l.Args) {
			m.Spread(whole(b, extents), nil, o.Doubt)
		} else {
			m.TaintDeclared(extents, o.Func.Name)
		}
		return
	}
	exact := true
	for _, x := range moves {
		exact = exact && x.Row()
		x.Rows(func(to, from, size uint64) {
			if x.Fill != nil {
				m.Repeat(space.Span{Addr: to, Size: size}, x.Fill)
			} else {
				copy(space.Bytes(to, size), space.Bytes(from, size))
			}
		})
	}
	if exact {
		followRows(m, moves)
	} else {
		m.Spread(whole(b, extents), nil, 0)
	}
}

// followRows passes marks on, byte by byte, after moves of one row each.
func followRows(m *device.Machine, moves []*block.Move) {
	for _, x := range moves {
		x.Rows(func(to, from, size uint64) {
			if x.Fill != nil {
				m.MarkKnown(to, size)
				return
			}
			t := device.Plain(to, from, size)
			m.Follow(&t)
		})
	}
}

// whole returns the extents by which marks spread after moves. Memory between the elements of an output keeps its marks, so such an output
// counts as read too.
func whole(b *block.Block, extents []space.Extent) []space.Extent {
	operands := b.Operands()
	to := make([]space.Extent, 0, len(extents))
	for _, x := range extents {
		switch o := &operands[x.Arg]; {
		case o.Role == block.Scratch:
			continue
		case o.Role == block.Out && !o.Dense:
			x.Access |= space.Read
		}
		to = append(to, x)
	}
	return to
}

// argument describes the argument of an extent.
func (o *Order) argument(l *device.Launch, i uint32) string {
	if !o.Func.Operator {
		return fmt.Sprintf("argument %d (%s)", i, o.Func.Kernel.ArgName(i))
	}
	b, err := block.Decode(l.Args)
	if err != nil {
		return fmt.Sprintf("operand %d", i)
	}
	x := b.Operands()[i].Tensor
	if x < 0 {
		return "workspace"
	}
	t := &b.Tensors[x]
	return fmt.Sprintf("parameter %d (%s)", t.Param, t)
}
