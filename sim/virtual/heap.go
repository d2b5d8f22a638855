package virtual

import "math/bits"

// entry is the time at which a stream or thread (inverted number) continues; in a waiting line, a priority and a
// need.
type entry struct {
	at  int64
	seq uint64 // order of entries at the same time
	id  int32
	need
}

// heap has the earliest entry first. Each entry has up to four children.
type heap []entry

func (a entry) before(b entry) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (h *heap) push(e entry) {
	q := append(*h, e)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(q[up]) {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = e
	*h = q
}

func (h *heap) pop() {
	q := *h
	n := len(q) - 1
	*h = q[:n]
	if n > 0 {
		h.down(0, q[n])
	}
}

// down inserts an entry at a free place or below. It compares without branches, since mispredictions cost more. The
// entry is passed by value, since reading it back would stall the processor.
func (h heap) down(i int, e entry) {
	for {
		least := 4*i + 1
		if least+3 < len(h) {
			four := h[least : least+4 : least+4]
			a := four[1].less(&four[0])
			b := 2 + four[3].less(&four[2])
			least += a + (b-a)*four[b&3].less(&four[a&3])
		} else {
			if least >= len(h) {
				break
			}
			for c := least + 1; c < len(h); c++ {
				if h[c].before(h[least]) {
					least = c
				}
			}
		}
		if !h[least].before(e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}

// less returns 1 if an entry is before another one, else 0.
func (a *entry) less(b *entry) int {
	_, less := bits.Sub64(a.seq, b.seq, 0)
	_, less = bits.Sub64(uint64(a.at), uint64(b.at), less)
	return int(less)
}
