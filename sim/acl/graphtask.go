package acl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// Programs can inspect and change the tasks of a model. Changes wait for aclmdlRIUpdate.

// fillList stores the length of a list, and its items if the buffer has room for all.
func fillList[T any](t *Thread, items []T, to *T, n *uint32) acl.Error {
	if n == nil {
		return t.null("the number")
	}
	if to != nil {
		if int(*n) < len(items) {
			return t.fail(acl.ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, "the list has %d items, but the array has room for %d", len(items), *n)
		}
		copy(space.List(to, uint64(*n)), items)
	}
	*n = uint32(len(items))
	return acl.ACL_SUCCESS
}

func (t *Thread) MdlRIGetStreams(modelRI acl.MdlRI, streams *acl.Stream, numStreams *uint32) acl.Error {
	g, e := t.whole(modelRI)
	if e != 0 {
		return e
	}
	g.Lock()
	var all []acl.Stream
	for _, l := range g.Lanes {
		all = append(all, acl.Stream(l.Stream.Handle))
	}
	g.Unlock()
	return fillList(t, all, streams, numStreams)
}

// MdlRIGetTasksByStream returns the tasks of a stream in its newest model.
func (t *Thread) MdlRIGetTasksByStream(on acl.Stream, tasks *acl.MdlRITask, numTasks *uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	l, g := t.sim.laneOf(s)
	if l == nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "stream %d does not belong to a model", s.ID)
	}
	if g.Part {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d belongs to model %d, which is part of another model", s.ID, g.ID)
	}
	g.Lock()
	var all []acl.MdlRITask
	for _, k := range l.Tasks {
		if k.Handle == 0 {
			k.Graph = g
			k.Handle = t.sim.GraphTasks.Add(k)
		}
		all = append(all, acl.MdlRITask(k.Handle))
	}
	g.Unlock()
	return fillList(t, all, tasks, numTasks)
}

// laneOf finds the lane of a stream in its newest model.
func (s *Sim) laneOf(st *device.Stream) (found *graph.Lane, in *graph.Graph) {
	s.Graphs.Each(func(g *graph.Graph) {
		if s.Captures.Into(g) {
			return
		}
		g.Lock()
		defer g.Unlock()
		for _, l := range g.Lanes {
			if l.Stream == st && (in == nil || g.Serial > in.Serial) {
				found, in = l, g
			}
		}
	})
	return found, in
}

func (t *Thread) graphTask(h acl.MdlRITask) (*graph.GraphTask, acl.Error) {
	return find(t, &t.sim.GraphTasks, uint64(h))
}

// askedTask returns a task with its graph locked, for a query whose output must not be null.
func (t *Thread) askedTask(h acl.MdlRITask, noPlace bool, place string) (*graph.GraphTask, acl.Error) {
	k, e := t.graphTask(h)
	if e != 0 {
		return nil, e
	}
	if noPlace {
		return nil, t.absent(place)
	}
	k.Graph.Lock()
	return k, acl.ACL_SUCCESS
}

func (t *Thread) MdlRITaskGetType(h acl.MdlRITask, type_ *acl.MdlRITaskType) acl.Error {
	k, e := t.askedTask(h, type_ == nil, "type")
	if e != 0 {
		return e
	}
	defer k.Graph.Unlock()
	*type_ = k.Type()
	return acl.ACL_SUCCESS
}

// MdlRITaskGetSeqId returns the sequence number of a task in its model: by stream, then by order.
func (t *Thread) MdlRITaskGetSeqId(h acl.MdlRITask, id *uint32) acl.Error {
	k, e := t.askedTask(h, id == nil, "id")
	if e != 0 {
		return e
	}
	defer k.Graph.Unlock()
	n := 0
	for _, l := range k.Graph.Lanes {
		if at := slices.Index(l.Tasks, k); at >= 0 {
			*id = uint32(n + at)
			return acl.ACL_SUCCESS
		}
		n += len(l.Tasks)
	}
	return t.badHandle(space.KindGraphTask, uint64(h))
}

