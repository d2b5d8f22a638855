package ring

import "testing"

// A thread was in code of the shim if its call was not visible yet, or not finished after the function had returned, or a payload was being
// recorded. In the program, in the runtime, or waiting for room, it was not.
func TestDiedInShim(t *testing.T) {
	record := func(kind byte, start, end uint64) []byte {
		b := make([]byte, callHeader)
		b[6] = kind
		le.PutUint64(b[8:], start)
		le.PutUint64(b[16:], end)
		return b
	}
	for name, c := range map[string]struct {
		change func(*ring, *header)
		want   bool
	}{
		"in the program":      {func(*ring, *header) {}, false},
		"before the entry":    {func(_ *ring, h *header) { h.seq.Add(1) }, true},
		"in a payload":        {func(_ *ring, h *header) { h.inPayload.Store(1) }, true},
		"in the runtime":      {func(r *ring, _ *header) { r.returned = returned(record(recCall, 10, 9)) }, false},
		"after the return":    {func(r *ring, _ *header) { r.returned = returned(record(recCall, 10, 10)) }, true},
		"in another record":   {func(r *ring, _ *header) { r.returned = returned(record(recPayload, 10, 10)) }, false},
		"after a lost call":   {func(_ *ring, h *header) { h.seq.Add(1); h.lost.Add(1) }, false},
		"in a ring given up":  {func(r *ring, h *header) { h.seq.Add(1); r.done = true }, false},
		"in a damaged record": {func(r *ring, _ *header) { r.returned = returned(make([]byte, 8)) }, false},
	} {
		h := &header{}
		h.seq.Store(7)
		h.lost.Store(2)
		r := &ring{head: h, mark: mark{seq: 7, lost: 2}}
		c.change(r, h)
		if got := r.diedInShim(h.lost.Load()); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
