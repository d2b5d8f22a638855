package acl

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// The tasks of a model can be looked at and changed. Changes are kept until aclmdlRIUpdate.

// valueTask is what a task that writes a word, or waits for one, tells about itself.
type valueTask struct {
	addr, value uint64
	flag        uint32
	waits       bool
}

// change is what aclmdlRIUpdate does to a task.
type change struct {
	disable bool
	task    *device.Task
}

// dropTask ends a task of a model, and its handle.
func (s *Sim) dropTask(k *graphTask) {
	if k.handle != 0 {
		s.graphTasks.Remove(k.handle)
	}
	if c := k.change; c != nil && c.task != nil {
		c.task.End()
	}
	if k.opInfo.Size > 0 {
		s.text.Put(k.opInfo.Addr, space.RoundUp(k.opInfo.Size, 8))
	}
	k.End()
}

// fillList answers a question for a list: its length, and its items where there is room for all of them.
func fillList[T any](t *Thread, items []T, to *T, n *uint32) acl.Error {
	if n == nil {
		return t.null("the number")
	}
	if to != nil {
		if int(*n) < len(items) {
			return t.fail(acl.ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, "there are %d items, and room for %d", len(items), *n)
		}
		copy(space.List(to, uint64(*n)), items)
	}
	*n = uint32(len(items))
	return acl.ACL_SUCCESS
}

// MdlRIGetStreams returns the streams of a model.
func (t *Thread) MdlRIGetStreams(modelRI acl.MdlRI, streams *acl.Stream, numStreams *uint32) acl.Error {
	g, e := t.whole(modelRI)
	if e != 0 {
		return e
	}
	g.mu.Lock()
	var all []acl.Stream
	for _, l := range g.lanes {
		all = append(all, acl.Stream(l.stream.Handle))
	}
	g.mu.Unlock()
	return fillList(t, all, streams, numStreams)
}

// MdlRIGetTasksByStream returns the tasks of a stream in the model that was captured from it, or built on it, last.
func (t *Thread) MdlRIGetTasksByStream(on acl.Stream, tasks *acl.MdlRITask, numTasks *uint32) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	l, g := t.sim.laneOf(s)
	if l == nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_MODEL, "stream %d belongs to no model", s.ID)
	}
	if g.part {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d belongs to model %d, which is part of another one", s.ID, g.id)
	}
	g.mu.Lock()
	var all []acl.MdlRITask
	for _, k := range l.tasks {
		if k.handle == 0 {
			k.graph = g
			k.handle = t.sim.graphTasks.Add(k)
		}
		all = append(all, acl.MdlRITask(k.handle))
	}
	g.mu.Unlock()
	return fillList(t, all, tasks, numTasks)
}

