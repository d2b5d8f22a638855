package timeline

import (
	"strings"

	"github.com/acltrace/acltrace/api/opinfo"
)

// hashed has the names in a trace whose hashes descriptions of operators have.
type hashed struct {
	names *opinfo.Names // with those of the releases; nil if the trace adds none
	added int
}

// add adds the name of an operator, or of an inner one.
func (h *hashed) add(name string) {
	if name == "" || h.added == maxTexts {
		return
	}
	if h.names == nil {
		h.names = opinfo.Known().Extend()
	}
	h.added++
	h.names.Add(name)
}

// kernel adds the names in a kernel's name: operator, inner operator and type, as aclnnMatmul_MatMulV3Common_MatMulV3, or a type among others, as trans_TransData_0.
func (h *hashed) kernel(name string) {
	for part := range strings.SplitSeq(name, "_") {
		if len(part) > 1 && strings.Contains(name, "_") {
			h.add(part)
		}
	}
}

// known returns the names, those of the releases if the trace adds none.
func (h *hashed) known() *opinfo.Names {
	if h.names == nil {
		return opinfo.Known()
	}
	return h.names
}
