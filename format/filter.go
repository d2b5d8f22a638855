package format

import (
	"math"
	"slices"
)

// Columns are fields that every call has, for Reader.Batches.
type Columns uint8

const (
	FuncColumn   Columns = 1 << callFunc
	StartColumn  Columns = 1 << callStart
	DurColumn    Columns = 1 << callDur
	ThreadColumn Columns = 1 << callThread
	FlagsColumn  Columns = 1 << callFlags
	RetColumn    Columns = 1 << callRet

	AllColumns = FuncColumn | StartColumn | DurColumn | ThreadColumn | FlagsColumn | RetColumn
)

// want tells load what to decode.
type want struct {
	columns Columns // of the table of calls; without that of functions no call can be asked for
	funcs   func(id uint16) bool
	noArgs  bool
	noData  bool
	dataOf  []bool // by function: those whose data is wanted; nil for all
	whole   bool   // unpack what is not wanted too
	batches bool   // only columns are looked at, and no single call
	random  bool   // calls are asked for in any order
}

// A Filter selects calls. The zero value and nil select all.
type Filter struct {
	Funcs   []uint16 // any of these; all when empty
	Threads []uint32 // on any of these; all when empty
	Handles []Handle // with a parameter that is any of these; all when empty
	Task    *TaskID  // only the calls that made this task
	From    int64    // only calls that end at From or later
	To      int64    // only calls that start before To; 0 for no limit
	NoArgs  bool     // leave Args and Outs empty, and do not spend time on them
	NoData  bool     // the same for Data
	// DataOf are the functions whose calls have Data, all when nil. For calls of others no time is spent on it.
	DataOf []uint16
	// Chunk is asked just before a chunk of calls is read, in the order in which they are; false leaves it out.
	Chunk func(*ChunkInfo) bool
}

// A TaskID names a task by the runtime's own numbers of its stream and of the task.
type TaskID struct{ Stream, Task uint32 }

// A DataFilter selects data. The zero value and nil select all.
type DataFilter struct {
	From uint64 // only data of calls from this index on
	To   uint64 // only data of calls before this index; 0 for no limit
	Late bool   // only data that Calls does not give, since it lies in a later chunk than its call
}

// matcher is a Filter made fast.
type matcher struct {
	Filter
	schema  *Schema
	funcs   []bool
	threads map[uint32]bool
	want    want
}

func newMatcher(f *Filter, s *Schema) *matcher {
	m := &matcher{schema: s}
	if f != nil {
		m.Filter = *f
	}
	if m.To == 0 {
		m.To = math.MaxInt64
	}
	m.want = want{columns: AllColumns, noArgs: m.NoArgs && m.Handles == nil && m.Task == nil, noData: m.NoData}
	if m.DataOf != nil {
		m.want.dataOf = make([]bool, 1<<16)
		for _, id := range m.DataOf {
			m.want.dataOf[id] = true
		}
	}
	if len(m.Funcs) > 0 {
		m.funcs = make([]bool, 1<<16)
		for _, id := range m.Funcs {
			m.funcs[id] = true
		}
		m.want.funcs = func(id uint16) bool { return m.funcs[id] }
	}
	if len(m.Threads) > 0 {
		m.threads = map[uint32]bool{}
		for _, t := range m.Threads {
			m.threads[t] = true
		}
	}
	return m
}

// chunk reports whether the chunk can hold a call that matches.
func (m *matcher) chunk(c *eventChunk) bool {
	if c.entry.Records == 0 || c.entry.TMin >= m.To || m.From > 0 && c.entry.TMax < m.From {
		return false
	}
	in := &c.info
	if in.Known && (m.funcs != nil && !slices.ContainsFunc(in.Funcs, func(id uint32) bool { return id <= 0xffff && m.funcs[id] }) ||
		m.threads != nil && !slices.ContainsFunc(in.Threads, func(t uint32) bool { return m.threads[t] })) {
		return false
	}
	return (m.Handles == nil || slices.ContainsFunc(m.Handles, in.Handle)) && (m.Task == nil || in.Task(m.Task.Stream, m.Task.Task))
}

// all reports whether every call matches.
func (m *matcher) all() bool {
	return m.funcs == nil && m.threads == nil && m.From <= 0 && m.To == math.MaxInt64 && m.Handles == nil && m.Task == nil
}

// names reports whether a parameter of the call is one of the handles.
func (m *matcher) names(c *Call) bool {
	f := m.schema.Func(c.Func)
	if f == nil {
		return false
	}
	for _, p := range f.Params {
		if p.Handle == 0 || p.Word >= len(c.Args) {
			continue
		}
		for _, h := range m.Handles {
			if h.Kind == p.Handle && (h.Any || h.Value == c.Args[p.Word]) {
				return true
			}
		}
	}
	return false
}

// chunk reports whether a chunk has data that may match.
func (f *DataFilter) chunk(c *ChunkInfo) bool {
	late := c.late.n > 0 && (f.To == 0 || c.late.lo < f.To) && c.late.lo+c.late.n > f.From
	own := !f.Late && (f.To == 0 || c.First < f.To) && c.First+c.Calls > f.From
	return c.rows > 0 && (late || own)
}
