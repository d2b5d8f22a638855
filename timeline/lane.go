package timeline

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
)

// LaneNames name the lanes of a trace. Streams are numbered within a process, in the order of their first use: "stream 1". A default stream
// is named by its context or device, unless it is the only one. The zero value has no lanes.
type LaneNames struct {
	names map[LaneKey]string
	count map[laneKind]int
}

type laneKind struct {
	process              uint32
	created, synchronous bool
}

// Of returns the name of a lane. A lane gets its name at the first call of Of.
func (n *LaneNames) Of(k LaneKey) string {
	if name, ok := n.names[k]; ok {
		return name
	}
	if n.names == nil {
		n.names, n.count = map[LaneKey]string{}, map[laneKind]int{}
	}
	kind := laneKind{k.Process, k.Stream != nil, k.Synchronous}
	like := n.count[kind]
	n.count[kind]++
	name := "default stream"
	if k.Synchronous {
		name = "synchronous"
	}
	switch {
	case k.Stream != nil:
		name = fmt.Sprintf("stream %d", like+1)
	case like > 0 && k.Context != nil:
		name = fmt.Sprintf("%s of context#%d", name, k.Context.ID)
	case like > 0 && k.Device != NoDevice:
		name = fmt.Sprintf("%s of device %d", name, k.Device)
	}
	n.names[k] = name
	return name
}

// Known returns the name of a lane, "" if it has none yet.
func (n *LaneNames) Known(k LaneKey) string { return n.names[k] }

// Call names the lanes of a call that was applied to a State, as a Walk does. It returns the lane of its task, "" if it made none.
func (n *LaneNames) Call(s *State, e *Event) (name string) {
	f := e.Fn
	if f == nil {
		return ""
	}
	ok := e.OK()
	if ok && f.Range == api.NoRange && (e.Captured != nil || f.Task != api.NoTask) {
		if name = n.Of(s.LaneKey(e)); e.Captured != nil {
			name = ""
		}
	}
	if f.Sync.Wait() == api.SyncStream {
		k := s.WaitedLane(e)
		if _, known := n.names[k]; ok || known { // otherwise the handle may be wrong
			n.Of(k)
		}
	}
	return name
}

// laneID identifies a lane in every pass through a trace. Objects differ between passes, their numbers do not.
type laneID struct {
	process     uint32
	stream      int // number of the object, 0 for none
	device      int // of a lane without a stream
	context     int
	synchronous bool
}

func (k *LaneKey) id() laneID {
	id := laneID{process: k.Process, synchronous: k.Synchronous}
	if k.Stream != nil {
		id.stream = k.Stream.ID
		return id
	}
	if id.device = k.Device; k.Context != nil {
		id.context = k.Context.ID
	}
	return id
}
