package block

import (
	"fmt"
	"strconv"
)

// Limits of a text.
const (
	shownParams   = 24
	shownElements = 8
)

// AppendText appends the operator with its parameters, as "aclnnAdd(float16[2,3], float16[3], 1, out float16[2,3])".
func (x *Block) AppendText(to []byte) []byte {
	to = append(append(to, x.Name...), '(')
	for i := range x.Params {
		if i > 0 {
			to = append(to, ", "...)
		}
		if i == shownParams {
			to = append(to, "…"...)
			break
		}
		to = x.appendParam(to, &x.Params[i])
	}
	return append(to, ')')
}

func (x *Block) appendParam(to []byte, p *Param) []byte {
	switch p.Type {
	case 'T', 't':
		if !p.Null {
			return x.Tensors[p.First].appendUse(to)
		}
	case 'L', 'l':
		if !p.Null {
			to = append(to, '[')
			for k := range p.Count {
				if k > 0 {
					to = append(to, ", "...)
				}
				if k == shownElements {
					to = append(to, "…"...)
					break
				}
				to = x.Tensors[p.First+k].appendUse(to)
			}
			return append(to, ']')
		}
	}
	switch v := p.Value().(type) {
	case nil:
		return append(to, "null"...)
	case string:
		return strconv.AppendQuote(to, v[:min(len(v), 64)])
	case []int64:
		return fmt.Append(to, v[:min(len(v), shownElements)])
	case []float32:
		return fmt.Append(to, v[:min(len(v), shownElements)])
	case []bool:
		return fmt.Append(to, v[:min(len(v), shownElements)])
	case []Scalar:
		for k := range v {
			if k > 0 {
				to = append(to, ' ')
			}
			if k == shownElements {
				return append(to, "…"...)
			}
			to = append(to, v[k].String()...)
		}
		return to
	default:
		return fmt.Append(to, v)
	}
}

// appendUse appends a tensor with its role, unless it is an input.
func (t *Tensor) appendUse(to []byte) []byte {
	switch {
	case t.RoleUnknown:
		to = append(to, "? "...)
	case t.Role == Out:
		to = append(to, "out "...)
	case t.Role == In|Out:
		to = append(to, "inout "...)
	}
	return t.AppendText(to)
}