// laneOf finds the lane of a stream in the youngest model that has one.
func (s *Sim) laneOf(st *device.Stream) (found *lane, in *graph) {
	s.graphs.Each(func(g *graph) {
		if s.captures.into(g) {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, l := range g.lanes {
			if l.stream == st && (in == nil || g.serial > in.serial) {
				found, in = l, g
			}
		}
	})
	return found, in
}

func (t *Thread) graphTask(h acl.MdlRITask) (*graphTask, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	k := t.sim.graphTasks.Get(uint64(h))
	if k == nil {
		return nil, t.badHandle(space.KindGraphTask, uint64(h))
	}
	return k, acl.ACL_SUCCESS
}

// askedTask returns the task of a handle, with its graph locked, for a question whose answer needs a place.
func (t *Thread) askedTask(h acl.MdlRITask, noPlace bool, place string) (*graphTask, acl.Error) {
	k, e := t.graphTask(h)
	if e != 0 {
		return nil, e
	}
	if noPlace {
		return nil, t.absent(place)
	}
	k.graph.mu.Lock()
	return k, acl.ACL_SUCCESS
}

// typ is what kind of task it is. Those that have no name of their own are the default.
func (k *graphTask) typ() acl.MdlRITaskType {
	switch k.Kind {
	case device.TaskKernel:
		return acl.ACL_MODEL_RI_TASK_KERNEL
	case device.TaskRecord:
		return acl.ACL_MODEL_RI_TASK_EVENT_RECORD
	case device.TaskWait:
		return acl.ACL_MODEL_RI_TASK_EVENT_WAIT
	case device.TaskReset:
		return acl.ACL_MODEL_RI_TASK_EVENT_RESET
	}
	if v, ok := k.Detail.(*valueTask); ok {
		if v.waits {
			return acl.ACL_MODEL_RI_TASK_VALUE_WAIT
		}
		return acl.ACL_MODEL_RI_TASK_VALUE_WRITE
	}
	return acl.ACL_MODEL_RI_TASK_DEFAULT
}

// MdlRITaskGetType returns the type of a task.
func (t *Thread) MdlRITaskGetType(h acl.MdlRITask, type_ *acl.MdlRITaskType) acl.Error {
	k, e := t.askedTask(h, type_ == nil, "type")
	if e != 0 {
		return e
	}
	defer k.graph.mu.Unlock()
	*type_ = k.typ()
	return acl.ACL_SUCCESS
}

// MdlRITaskGetSeqId returns the number of a task in its model: by stream, and in the order of each.
func (t *Thread) MdlRITaskGetSeqId(h acl.MdlRITask, id *uint32) acl.Error {
	k, e := t.askedTask(h, id == nil, "id")
	if e != 0 {
		return e
	}
	defer k.graph.mu.Unlock()
	n := 0
	for _, l := range k.graph.lanes {
		if at := slices.Index(l.tasks, k); at >= 0 {
			*id = uint32(n + at)
			return acl.ACL_SUCCESS
		}
		n += len(l.tasks)
	}
	return t.badHandle(space.KindGraphTask, uint64(h))
}

// MdlRITaskGetParams returns the parameters of a task, as they are: changes that wait for an update don't count.
func (t *Thread) MdlRITaskGetParams(h acl.MdlRITask, params *acl.MdlRITaskParams) acl.Error {
	k, e := t.askedTask(h, params == nil, "params")
	if e != 0 {
		return e
	}
	defer k.graph.mu.Unlock()
	p := acl.MdlRITaskParams{Type: k.typ()}
	if k.group != nil {
		p.TaskGrp = acl.TaskGrp(k.group.handle)
	}
	if k.opInfo.Size > 0 {
		p.OpInfoPtr, p.OpInfoSize = k.opInfo.Addr, k.opInfo.Size
	}
	body := unsafe.Pointer(&p.Rsv2)
	switch k.typ() {
	case acl.ACL_MODEL_RI_TASK_KERNEL:
		*(*acl.MdlRIKernelTaskParams)(body) = acl.MdlRIKernelTaskParams{FuncHandle: acl.FuncHandle(orderOf(&k.Task).fn.handle), Args: k.Args.Addr, ArgsSize: k.Args.Size, NumBlocks: orderOf(&k.Task).blocks}
	case acl.ACL_MODEL_RI_TASK_EVENT_RECORD, acl.ACL_MODEL_RI_TASK_EVENT_WAIT, acl.ACL_MODEL_RI_TASK_EVENT_RESET:
		switch d := k.Detail.(type) {
		case *event:
			*(*acl.MdlRIEventRecordTaskParams)(body) = acl.MdlRIEventRecordTaskParams{Event: acl.Event(d.handle), EventFlag: d.flags, RecordFlag: acl.ACL_EVENT_RECORD_DEFAULT}
		case *outside:
			*(*acl.MdlRIEventRecordTaskParams)(body) = acl.MdlRIEventRecordTaskParams{Event: acl.Event(d.event.handle), EventFlag: d.event.flags, RecordFlag: acl.ACL_EVENT_RECORD_EXTERNAL}
		}
	case acl.ACL_MODEL_RI_TASK_VALUE_WRITE, acl.ACL_MODEL_RI_TASK_VALUE_WAIT:
		v := k.Detail.(*valueTask)
		*(*acl.MdlRIValueWaitTaskParams)(body) = acl.MdlRIValueWaitTaskParams{DevAddr: v.addr, Value: v.value, Flag: v.flag}
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
	k.graph.mu.Lock()
	typ, old := k.typ(), k.Task
	k.graph.mu.Unlock()
	if params.Type != typ {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the task is of type %d, the parameters are of %d", typ, params.Type)
	}
	body := unsafe.Pointer(&params.Rsv2)
	var fresh device.Task
	switch typ {
	case acl.ACL_MODEL_RI_TASK_KERNEL:
		fresh, e = t.changedKernel(&old, (*acl.MdlRIKernelTaskParams)(body))
	case acl.ACL_MODEL_RI_TASK_VALUE_WRITE, acl.ACL_MODEL_RI_TASK_VALUE_WAIT:
		v := *old.Detail.(*valueTask)
		p := (*acl.MdlRIValueWaitTaskParams)(body)
		v.addr, v.value = p.DevAddr, p.Value
		if v.waits {
			v.flag = p.Flag
		}
		fresh, e = t.valueTask(&v)
	default:
		return t.fail(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "the parameters of a task of type %d can't be changed", typ)
	}
	if e != 0 {
		return e
	}
	t.sim.spoil(k.graph.dev, &fresh)
	k.graph.mu.Lock()
	if c := k.change; c != nil && c.task != nil {
		c.task.End()
	}
	k.change = &change{task: &fresh}
	k.graph.mu.Unlock()
	return acl.ACL_SUCCESS
}

// changedKernel is a launch with other parameters. Arguments that lie where they lay are the same.
func (t *Thread) changedKernel(old *device.Task, p *acl.MdlRIKernelTaskParams) (device.Task, acl.Error) {
	fn := t.sim.functions.Get(uint64(p.FuncHandle))
	switch {
	case fn == nil:
		return device.Task{}, t.badHandle(space.KindFunction, uint64(p.FuncHandle))
	case p.NumBlocks == 0 || p.NumBlocks > maxBlocks:
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d blocks; 1 to %d can be launched", p.NumBlocks, maxBlocks)
	case p.ArgsSize > maxArgs || (p.Args == 0) != (p.ArgsSize == 0):
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of arguments at %#x", p.ArgsSize, p.Args)
	}
	if p.Cfg != 0 {
		if e := t.launchAttrs((*acl.LaunchKernelCfg)(space.Pointer(p.Cfg))); e != 0 {
			return device.Task{}, e
		}
	}
	if e := t.fits(fn, p.ArgsSize); e != 0 {
		return device.Task{}, e
	}
	o := *orderOf(old)
	sh := line(p.NumBlocks)
	o.fn, o.blocks, o.grid = fn, p.NumBlocks, sh.grid
	if p.Cfg != 0 {
		o.attrs = launchAttrsOf((*acl.LaunchKernelCfg)(space.Pointer(p.Cfg)))
	}
	k := *old
	k.Name, k.Order = fn.name, &o
	from := p.Args
	if p.IsHostArgs == 0 && (from != old.Args.Addr || !old.Own) {
		k.Args, k.Own = space.Span{Addr: from, Size: p.ArgsSize}, false
		return k, acl.ACL_SUCCESS
	}
	at, f := o.stream.Args.Get(p.ArgsSize) // a block of its own: the old one goes with the old task
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
	k.graph.mu.Lock()
	defer k.graph.mu.Unlock()
	switch {
	case k.Kind != device.TaskKernel:
		return t.fail(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "the task is no kernel")
	case attrId == acl.ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE || attrId == acl.ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET || attrId == acl.ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "attribute %d can't be asked for", attrId)
	case attrId < acl.ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE || attrId > acl.ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "launch attribute %d is unknown", attrId)
	}
	*attrValue = acl.LaunchKernelAttrValue{}
	for _, a := range orderOf(&k.Task).attrs {
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

// MdlRITaskDisable takes a task out of its model from the next aclmdlRIUpdate on. Records and waits stay: others depend on them.
func (t *Thread) MdlRITaskDisable(h acl.MdlRITask) acl.Error {
	k, e := t.graphTask(h)
	if e != 0 {
		return e
	}
	k.graph.mu.Lock()
	defer k.graph.mu.Unlock()
	if k.mark >= 0 {
		return t.fail(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "a task of type %d can't be disabled", k.typ())
	}
	if c := k.change; c != nil && c.task != nil {
		c.task.End()
	}
	k.change = &change{disable: true}
	return acl.ACL_SUCCESS
}

// MdlRIUpdate makes the changes to the tasks of a model that does not run.
func (t *Thread) MdlRIUpdate(modelRI acl.MdlRI) acl.Error {
	g, e := t.runnable(modelRI)
	if e != 0 {
		return e
	}
	if g.running.Load() > 0 {
		return t.fail(acl.ACL_ERROR_RT_MODEL_RUNNING, "model %d is running: wait for it first", g.id)
	}
	var old []device.Task
	g.mu.Lock()
	for _, l := range g.lanes {
		for _, k := range l.tasks {
			switch c := k.change; {
			case c == nil:
			case c.disable:
				k.disabled, k.change = true, nil
			default:
				old = append(old, k.Task)
				k.Task, k.disabled, k.change = *c.task, false, nil
			}
		}
	}
	g.mu.Unlock()
	for i := range old {
		old[i].End()
	}
	return acl.ACL_SUCCESS
}

// traceTask is a task of a model in the form that chrome://tracing shows.
type traceTask struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Begin int            `json:"ts"`
	Long  int            `json:"dur"`
	Model uint32         `json:"pid"`
	Lane  int32          `json:"tid"`
	Args  map[string]any `json:"args"`
}

// MdlRIDebugJsonPrint writes the tasks of a model to a file that exists or whose folder does; flag 1 has the arguments of kernels besides.
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
	g.mu.Lock()
	for _, l := range g.lanes {
		for i, k := range l.tasks {
			name := k.Name
			if name == "" {
				name = string(k.Kind)
			}
			x := traceTask{name, "X", i, 1, g.id, l.stream.ID, map[string]any{"model": g.id, "stream": l.stream.ID, "task": i, "type": string(k.Kind)}}
			if k.extendInfo != "" {
				x.Args["extend"] = json.RawMessage(k.extendInfo)
			}
			if flags == 1 && k.Order != nil {
				x.Args["blocks"], x.Args["args"] = orderOf(&k.Task).blocks, fmt.Sprintf("%#x", k.Args.Addr)
				if k.Own {
					x.Args["data"] = fmt.Sprintf("%x", space.Bytes(k.Args.Addr, k.Args.Size))
				}
			}
			all = append(all, x)
		}
	}
	g.mu.Unlock()
	b, err := json.Marshal(map[string]any{"traceEvents": all})
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
func (t *Thread) lastGraphTask() (*graphTask, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	if t.lastInModel == nil {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the thread's last task is in no model that is captured or built")
	}
	return t.lastInModel, acl.ACL_SUCCESS
}

// CacheLastTaskOpInfo keeps what the program says about the task that it captured last, where the stream was told to keep such.
func (t *Thread) CacheLastTaskOpInfo(infoPtr acl.Addr, infoSize uint64) acl.Error {
	k, e := t.lastGraphTask()
	if e != 0 {
		return e
	}
	switch {
	case infoPtr == 0:
		return t.null("infoPtr")
	case infoSize == 0:
		return t.invalid("0 bytes about an operator")
	case infoSize > maxOpInfo:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes about an operator: 1 to %d", infoSize, maxOpInfo)
	}
	at := t.sim.text.Get(space.RoundUp(infoSize, 8))
	copy(space.Bytes(at, infoSize), space.Bytes(infoPtr, infoSize))
	k.opInfo = space.Span{Addr: at, Size: infoSize}
	return acl.ACL_SUCCESS
}

// CacheLastTaskExtendInfo keeps a text in JSON for the task that the program put into a model last, for
// aclmdlRIDebugJsonPrint. More than 4 KiB are cut off (documented), and what is no JSON then is kept as a string.
func (t *Thread) CacheLastTaskExtendInfo(extendInfoPtr *byte, infoSize uint64) acl.Error {
	k, e := t.lastGraphTask()
	if e != 0 {
		return e
	}
	if extendInfoPtr == nil || infoSize == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes about a task", infoSize)
	}
	b := slices.Clone(space.List(extendInfoPtr, min(infoSize, maxExtendInfo)))
	if !json.Valid(b) {
		b, _ = json.Marshal(string(b))
	}
	k.extendInfo = string(b)
	return acl.ACL_SUCCESS
}
