package timeline

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline/order"
)

// A Wait is why a call, or its task, waits for a task on another lane.
type Wait struct {
	Why    order.Why
	Object *Object // event or notify, nil for none
	Call   uint64  // that made the task
	Lane   LaneKey // of the task
}

// String returns the wait in words: "waits for event#9, recorded by call 812 on stream#2".
func (w *Wait) String() string {
	on, object := "a default stream", ""
	if w.Lane.Stream != nil {
		on = Place(Use{Object: w.Lane.Stream})
	}
	if w.Object != nil {
		object = Place(Use{Object: w.Object})
	}
	return WaitText(w.Why, object, w.Call, on)
}

// WaitText says in words why work waits for the task of a call on a lane. The object is the event or notify, empty for none.
func WaitText(why order.Why, object string, call uint64, on string) string {
	switch {
	case why == order.Value:
		return fmt.Sprintf("waits for a value, written by call %d on %s", call, on)
	case object == "":
		return fmt.Sprintf("waits for call %d on %s", call, on)
	}
	return fmt.Sprintf("waits for %s, recorded by call %d on %s", object, call, on)
}

// Waits finds the waits of calls that are applied to a State.
type Waits struct {
	s     *State
	order *order.Order[*Object, struct{}]
	call  order.Call[*Object]
	lanes map[LaneKey]int
	keys  []LaneKey // by lane
}

// NewWaits returns the Waits of a State before the first call.
func NewWaits(s *State) *Waits {
	return &Waits{s: s, order: order.New[*Object, struct{}](), lanes: map[LaneKey]int{}}
}

func (w *Waits) lane(k LaneKey) int {
	n, ok := w.lanes[k]
	if !ok {
		n = len(w.keys)
		w.lanes[k], w.keys = n, append(w.keys, k)
		w.order.Lane(w.s.OrderLane(&k))
	}
	return n
}

// Of returns the waits of the call that was applied last: of its task, or of the host for an event. Call it for each call. A wait that comes before
// the record has none.
func (w *Waits) Of(e *Event) (waits []Wait) {
	f := e.Fn
	if f == nil {
		return nil
	}
	task := f.Task != api.NoTask && f.Range == api.NoRange && e.Captured == nil && e.OK()
	if !task && f.Sync == api.NoSync && e.Captured == nil && !ordersObjects(e) {
		return nil
	}
	k := &w.call
	w.s.OrderCall(k, e)
	switch {
	case task:
		k.Lane, k.Task = w.lane(w.s.LaneKey(e)), 0
	case f.Sync.Wait() == api.SyncStream:
		k.Lane = w.lane(w.s.WaitedLane(e))
	}
	for _, x := range w.order.Apply(k) {
		switch x.Why {
		case order.SameLane, order.HostWait, order.DeviceWait: // the call says so
			continue
		}
		if x.After.Call == k.Index {
			waits = append(waits, Wait{x.Why, k.Key, x.Before.Call, w.keys[x.Before.Lane]})
		}
	}
	return waits
}
