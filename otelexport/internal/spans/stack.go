package spans

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// Limits for call stacks. Calls with further stacks have none.
const (
	maxStacks     = 1 << 12
	maxStackBytes = 4 << 10
)

// stacks encodes a recording's call stacks.
type stacks struct {
	*timeline.Stacks
	encoded map[stackKey][]byte
}

type stackKey struct {
	process uint32
	hash    uint64
}

// A callStack is the stack of a call on a thread.
type callStack struct {
	node int32
	attr []byte
}

// newStacks returns nil if the recording has no stacks.
func newStacks(r *format.Reader) *stacks {
	if !slices.ContainsFunc(r.Processes(), func(p format.Process) bool { return len(p.Maps) > 0 }) {
		return nil
	}
	return &stacks{timeline.NewStacks(r), map[stackKey][]byte{}}
}

// of returns the attribute with a call's stack, innermost frame first; nil if it is unknown.
func (s *stacks) of(process int, c *format.Call) []byte {
	if s == nil || c == nil {
		return nil
	}
	hash, ok := s.Learn(uint32(process), c, maxStacks)
	if !ok {
		return nil
	}
	k := stackKey{uint32(process), hash}
	b := s.encoded[k]
	if b == nil {
		var text strings.Builder
		for _, f := range s.Frames(uint32(process), hash) {
			line := f.String()
			if text.Len()+len(line) >= maxStackBytes {
				break
			}
			if text.Len() > 0 {
				text.WriteByte('\n')
			}
			text.WriteString(line)
		}
		b = otlp.PutText(nil, otlp.SpanAttributes, otlp.KeyStackTrace, otlp.Valid(text.String()))
		s.encoded[k] = b
	}
	return b
}

// stackOf returns the attribute with a node's stack, nil if it is unknown. Pass nodes in order.
func (m *member) stackOf(node int32) []byte {
	for m.stack < len(m.stacks) && m.stacks[m.stack].node < node {
		m.stack++
	}
	if m.stack < len(m.stacks) && m.stacks[m.stack].node == node {
		return m.stacks[m.stack].attr
	}
	return nil
}
