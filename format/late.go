package format

import (
	"math"
	"slices"
)

// LateData returns one parameter's data to a reader that reads calls in order, if the data is in later chunks than
// the calls. It reads as far ahead as a call's data can be, and holds the data that it finds.
type LateData struct {
	r     *Reader
	param uint8
	low   []uint64 // for each events chunk and all later ones, the lowest call with late data in them
	next  int      // next chunk
	held  map[uint64][]byte
}

// LateData prepares to return data for a parameter, which may be one of the recorder's own.
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

// Of returns a call's late data, nil if there is none, and drops it.
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
	for k := range b.rows {
		if !b.late(k) {
			continue
		}
		if d := b.datum(k); d.Param == l.param {
			l.held[d.Call] = slices.Clone(d.Bytes)
		}
	}
	return nil
}
