package virtual

// Tasks is the work behind tasks that a Machine knows nothing of but their order: an engine with contents. The Machine calls
// its methods from Step, in the order of the streams' tasks, about the first one that has not ended.
type Tasks interface {
	// Ready tells whether the task may begin, as far as it does not depend on cores and engines, and what it holds while it
	// runs. Where it may not, Machine.Wake has the question asked again. The question may come more than once after it was
	// answered with yes.
	Ready(stream int32) (Need, bool)
	// Begin begins the task and returns how many nanoseconds it takes.
	Begin(stream int32) int64
	// End ends it.
	End(stream int32)
}

// Submit puts a task of Options.Tasks on a stream, called at a time. Tasks that are direct don't take the way from the host.
func (m *Machine) Submit(stream int32, at int64, direct bool) {
	s := m.streams[stream]
	s.total++
	s.items = append(s.items, item{submitted: at, foreign: true, direct: direct})
	if s.state == idle {
		s.state = queued
		m.ready = append(m.ready, s)
	}
}

// Wake has a stream whose first task was not ready asked again.
func (m *Machine) Wake(stream int32) { m.wake(m.streams[stream]) }

// Now is the time of what was done last.
func (m *Machine) Now() int64 { return m.now }

// Next is when there is something to do, false where there is nothing.
func (m *Machine) Next() (int64, bool) {
	if len(m.ready) > 0 {
		return m.now, true
	}
	if len(m.heap) > 0 {
		return m.heap[0].at, true
	}
	return 0, false
}

// Pass lets time pass up to a moment before which there is nothing to do.
func (m *Machine) Pass(to int64) { m.now = max(m.now, to) }

// RemoveStream ends a stream without tasks. AddStream gives its number out again.
func (m *Machine) RemoveStream(stream int32) {
	s := m.streams[stream]
	for i, o := range s.dev.streams {
		if o == s {
			s.dev.streams = append(s.dev.streams[:i], s.dev.streams[i+1:]...)
			break
		}
	}
	m.unused = append(m.unused, stream)
}

// foreign does the first task of a stream, one of Options.Tasks, and tells whether it has ended.
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
