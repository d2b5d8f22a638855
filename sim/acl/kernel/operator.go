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

// copyOf returns what a launch of an operator that only copies bytes does. The simulator makes such copies itself.
func (f *Function) copyOf(args []byte) (x device.Transfer, ok bool) {
	if !f.Operator || f.Name != block.CopyName { // most launches need no second decoding
		return x, false
	}
	b, err := block.Decode(args)
	if err != nil {
		return x, false
	}
	to, from, ok := b.Copy()
	return device.Plain(to.Addr+to.Lo, from.Addr+from.Lo, to.Size), ok
}

// Copies reports whether a launch only copies bytes.
func (f *Function) Copies(args []byte) bool {
	_, ok := f.copyOf(args)
	return ok
}

// leave does what a launch of a kernel without code does: a copy of bytes, or nothing. What it does not write is unknown.
func (o *Order) leave(m *device.Machine, l *device.Launch, extents []space.Extent) {
	x, ok := o.Func.copyOf(l.Args)
	if !ok {
		m.TaintDeclared(extents, o.Func.Name)
		return
	}
	copy(space.Bytes(x.Dst, x.Width), space.Bytes(x.Src, x.Width))
	m.Follow(&x)
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