// MdlRITaskGetParams returns the current parameters of a task, without pending changes.
func (t *Thread) MdlRITaskGetParams(h acl.MdlRITask, params *acl.MdlRITaskParams) acl.Error {
	k, e := t.askedTask(h, params == nil, "params")
	if e != 0 {
		return e
	}
	defer k.Graph.Unlock()
	p := acl.MdlRITaskParams{Type: k.Type()}
	if k.Group != nil {
		p.TaskGrp = acl.TaskGrp(k.Group.Handle)
	}
	if k.OpInfo.Size > 0 {
		p.OpInfoPtr, p.OpInfoSize = k.OpInfo.Addr, k.OpInfo.Size
	}
	body := unsafe.Pointer(&p.Rsv2)
	switch k.Type() {
	case acl.ACL_MODEL_RI_TASK_KERNEL:
		*(*acl.MdlRIKernelTaskParams)(body) = acl.MdlRIKernelTaskParams{FuncHandle: acl.FuncHandle(kernel.OrderOf(&k.Task).Func.Handle), Args: k.Args.Addr, ArgsSize: k.Args.Size, NumBlocks: kernel.OrderOf(&k.Task).Blocks}
	case acl.ACL_MODEL_RI_TASK_EVENT_RECORD, acl.ACL_MODEL_RI_TASK_EVENT_WAIT, acl.ACL_MODEL_RI_TASK_EVENT_RESET:
		switch d := k.Detail.(type) {
		case *graph.Event:
			*(*acl.MdlRIEventRecordTaskParams)(body) = acl.MdlRIEventRecordTaskParams{Event: acl.Event(d.Handle), EventFlag: d.Flags, RecordFlag: acl.ACL_EVENT_RECORD_DEFAULT}
		case *graph.Outside:
			*(*acl.MdlRIEventRecordTaskParams)(body) = acl.MdlRIEventRecordTaskParams{Event: acl.Event(d.Event.Handle), EventFlag: d.Event.Flags, RecordFlag: acl.ACL_EVENT_RECORD_EXTERNAL}
		}
	case acl.ACL_MODEL_RI_TASK_VALUE_WRITE, acl.ACL_MODEL_RI_TASK_VALUE_WAIT:
		v := k.Detail.(*graph.ValueTask)
		*(*acl.MdlRIValueWaitTaskParams)(body) = acl.MdlRIValueWaitTaskParams{DevAddr: v.Addr, Value: v.Value, Flag: v.Flag}
	}
	*params = p
	return acl.ACL_SUCCESS
}

// MdlRITaskSetParams changes a kernel, or a word that is written or waited for, from the next aclmdlRIUpdate on.
func (t *Thread) MdlRITaskSetParams(h acl.MdlRITask, params *acl.MdlRITaskParams) acl.Error {
	k, e := t.graphTask(h)
	if e != 0 {
		return e
	}
	if params == nil {
		return t.absent("params")
	}
	k.Graph.Lock()
	typ, old := k.Type(), k.Task
	k.Graph.Unlock()
	if params.Type != typ {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the task has type %d, but the parameters have type %d", typ, params.Type)
	}
	body := unsafe.Pointer(&params.Rsv2)
	var fresh device.Task
	switch typ {
	case acl.ACL_MODEL_RI_TASK_KERNEL:
		fresh, e = t.changedKernel(&old, (*acl.MdlRIKernelTaskParams)(body))
	case acl.ACL_MODEL_RI_TASK_VALUE_WRITE, acl.ACL_MODEL_RI_TASK_VALUE_WAIT:
		v := *old.Detail.(*graph.ValueTask)
		p := (*acl.MdlRIValueWaitTaskParams)(body)
		v.Addr, v.Value = p.DevAddr, p.Value
		if v.Waits {
			v.Flag = p.Flag
		}
		fresh, e = t.valueTask(&v)
	default:
		return t.fail(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "the parameters of a task of type %d can't be changed", typ)
	}
	if e != 0 {
		return e
	}
	t.sim.spoil(k.Graph.Device, &fresh)
	k.Graph.Lock()
	if c := k.Change; c != nil && c.Task != nil {
		c.Task.End()
	}
	k.Change = &graph.Change{Task: &fresh}
	k.Graph.Unlock()
	return acl.ACL_SUCCESS
}

