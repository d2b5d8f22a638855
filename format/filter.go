package format

import (
	"math"
	"slices"
)

// Columns are the fields of every call, for Reader.Batches.
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

// want selects the parts to decode in load.
type want struct {
	columns Columns // columns in the table of calls; without FuncColumn no call can be made
	funcs   func(id uint16) bool
	noArgs  bool
	noData  bool
	dataOf  []bool // by function: true if its data is wanted; nil for all
	whole   bool   // unpack unwanted parts too
	batches bool   // only columns are read, and no single call
	random  bool   // random access to calls
}

// A Filter selects calls. The zero value and nil select all.
type Filter struct {
	Funcs   []uint16 // any of these; all if empty
	Threads []uint32 // on any of these; all if empty
	Handles []Handle // with one of these as a parameter; all if empty
	Task    *TaskID  // only the call of this task
	From    int64    // only calls that end at From or later
	To      int64    // only calls that start before To; 0 for no limit
	NoArgs  bool     // leave Args and Outs empty, and spend no time on them
	NoData  bool     // the same for Data
	// DataOf are the functions whose calls have Data, all if nil. Data of other calls costs no time.
	DataOf []uint16
	// Chunk is called just before a chunk of calls is read, in file order; false skips the chunk.
	Chunk func(*ChunkInfo) bool
}

// A TaskID identifies a task by the runtime's own numbers of its stream and itself.
type TaskID struct {
	Stream uint32 // stream id
	Task   uint32 // task id
}

// A DataFilter selects data. The zero value and nil select all.
type DataFilter struct {
	From uint64 // only data of calls from this index on
	To   uint64 // only data of calls before this index; 0 for no limit
	Late bool   // only data that Calls does not return, because it is in a later chunk than its call
}

// matcher is a compiled Filter.
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

// chunk reports if the chunk can hold a matching call.
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

// all reports if every call matches.
func (m *matcher) all() bool {
	return m.funcs == nil && m.threads == nil && m.From <= 0 && m.To == math.MaxInt64 && m.Handles == nil && m.Task == nil
}

// names reports if one of the call's parameters is one of the handles.
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

// chunk reports if a chunk may have matching data.
func (f *DataFilter) chunk(c *ChunkInfo) bool {
	late := c.late.n > 0 && (f.To == 0 || c.late.lo < f.To) && c.late.lo+c.late.n > f.From
	own := !f.Late && (f.To == 0 || c.First < f.To) && c.First+c.Calls > f.From
	return c.rows > 0 && (late || own)
}
