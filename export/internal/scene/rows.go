package scene

import (
	"math"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/timeline"
)

// MaxRows limits the rows for a stream's overlapping measured tasks.
const MaxRows = 16

// Kind is a row's content.
type Kind uint8

// The row kinds.
const (
	Host      Kind = iota // a thread's calls and ranges
	Ranges                // ranges that began on one thread and ended on another
	Measured              // a lane's tasks with measured times
	Bracketed             // a lane's tasks with bracketed times
	Steps                 // the program's steps
	Lost                  // gaps that concern all threads
)

// A Row is a line that holds slices.
type Row struct {
	ID      int // from 0, by first slice
	Kind    Kind
	Process int
	Thread  int // -1 unless a Host row
	Lane    int // -1 unless a device row
	Device  int // device row only; timeline.NoDevice if unknown
	N       int // from 0: further rows for one thread or lane
	Moments bool
	Name    string

	open []int64 // when each open slice ends
	end  int64   // when the last slice ends
}

// rows are the rows made so far.
type rows struct {
	made   int
	host   [][]*Row // by thread
	lanes  []lane   // by walk lane
	ranges [][]*Row // by process
	lost   *Row
	steps  *Row
}

// lane holds one walk lane's rows.
type lane struct {
	rows      []*Row // for measured tasks
	moments   *Row
	bracketed *Row
	held      *timeline.Task // bracketed, drawn when the next one's begin is known
	content   uint64         // size of the graph that it runs
	name      Sym
	queue     *Counter
}

func (s *Scene) lane(i int) *lane {
	l := &s.rows.lanes
	for i >= len(*l) {
		*l = append(*l, lane{name: s.Sym(s.W.Lanes[len(*l)].Name)})
	}
	return &(*l)[i]
}

func (r *rows) row(x Row) *Row {
	x.ID = r.made
	r.made++
	x.Name = strings.ToValidUTF8(x.Name, "\uFFFD")
	return &x
}

// nest adds a slice to the row if it nests there.
func (r *Row) nest(from, to int64) bool {
	n := len(r.open)
	for n > 0 && r.open[n-1] <= from {
		n--
	}
	if n > 0 && r.open[n-1] < to {
		return false
	}
	r.open = append(r.open[:n], to)
	return true
}

// hostRow adds a slice to the thread's first row on which it nests, and returns the row.
func (s *Scene) hostRow(thread int, from, to int64) *Row {
	for _, r := range s.rows.host[thread] {
		if r.nest(from, to) {
			return r
		}
	}
	th := &s.Threads[thread]
	name := th.Name
	if name == "" {
		name = "thread " + strconv.Itoa(th.TID)
	}
	r := s.rows.row(Row{Kind: Host, Process: int(th.Process), Thread: thread, Lane: -1, N: len(s.rows.host[thread]), Name: name})
	r.nest(from, to)
	s.rows.host[thread] = append(s.rows.host[thread], r)
	return r
}

// measuredRow returns the lane's first free row, or its row for moments.
func (s *Scene) measuredRow(t *timeline.Task) (row *Row, moment bool) {
	in := s.lane(t.Lane)
	for _, r := range in.rows {
		if r.end <= t.From {
			r.end = max(t.From, t.To)
			return r, false
		}
	}
	if len(in.rows) == MaxRows && in.moments != nil {
		return in.moments, true
	}
	r := s.laneRow(t.Lane, Measured)
	if r.N = len(in.rows); r.N == MaxRows {
		r.Moments = true
		r.Name += ", begin"
		in.moments = s.rows.row(r)
		return in.moments, true
	}
	r.end = max(t.From, t.To)
	row = s.rows.row(r)
	in.rows = append(in.rows, row)
	return row, false
}

// bracketedRow returns the lane's row for bracketed tasks.
func (s *Scene) bracketedRow(lane int) *Row {
	in := s.lane(lane)
	if in.bracketed == nil {
		r := s.laneRow(lane, Bracketed)
		r.Name += " (bracketed)"
		r.end = math.MinInt64
		in.bracketed = s.rows.row(r)
	}
	return in.bracketed
}

func (s *Scene) laneRow(i int, kind Kind) Row {
	lane := &s.W.Lanes[i]
	return Row{Kind: kind, Process: s.process(lane.Process), Thread: -1, Lane: i, Device: lane.Device, Name: lane.Name}
}

// rangeRow returns the first row for ranges across threads on which a slice nests, and adds the slice.
func (s *Scene) rangeRow(process int, from, to int64) *Row {
	for _, r := range s.rows.ranges[process] {
		if r.nest(from, to) {
			return r
		}
	}
	r := s.rows.row(Row{Kind: Ranges, Process: process, Thread: -1, Lane: -1, N: len(s.rows.ranges[process]), Name: "ranges"})
	r.nest(from, to)
	s.rows.ranges[process] = append(s.rows.ranges[process], r)
	return r
}
