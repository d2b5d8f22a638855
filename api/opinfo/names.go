package opinfo

import (
	"strconv"
	"strings"
	"sync"
)

// The multipliers of the two halves of a hash.
const (
	upper, lower uint32 = 29, 131
)

// A hash is a text's hash with the powers that are needed to put texts together.
type hash struct{ high, low uint32 }

// Hash returns the hash of a text, as a description has it.
func Hash(text string) uint64 { return hash{}.add(text).id() }

func (h hash) id() uint64 { return uint64(h.high)<<32 | uint64(h.low) }

// add returns the hash of a text with another one after it.
func (h hash) add(text string) hash {
	for i := range len(text) {
		h.high = h.high*upper + uint32(text[i])
		h.low = h.low*lower + uint32(text[i])
	}
	return h
}

// Names finds the texts of hashes. Any goroutine may use it.
type Names struct {
	base      *Names // further names, which do not change; nil for none
	mu        sync.Mutex
	texts     map[uint64]string
	operators []string             // with a _ after it
	inner     map[string]bool      // names of inner operators
	nodes     map[[2]uint64]string // found before, "" for none
}

// Known has the operators of the public releases, and types of kernels.
var Known = sync.OnceValue(func() *Names {
	n := &Names{}
	for name := range strings.FieldsSeq(operators) {
		n.Add(name)
	}
	for name := range strings.FieldsSeq(kinds) { // no inner operators: each of those is tried with all operators
		n.texts[Hash(name)] = name
	}
	return n
})

// Extend returns names that begin with those of n, to which nobody adds any more.
func (n *Names) Extend() *Names { return &Names{base: n} }

// Add adds the name of an operator, of an inner operator or of a kernel's type. Those of public operators are their kernel's type with a
// prefix, and often a version.
func (n *Names) Add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts == nil {
		n.texts, n.inner = map[uint64]string{}, map[string]bool{}
	}
	if n.texts[Hash(name)] == name {
		return
	}
	n.nodes = nil
	n.texts[Hash(name)] = name
	kind, operator := strings.CutPrefix(name, "aclnn")
	if !operator {
		n.inner[name] = true
		return
	}
	n.operators = append(n.operators, name+"_")
	if _, ok := n.texts[Hash(kind)]; !ok {
		n.texts[Hash(kind)] = kind
	}
}

// Of returns the text of a hash.
func (n *Names) Of(id uint64) (text string, ok bool) {
	n.mu.Lock()
	text, ok = n.texts[id]
	n.mu.Unlock()
	if !ok && n.base != nil {
		return n.base.Of(id)
	}
	return text, ok
}

// Node returns the text of a node's hash, OPERATOR_INNER_TYPE: it tries the known operators with the inner operators that have the type's name, and with
// those that were added.
func (n *Names) Node(node, kind uint64) (text string, ok bool) {
	t, _ := n.Of(kind)
	if t == "" || node == kind {
		return t, t != ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]uint64{node, kind}
	if text, ok = n.nodes[key]; !ok {
		if text = n.find(n.operators, node, t); text == "" && n.base != nil {
			text = n.find(n.base.operators, node, t)
		}
		if n.nodes == nil {
			n.nodes = map[[2]uint64]string{}
		}
		if len(n.nodes) < maxNodes {
			n.nodes[key] = text
		}
	}
	return text, text != ""
}

// maxNodes limits the nodes that are remembered.
const maxNodes = 1 << 16

// find returns the combination with a node's hash, "" for none.
func (n *Names) find(operators []string, node uint64, kind string) string {
	for _, operator := range operators {
		h := hash{}.add(operator)
		for _, inner := range []string{kind + "AiCore", kind, kind + "AiCpu"} {
			if h.add(inner).add("_").add(kind).id() == node {
				return operator + inner + "_" + kind
			}
		}
		for m := n; m != nil; m = m.base {
			for inner := range m.inner {
				if h.add(inner).add("_").add(kind).id() == node {
					return operator + inner + "_" + kind
				}
			}
		}
	}
	return ""
}

// append appends the text of a hash, or the number.
func (n *Names) append(to []byte, id uint64) []byte {
	if text, ok := n.Of(id); ok {
		return append(to, text...)
	}
	return strconv.AppendUint(append(to, "0x"...), id, 16)
}
