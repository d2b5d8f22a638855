//go:build cgo && aclsim_break

package compute

import (
	"strings"

	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// spoil changes one bit of a result, if the rule that this build breaks says so: "compute OPERATOR DTYPE [strided|tail]". The operator is wrong if it has
// a result of the data type; with strided only if a tensor of it is strided, and with tail only if the elements of the result don't fill vectors.
func spoil(args []byte) {
	rule := strings.Fields(mutant.Rule)
	if len(rule) < 3 || rule[0] != "compute" {
		return
	}
	x, err := block.Decode(args)
	if err != nil || x.Name != rule[1] {
		return
	}
	strided := false
	for i := range x.Tensors {
		_, dense := last(&x.Tensors[i])
		strided = strided || !dense
	}
	for i := range x.Tensors {
		t := &x.Tensors[i]
		count := int64(1)
		for _, d := range t.Dims() {
			count *= d
		}
		at, _ := last(t)
		switch {
		case t.Absent || t.Role&block.Out == 0 || t.DType.String() != rule[2] || count == 0:
			continue
		case len(rule) == 3, rule[3] == "strided" && strided:
			at = 0
		case rule[3] == "tail" && count%8 != 0:
		default:
			continue
		}
		space.Bytes(t.Base+uint64(t.Offset+at)*t.DType.Bits()/8, 1)[0] ^= 1
		return
	}
}

// last returns the place of a tensor's last element, and whether its elements lie in order.
func last(t *block.Tensor) (at int64, dense bool) {
	next, strides := int64(1), t.Strides()
	dense = true
	for i := len(strides) - 1; i >= 0; i-- {
		d := t.Dims()[i]
		at += (d - 1) * strides[i]
		dense = dense && (d == 1 || strides[i] == next)
		next *= d
	}
	return at, dense
}