// changedKernel returns a launch with new parameters. An unchanged argument address keeps the arguments.
func (t *Thread) changedKernel(old *device.Task, p *acl.MdlRIKernelTaskParams) (device.Task, acl.Error) {
	fn := t.sim.functions.Get(uint64(p.FuncHandle))
	switch {
	case fn == nil:
		return device.Task{}, t.badHandle(space.KindFunction, uint64(p.FuncHandle))
	case p.NumBlocks == 0 || p.NumBlocks > kernel.MaxBlocks:
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d blocks: want 1 to %d", p.NumBlocks, kernel.MaxBlocks)
	case p.ArgsSize > maxArgs || (p.Args == 0) != (p.ArgsSize == 0):
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument block of %d bytes at %#x: want an address and at most %d bytes", p.ArgsSize, p.Args, maxArgs)
	}
	if p.Cfg != 0 {
		if e := t.launchAttrs((*acl.LaunchKernelCfg)(space.Pointer(p.Cfg))); e != 0 {
			return device.Task{}, e
		}
	}
	if e := t.fits(fn, p.ArgsSize); e != 0 {
		return device.Task{}, e
	}
	o := *kernel.OrderOf(old)
	sh := kernel.Line(p.NumBlocks)
	o.Func, o.Blocks, o.Grid = fn, p.NumBlocks, sh.Grid
	if p.Cfg != 0 {
		o.Attrs = launchAttrsOf((*acl.LaunchKernelCfg)(space.Pointer(p.Cfg)))
	}
	k := *old
	k.Name, k.Order = fn.Name, &o
	from := p.Args
	if p.IsHostArgs == 0 && (from != old.Args.Addr || !old.Own) {
		k.Args, k.Own = space.Span{Addr: from, Size: p.ArgsSize}, false
		return k, acl.ACL_SUCCESS
	}
	at, f := o.Stream.Args.Get(p.ArgsSize) // a new block, since the old one ends with the old task
	if f != nil {
		return device.Task{}, t.failWith(f)
	}
	copy(space.Bytes(at, p.ArgsSize), space.Bytes(from, p.ArgsSize))
	k.Args, k.Own = space.Span{Addr: at, Size: p.ArgsSize}, true
	return k, acl.ACL_SUCCESS
}

// MdlRIKernelTaskGetAttribute returns an attribute that a kernel was launched with; zero for one that it was launched without.
func (t *Thread) MdlRIKernelTaskGetAttribute(h acl.MdlRITask, attrId acl.LaunchKernelAttrId, attrValue *acl.LaunchKernelAttrValue) acl.Error {
	k, e := t.graphTask(h)
	if e != 0 {
		return e
	}
	if attrValue == nil {
		return t.null("attrValue")
	}
	k.Graph.Lock()
	defer k.Graph.Unlock()
	switch {
	case k.Kind != device.TaskKernel:
		return t.fail(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "the task is not a kernel")
	case attrId == acl.ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE || attrId == acl.ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET || attrId == acl.ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "launch attribute %d can't be queried", attrId)
	case attrId < acl.ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE || attrId > acl.ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "launch attribute %d is unknown", attrId)
	}
	*attrValue = acl.LaunchKernelAttrValue{}
	for _, a := range kernel.OrderOf(&k.Task).Attrs {
		if a.Id == attrId {
			*attrValue = a.Value
		}
	}
	return acl.ACL_SUCCESS
}

func launchAttrsOf(cfg *acl.LaunchKernelCfg) []acl.LaunchKernelAttr {
	if cfg == nil || cfg.NumAttrs == 0 {
		return nil
	}
	return slices.Clone(space.List((*acl.LaunchKernelAttr)(space.Pointer(cfg.Attrs)), cfg.NumAttrs))
}

// MdlRITaskDisable disables a task at the next aclmdlRIUpdate. Records and waits can't be disabled, since other tasks
// depend on them.
func (t *Thread) MdlRITaskDisable(h acl.MdlRITask) acl.Error {
	k, e := t.graphTask(h)
	if e != 0 {
		return e
	}
	k.Graph.Lock()
	defer k.Graph.Unlock()
	if k.Mark >= 0 {
		return t.fail(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "a task of type %d can't be disabled", k.Type())
	}
	if c := k.Change; c != nil && c.Task != nil {
		c.Task.End()
	}
	k.Change = &graph.Change{Disable: true}
	return acl.ACL_SUCCESS
}

