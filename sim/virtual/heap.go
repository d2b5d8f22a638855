package virtual

import "math/bits"

// entry is a moment at which a stream, or a thread (its number inverted), goes on; or, in a line of those that wait for something, a
// priority and what is needed.
type entry struct {
	at  int64
	seq uint64 // order of those at the same moment
	id  int32
	need
}

// heap has the earliest entry in front. Each entry has up to four below it.
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

// down puts an entry into a free place, or behind those below that are before it. Which of four is first is as good as
// chance, and a processor that guesses wrong loses more time than the comparison takes: so there is no branch for it.
//
// The entry comes as a value: read back from where it was written just before, the processor would wait for that.
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

// less is 1 for an entry that is before another one, else 0.
func (a *entry) less(b *entry) int {
	_, less := bits.Sub64(a.seq, b.seq, 0)
	_, less = bits.Sub64(uint64(a.at), uint64(b.at), less)
	return int(less)
}
