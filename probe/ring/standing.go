package ring

import "github.com/acltrace/acltrace/probe"

// Standing returns the calls in progress, for each thread the outermost one, as far as the rings have been drained. It must
// run on the goroutine that drains.
func (s *Session) Standing() []probe.Call {
	return touched(s, func() []probe.Call {
		var calls []probe.Call
		for _, r := range s.rings.bySlot {
			if r == nil || r.mem == nil || r.done || r.truncated || r.handedOn(s) {
				continue
			}
			if r.outer != nil {
				calls = append(calls, copyCall(r.outer))
			} else if c := r.peek(s); c != nil {
				calls = append(calls, *c)
			}
		}
		return calls
	})
}

// peek decodes the record of the thread's call in progress, nil if there is none. It does not move the read position.
func (r *ring) peek(s *Session) *probe.Call {
	if r.pos >= r.head.head.Load() {
		return nil
	}
	b, state, size := r.next(r.pos)
	if state != stateEntered || size < callHeader || size%8 != 0 || size > r.size || b[6] != recCall {
		return nil
	}
	was := *r
	defer func() { *r = was }() // drain decodes it again when the call has returned
	c, err := r.call(s, b[:size], stateEntered)
	if err != nil {
		return nil
	}
	own := copyCall(c)
	return &own
}