// MdlRIUpdate applies pending changes to a model that is not running.
func (t *Thread) MdlRIUpdate(modelRI acl.MdlRI) acl.Error {
	g, e := t.runnable(modelRI)
	if e != 0 {
		return e
	}
	if g.Running.Load() > 0 {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", g.ID)
	}
	var old []device.Task
	g.Lock()
	for _, l := range g.Lanes {
		for _, k := range l.Tasks {
			switch c := k.Change; {
			case c == nil:
			case c.Disable:
				k.Disabled, k.Change = true, nil
			default:
				old = append(old, k.Task)
				k.Task, k.Disabled, k.Change = *c.Task, false, nil
			}
		}
	}
	g.Unlock()
	for i := range old {
		old[i].End()
	}
	return acl.ACL_SUCCESS
}

// traceTask is a task in the format of chrome://tracing.
type traceTask struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Begin int            `json:"ts"`
	Long  int            `json:"dur"`
	Model uint32         `json:"pid"`
	Lane  string         `json:"tid"`
	Args  map[string]any `json:"args"`
}

// traceName names a task. A record and the waits for it share a number, by which tools draw arrows.
func traceName(k *graph.GraphTask) string {
	switch {
	case k.Mark >= 0 && k.Kind == device.TaskRecord:
		return fmt.Sprintf("EVENT_RECORD_%d", k.Mark)
	case k.Mark >= 0 && k.Kind == device.TaskWait:
		return fmt.Sprintf("EVENT_WAIT_%d", k.Mark)
	}
	return cmp.Or(k.Name, string(k.Kind))
}

// MdlRIDebugJsonPrint writes a model's tasks to a file, as an array of events. Flag 1 adds kernel arguments.
func (t *Thread) MdlRIDebugJsonPrint(modelRI acl.MdlRI, path *byte, flags uint32) acl.Error {
	g, e := t.graph(modelRI)
	if e != 0 {
		return e
	}
	switch {
	case path == nil || space.GoString(path) == "":
		return t.null("path")
	case flags > 1:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flags %#x are unknown", flags)
	}
	all := []traceTask{}
	g.Lock()
	for _, l := range g.Lanes {
		for i, k := range l.Tasks {
			x := traceTask{traceName(k), "X", i, 1, g.ID, fmt.Sprintf("stream%d", l.Stream.ID), map[string]any{"model": g.ID, "stream": l.Stream.ID, "task": i, "type": string(k.Kind)}}
			if k.ExtendInfo != "" {
				x.Args["extend"] = json.RawMessage(k.ExtendInfo)
			}
			if flags == 1 && k.Order != nil {
				x.Args["blocks"], x.Args["args"] = kernel.OrderOf(&k.Task).Blocks, fmt.Sprintf("%#x", k.Args.Addr)
				if k.Own {
					x.Args["data"] = fmt.Sprintf("%x", space.Bytes(k.Args.Addr, k.Args.Size))
				}
			}
			all = append(all, x)
		}
	}
	g.Unlock()
	b, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(space.GoString(path), b, 0o600)
	}
	if err != nil {
		return t.fail(acl.ACL_ERROR_RT_FILE_WRITE, "%s: %v", space.GoString(path), err)
	}
	return acl.ACL_SUCCESS
}

const (
	maxOpInfo     = 64 << 10
	maxExtendInfo = 4 << 10
)

// lastGraphTask is the task that the thread put into a model last.
func (t *Thread) lastGraphTask() (*graph.GraphTask, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	if t.lastInModel == nil {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the last task of the thread is not in a model that is captured or built")
	}
	return t.lastInModel, acl.ACL_SUCCESS
}

// CacheLastTaskOpInfo stores operator info with the thread's last captured task.
func (t *Thread) CacheLastTaskOpInfo(infoPtr acl.Addr, infoSize uint64) acl.Error {
	k, e := t.lastGraphTask()
	if e != 0 {
		return e
	}
	switch {
	case infoPtr == 0:
		return t.null("infoPtr")
	case infoSize == 0:
		return t.invalid("size of the operator information is 0: want 1 byte or more")
	case infoSize > maxOpInfo:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the operator information is %d: want 1 to %d bytes", infoSize, maxOpInfo)
	}
	at := t.sim.text.Get(space.RoundUp(infoSize, 8))
	copy(space.Bytes(at, infoSize), space.Bytes(infoPtr, infoSize))
	k.OpInfo = space.Span{Addr: at, Size: infoSize}
	return acl.ACL_SUCCESS
}

