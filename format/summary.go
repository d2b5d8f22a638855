package format

import (
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// TaskParam is the parameter number for the recorder's own output with the runtime's ids of the call's task,
// stream << 32 | task.
const TaskParam = 254

// info describes the block in chunk e.
func (b *blockWriter) info(s *Schema, e *container.Entry) ChunkInfo {
	c := ChunkInfo{First: b.first, Calls: uint64(b.n), TMin: e.TMin, TMax: e.TMax, Known: true, seq: e.Seq, rows: uint64(len(b.rowCall)), late: b.late}
	if b.n > 0 && b.threads == 0 {
		c.Threads = []uint32{b.thread[0]}
	} else {
		c.Threads = threadsOf(b.thread[:b.n])
	}
	for len(b.handles) <= len(s.Handles) {
		b.handles = append(b.handles, distinct{})
	}
	for _, f := range b.used { // ascending, because encode has sorted them
		c.Funcs = append(c.Funcs, uint32(f.id))
		for _, p := range s.params(f.id) {
			if p.Handle == 0 || p.Word >= f.args.Width() {
				continue
			}
			d := &b.handles[p.Handle]
			for _, v := range f.args.Column(p.Word) {
				if d.full {
					break
				}
				d.add(v)
			}
		}
		for i := range f.outs {
			if f.outs[i].param == TaskParam {
				c.Tasks = addTasks(c.Tasks, b.streams, f.outs[i].values)
			}
		}
	}
	clear(b.streams)
	c.Handles = handlesOf(b.handles)
	for kind := range b.handles {
		b.handles[kind].reset()
	}
	return c
}

// handlesOf lists the collected handles by kind.
func handlesOf(kinds []distinct) []Handle {
	var handles []Handle
	for kind := range kinds {
		d := &kinds[kind]
		slices.Sort(d.values)
		for _, v := range d.values {
			if v != 0 && !d.full {
				handles = append(handles, Handle{Kind: kind, Value: v})
			}
		}
		if d.full {
			handles = append(handles, Handle{Kind: kind, Any: true})
		}
	}
	return handles
}

// threadsOf lists the calls' threads, ascending.
func threadsOf(calls []uint32) []uint32 {
	var threads []uint32
	for i, t := range calls {
		if i == 0 || t != calls[i-1] {
			threads = append(threads, t)
			if len(threads) > 1024 {
				slices.Sort(threads)
				threads = slices.Compact(threads)
			}
		}
	}
	slices.Sort(threads)
	return slices.Compact(threads)
}

// addTasks adds the tasks in values, stream << 32 | task. at has the streams' indexes in tasks.
func addTasks(tasks []TaskRange, at map[uint32]int, values []uint64) []TaskRange {
	for len(values) > 0 {
		stream, low, high := uint32(values[0]>>32), uint32(values[0]), uint32(0)
		n := 0
		for ; n < len(values) && uint32(values[n]>>32) == stream; n++ {
			low, high = min(low, uint32(values[n])), max(high, uint32(values[n]))
		}
		values = values[n:]
		k, ok := at[stream]
		if !ok {
			k = len(tasks)
			at[stream] = k
			tasks = append(tasks, TaskRange{stream, low, high})
		}
		tasks[k].Low, tasks[k].High = min(tasks[k].Low, low), max(tasks[k].High, high)
	}
	return tasks
}

// A summaryWriter collects a summary of the events chunks since the previous one.
type summaryWriter struct {
	chunks []ChunkInfo
	rows   int         // of tables, at most
	totals []FuncCount // by function
	enc    column.Encoder
}

// crowded reports whether a table would be too long for readers if the summary had another chunk.
func (s *summaryWriter) crowded(next *ChunkInfo) bool {
	return len(s.chunks) > 0 && s.rows+next.rowsInSummary() > maxCalls
}

// rowsInSummary returns how many rows a chunk may add to a table.
func (c *ChunkInfo) rowsInSummary() int {
	return max(len(c.Tasks), len(c.Funcs)+len(c.Threads), len(c.Handles))
}

func (s *summaryWriter) put(c *ChunkInfo) {
	s.chunks, s.rows = append(s.chunks, *c), s.rows+c.rowsInSummary()
}

// add counts a written block, which c describes.
func (s *summaryWriter) add(b *blockWriter, schema *Schema, c *ChunkInfo) {
	s.put(c)
	for _, f := range b.used {
		t := s.total(f.id)
		t.Calls, t.Time = t.Calls+uint64(f.rows), t.Time+f.time
	}
	if b.anyFlags == 0 && b.anyRet == 0 {
		return
	}
	for i, id := range b.fn[:b.n] {
		s.outcome(schema, id, b.flags[i], b.ret[i])
	}
}

func (s *summaryWriter) total(id uint16) *FuncCount {
	for int(id) >= len(s.totals) {
		s.totals = append(s.totals, FuncCount{})
	}
	return &s.totals[id]
}

// outcome counts failed and unfinished calls.
func (s *summaryWriter) outcome(schema *Schema, id uint16, flags CallFlags, ret uint64) {
	if flags&Unfinished != 0 {
		s.totals[id].Unfinished++
	} else if schema.Func(id).Failed(ret) {
		s.totals[id].Failed++
	}
}

func (s *summaryWriter) reset() {
	s.chunks, s.rows = s.chunks[:0], 0
	clear(s.totals)
}

// encode makes a summary's content. Chunks repeat the same sets, so each set is written once.
func (s *summaryWriter) encode() []byte {
	var cols [chunkFields][]uint64
	var members, handles, tasks table
	for i := range s.chunks {
		c := &s.chunks[i]
		var hs, ts []uint64
		for _, h := range c.Handles {
			kind := uint64(h.Kind)
			if h.Any {
				kind += anyHandle
			}
			hs = append(hs, kind, h.Value)
		}
		for _, t := range c.Tasks {
			ts = append(ts, uint64(t.Stream), uint64(t.Low), uint64(t.High-t.Low))
		}
		for field, v := range [chunkFields]uint64{
			c.seq, c.First, c.Calls, c.rows, c.late.lo, c.late.n,
			members.put(widen(make([]uint64, len(c.Funcs)), c.Funcs), 1), members.put(widen(make([]uint64, len(c.Threads)), c.Threads), 1), handles.put(hs, 2), tasks.put(ts, 3),
		} {
			cols[field] = append(cols[field], v)
		}
	}
	dst := s.enc.Table(nil, kindChunks, 0, cols[:]...)
	dst = members.encode(&s.enc, dst, kindSets)
	dst = handles.encode(&s.enc, dst, kindHandles)
	dst = tasks.encode(&s.enc, dst, kindTasks)
	var sums [totalFields][]uint64
	for id, t := range s.totals {
		if t.Calls == 0 {
			continue
		}
		for field, v := range [totalFields]uint64{uint64(id), t.Calls, t.Failed, t.Unfinished, t.Time} {
			sums[field] = append(sums[field], v)
		}
	}
	return s.enc.Table(dst, kindTotals, 0, sums[:]...)
}

// A table is a list of sets, numbered in order of arrival.
type table struct {
	known map[string]uint64
	cols  [][]uint64 // the number of the set, then its rows
}

// put returns the number of a set, whose rows come word after word.
func (t *table) put(s []uint64, words int) uint64 {
	if t.known == nil {
		t.known = map[string]uint64{}
		t.cols = make([][]uint64, 1+words)
	}
	key := make([]byte, 0, len(s)*8)
	for _, x := range s {
		key = binary.LittleEndian.AppendUint64(key, x)
	}
	n, ok := t.known[string(key)]
	if !ok {
		n = uint64(len(t.known))
		t.known[string(key)] = n
		for ; len(s) > 0; s = s[words:] {
			t.cols[0] = append(t.cols[0], n)
			for k, x := range s[:words] {
				t.cols[1+k] = append(t.cols[1+k], x)
			}
		}
	}
	return n
}

func (t *table) encode(e *column.Encoder, dst []byte, kind uint64) []byte {
	if len(t.cols) == 0 || len(t.cols[0]) == 0 {
		return dst
	}
	return e.Table(dst, kind, 0, t.cols...)
}
