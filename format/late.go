package format

import (
	"math"
	"slices"
)

// LateData gives the data of one parameter to whoever reads the calls in their order, where it lies in later chunks than its
// calls. It reads as far ahead as a call's data can lie, and holds what it has come by on the way.
type LateData struct {
	r     *Reader
	param uint8
	low   []uint64 // of each events chunk and all behind it, the lowest call that they have late data of
	next  int      // chunk
	held  map[uint64][]byte
}

// LateData prepares to give the data of the parameter, which may stand for none of the function's.
func (r *Reader) LateData(param uint8) (*LateData, error) {
	if err := r.learn(); err != nil {
		return nil, err
	}
	l := &LateData{r: r, param: param, low: make([]uint64, len(r.events)), held: map[uint64][]byte{}}
	lowest := uint64(math.MaxUint64)
	for i := len(l.low) - 1; i >= 0; i-- {
		if late := r.learned[i].late; late.n > 0 {
			lowest = min(lowest, late.lo)
		}
		l.low[i] = lowest
	}
	return l, nil
}

// Of returns the bytes of a call's late data, nil where it has none, and holds them no longer.
func (l *LateData) Of(call uint64) ([]byte, error) {
	for l.next < len(l.low) && l.low[l.next] <= call {
		i := l.next
		l.next++
		if l.r.learned[i].late.n == 0 {
			continue
		}
		if err := l.read(i); err != nil {
			return nil, err
		}
	}
	d := l.held[call]
	delete(l.held, call)
	return d, nil
}

func (l *LateData) read(i int) error {
	b := l.r.block()
	defer release(b)
	ok, err := l.r.load(b, &l.r.events[i], want{noArgs: true})
	if err != nil || !ok {
		return err
	}
	var d Data
	for k := range b.rows {
		if !b.late(k) {
			continue
		}
		b.arena = b.arena[:0]
		if b.datum(&d, k); d.Param == l.param {
			l.held[d.Call] = slices.Clone(d.Bytes)
		}
	}
	return nil
}
