package virtual

import "slices"

// Tasks executes tasks with contents, for a Machine that knows only their order. The Machine calls the methods in
// Step, for the first unfinished task of a stream.
type Tasks interface {
	// Ready reports whether the task may begin, apart from cores and engines, and returns its need. If not,
	// Machine.Wake repeats the query. It may be called again after it returned true.
	Ready(stream int32) (Need, bool)
	// Begin begins the task and returns its duration in nanoseconds.
	Begin(stream int32) int64
	// End ends the task.
	End(stream int32)
}

// Submit puts a task on a stream at the time of a call. Direct tasks skip the submission delay.
func (m *Machine) Submit(stream int32, at int64, direct bool) {
	s := m.streams[stream]
	s.total++
	s.items = append(s.items, item{submitted: at, foreign: true, direct: direct})
	if s.state == idle {
		s.state = queued
		m.ready = append(m.ready, s)
	}
}

// Wake repeats the Ready query for a blocked stream.
func (m *Machine) Wake(stream int32) { m.wake(m.streams[stream]) }

// Now returns the latest event's time.
func (m *Machine) Now() int64 { return m.now }

// Next returns the next event's time; false for none.
func (m *Machine) Next() (int64, bool) {
	if len(m.ready) > 0 {
		return m.now, true
	}
	if len(m.heap) > 0 {
		return m.heap[0].at, true
	}
	return 0, false
}

// Pass advances time to a moment without earlier events.
func (m *Machine) Pass(to int64) { m.now = max(m.now, to) }

// RemoveStream ends a stream without tasks. AddStream reuses its number.
func (m *Machine) RemoveStream(stream int32) {
	s := m.streams[stream]
	if at := slices.Index(s.dev.streams, s); at >= 0 {
		s.dev.streams = slices.Delete(s.dev.streams, at, at+1)
	}
	m.unused = append(m.unused, stream)
}

// foreign advances the first task of Options.Tasks on a stream, and reports whether it has ended.
func (m *Machine) foreign(s *stream, it *item, known int64) bool {
	if known > m.now {
		s.state = delayed
		m.push(known, s.id)
		return false
	}
	need, ok := m.o.Tasks.Ready(s.id)
	if !ok {
		s.state = blocked
		return false
	}
	it.kind, it.copy = need.Kind, need.Copy
	_, it.need = need.compact()
	if !it.kind.takesTime() {
		if it.duration = m.o.Tasks.Begin(s.id); it.duration == 0 {
			m.finish(s, it, m.now)
			return true
		}
		s.state, s.start = running, m.now
		m.push(m.now+it.duration, s.id)
		return false
	}
	if at := s.last + m.model.Launch.Overhead; s.last > 0 && at > m.now {
		s.state = delayed
		m.push(at, s.id)
		return false
	}
	m.take(s, it, m.now)
	return false
}
