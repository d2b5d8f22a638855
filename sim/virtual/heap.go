package virtual

// entry is a moment at which a stream, or a thread (its number inverted), goes on.
type entry struct {
	at  int64
	seq uint64 // order of those at the same moment
	id  int32
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
	q[0] = q[n]
	*h = q[:n]
	if n > 1 {
		h.down(0)
	}
}

// down moves an entry behind those that are before it.
func (h heap) down(i int) {
	e := h[i]
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
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
