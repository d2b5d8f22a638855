package acl

import (
	"slices"
	"sync"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

// label is a place in a model that is built by hand, where another stream may go on.
type label struct {
	handle uint64
	mu     sync.Mutex
	graph  *graph
	at     place
}

// labelList is labels that a number on the device chooses from.
type labelList struct {
	handle uint64
	labels []*label
}

// maxLabels is the number of labels of a process (documented).
const maxLabels = 65535

// CreateLabel makes a label.
func (t *Thread) CreateLabel(l *acl.Label) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if l == nil {
		return t.null("label")
	}
	if t.sim.labels.Live() >= maxLabels {
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "there are %d labels already", maxLabels)
	}
	x := &label{}
	x.handle = t.sim.labels.Add(x)
	*l = acl.Label(x.handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) label(h acl.Label) (*label, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	l := t.sim.labels.Get(uint64(h))
	if l == nil {
		return nil, t.badHandle(space.KindLabel, uint64(h))
	}
	return l, acl.ACL_SUCCESS
}

// DestroyLabel ends a label. Lists that hold it keep its place.
func (t *Thread) DestroyLabel(l acl.Label) acl.Error {
	if _, e := t.label(l); e != 0 {
		return e
	}
	t.sim.labels.Remove(uint64(l))
	return acl.ACL_SUCCESS
}

// SetLabel puts a label behind the tasks that a bound stream has so far; once for each label.
func (t *Thread) SetLabel(h acl.Label, on acl.Stream) acl.Error {
	l, e := t.label(h)
	if e != 0 {
		return e
	}
	_, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	b.graph.mu.Lock()
	at := place{b.lane, len(b.lane.tasks)}
	b.graph.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.graph != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the label is set already")
	}
	l.graph, l.at = b.graph, at
	return acl.ACL_SUCCESS
}

// CreateLabelList makes a list of labels.
func (t *Thread) CreateLabelList(labels *acl.Label, num uint64, list_ *acl.LabelList) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if labels == nil || num == 0 || num > maxLabels || list_ == nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a list of %d labels", num)
	}
	x := &labelList{}
	for _, h := range slices.Clone(space.List(labels, num)) {
		l, e := t.label(h)
		if e != 0 {
			return e
		}
		x.labels = append(x.labels, l)
	}
	x.handle = t.sim.labelLists.Add(x)
	*list_ = acl.LabelList(x.handle)
	return acl.ACL_SUCCESS
}

// DestroyLabelList ends a list and none of its labels.
func (t *Thread) DestroyLabelList(labelList acl.LabelList) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if t.sim.labelLists.Remove(uint64(labelList)) == nil {
		return t.badHandle(space.KindLabelList, uint64(labelList))
	}
	return acl.ACL_SUCCESS
}

// SwitchLabelByIndex goes on at the label whose number lies in device memory when the task runs, or at the last one where the number is
// too large.
func (t *Thread) SwitchLabelByIndex(ptr acl.Addr, maxValue uint32, labelList acl.LabelList, on acl.Stream) acl.Error {
	s, b, e := t.boundTo(nil, on)
	if e != 0 {
		return e
	}
	x := t.sim.labelLists.Get(uint64(labelList))
	switch {
	case x == nil:
		return t.badHandle(space.KindLabelList, uint64(labelList))
	case int(maxValue) != len(x.labels):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "maxValue is %d, the list has %d labels", maxValue, len(x.labels))
	case ptr == 0 || ptr%4 != 0 || t.sim.Locate(ptr).Device == nil:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no place of a number in device memory", ptr)
	}
	return t.submit(s, device.Task{Kind: device.TaskGraph, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		n, f := readNumber(s, ptr, false)
		if f != nil {
			return 0, f
		}
		l := x.labels[min(uint32(n), maxValue-1)]
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.graph != b.graph {
			return 0, failed(acl.ACL_ERROR_RT_LABEL_CONTEXT, "label %d of the list is not set in model %d", n, b.graph.id)
		}
		at := l.at
		running(s).jump = &at
		return 0, nil
	}})
}