// CacheLastTaskExtendInfo stores JSON text with the last task in a model, for aclmdlRIDebugJsonPrint. It is cut at 4
// KiB (documented); invalid JSON is stored as a string.
func (t *Thread) CacheLastTaskExtendInfo(extendInfoPtr *byte, infoSize uint64) acl.Error {
	k, e := t.lastGraphTask()
	if e != 0 {
		return e
	}
	if extendInfoPtr == nil || infoSize == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the task information is %d: too large", infoSize)
	}
	b := slices.Clone(space.List(extendInfoPtr, min(infoSize, maxExtendInfo)))
	if !json.Valid(b) {
		b, _ = json.Marshal(string(b))
	}
	k.ExtendInfo = string(b)
	return acl.ACL_SUCCESS
}

// MdlRICaptureTaskGrpBegin starts a group of captured tasks.
func (t *Thread) MdlRICaptureTaskGrpBegin(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	c := attached(s).Capture.Load()
	if c == nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.ID)
	}
	c.Lock()
	defer c.Unlock()
	if c.Groups[s] != nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is open on stream %d already", s.ID)
	}
	c.Groups[s] = &graph.TaskGroup{Graph: c.Graph}
	return acl.ACL_SUCCESS
}

// MdlRICaptureTaskGrpEnd ends a group and returns its handle.
func (t *Thread) MdlRICaptureTaskGrpEnd(on acl.Stream, handle *acl.TaskGrp) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	c := attached(s).Capture.Load()
	switch {
	case handle == nil:
		return t.null("handle")
	case c == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", s.ID)
	}
	c.Lock()
	defer c.Unlock()
	g := c.Groups[s]
	if g == nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "no task group is open on stream %d", s.ID)
	}
	delete(c.Groups, s)
	if g.Handle = t.sim.Groups.Add(g); g.Handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "create a task group: the limit is reached")
	}
	*handle = acl.TaskGrp(g.Handle)
	return acl.ACL_SUCCESS
}

// MdlRICaptureTaskUpdateBegin lets the next tasks on a stream replace those in a group.
func (t *Thread) MdlRICaptureTaskUpdateBegin(on acl.Stream, handle acl.TaskGrp) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	g := t.sim.Groups.Get(uint64(handle))
	switch {
	case g == nil || t.sim.Graphs.Get(g.Graph.Handle) != g.Graph:
		return t.badHandle(space.KindGroup, uint64(handle))
	case attached(s).Capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: it can't update a task group", s.ID)
	}
	g.Graph.Lock()
	defer g.Graph.Unlock()
	if g.Updating || !attached(s).Update.CompareAndSwap(nil, &graph.Update{Group: g}) {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the task group is being updated, or stream %d updates another one", s.ID)
	}
	g.Updating = true
	return acl.ACL_SUCCESS
}

// MdlRICaptureTaskUpdateEnd replaces the tasks in a group, in stream order.
func (t *Thread) MdlRICaptureTaskUpdateEnd(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	u := attached(s).Update.Swap(nil)
	if u == nil {
		return t.fail(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d is not updating a task group", s.ID)
	}
	g := u.Group
	g.Graph.Lock()
	g.Updating = false
	g.Graph.Unlock()
	if len(u.Tasks) != len(g.Tasks) {
		for _, k := range u.Tasks {
			k.End()
		}
		if mutant.Breaks("update_with_other_tasks") {
			return acl.ACL_SUCCESS
		}
		return t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "the update has %d tasks, but the task group has %d", len(u.Tasks), len(g.Tasks))
	}
	done := false
	return t.submit(s, device.Task{Kind: device.TaskGraph,
		Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			done = g.Replace(u.Tasks)
			return 0, nil
		},
		Release: func() {
			if !done {
				for _, k := range u.Tasks {
					k.End()
				}
			}
		}})
}
