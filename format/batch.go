package format

import (
	"iter"

	"github.com/acltrace/acltrace/format/column"
)

// A Batch is a run of consecutive calls, column by column. Each slice has N elements, one for each call, or none
// if the column was not requested.
type Batch struct {
	First  uint64 // index of the first call
	N      int    // calls, at most BatchCalls
	Func   []uint16
	Start  []int64 // as Call.Start
	Dur    []int64 // Call.End - Call.Start, nanoseconds, not negative
	Thread []uint32
	Flags  []CallFlags
	Ret    []uint64
}

// BatchCalls is the largest size of a Batch: it fits the processor's first cache.
const BatchCalls = 1024

// Batches iterates over columns of the calls, for users of few fields of many calls: a call costs a tenth of its
// cost in Calls, and unwanted columns are not unpacked. They come in the
// order of Calls. f only selects chunks: a Batch is from a chunk that may hold a matching call, and
// single calls are not compared with f. The Batch and its slices are reused for the next step. Damage and errors are
// as for Calls.
func (r *Reader) Batches(f *Filter, columns Columns) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		m := newMatcher(f, r.schema)
		m.want = want{columns: columns, noArgs: true, noData: true, batches: true}
		if columns&StartColumn != 0 {
			m.want.columns |= DurColumn // a start is relative to the previous end
		}
		l := r.newLoader(m, maxAhead)
		defer l.close()
		t := batcher{columns: columns}
		for {
			b, _, err := l.next()
			if err != nil {
				yield(nil, err)
			}
			if b == nil {
				return
			}
			ok := true
			t.end = b.t0
			for from := 0; from < b.n && ok; from += BatchCalls {
				t.refill(b, from)
				ok = yield(&t.batch, nil)
			}
			release(b)
			if !ok {
				return
			}
		}
	}
}

// A batcher makes the batches of a block.
type batcher struct {
	columns Columns
	batch   Batch
	durs    []int64 // if only starts are requested
	end     int64   // end of the last call
}

func (t *batcher) refill(b *block, from int) {
	c, n := &t.batch, min(BatchCalls, b.n-from)
	c.First, c.N = b.first+uint64(from), n
	if t.columns&FuncColumn != 0 {
		c.Func = part(c.Func, b, callFunc, from, n)
	}
	if t.columns&DurColumn != 0 {
		c.Dur = part(c.Dur, b, callDur, from, n)
	}
	if t.columns&StartColumn != 0 {
		durs := c.Dur
		if t.columns&DurColumn == 0 {
			t.durs = part(t.durs, b, callDur, from, n)
			durs = t.durs
		}
		c.Start = part(c.Start, b, callStart, from, n)
		end := t.end
		for i, dur := range durs[:len(c.Start)] {
			start := end + c.Start[i]
			c.Start[i] = start
			end = start + dur
		}
		t.end = end
	}
	if t.columns&ThreadColumn != 0 {
		c.Thread = part(c.Thread, b, callThread, from, n)
	}
	if t.columns&FlagsColumn != 0 {
		c.Flags = part(c.Flags, b, callFlags, from, n)
	}
	if t.columns&RetColumn != 0 {
		c.Ret = part(c.Ret, b, callRet, from, n)
	}
}

// part reads n rows of a field into dst's memory.
func part[T column.Word](dst []T, b *block, field, from, n int) []T {
	dst = resize(dst, n)
	column.Fill(dst, &b.calls[field], from)
	return dst
}
