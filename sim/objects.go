package sim

import "github.com/acltrace/acltrace/sim/device"

// objects are the tables of live objects.
type objects struct {
	contexts   device.Table[context]
	streams    device.Table[stream]
	events     device.Table[event]
	notifies   device.Table[notify]
	counters   device.Table[counter]
	images     device.Table[image] // aclrtBinary
	binaries   device.Table[kernelBinary]
	functions  device.Table[function]
	argLists   device.Table[argList]
	physicals  device.Table[physical]
	pools      device.Table[memPool]
	graphs     device.Table[graph]
	groups     device.Table[taskGroup]
	graphTasks device.Table[graphTask]
	conditions device.Table[condition]
	labels     device.Table[label]
	labelLists device.Table[labelList]
	allocators device.Table[allocator]
	buffers    device.Table[dataBuffer]
	datasets   device.Table[dataset]
	raised     device.Table[exception]
}

func (o *objects) init() {
	o.contexts.Kind, o.streams.Kind, o.events.Kind = device.KindContext, device.KindStream, device.KindEvent
	o.images.Kind, o.binaries.Kind, o.functions.Kind = device.KindImage, device.KindBinary, device.KindFunction
	o.notifies.Kind, o.counters.Kind, o.physicals.Kind, o.pools.Kind = device.KindNotify, device.KindCounter, device.KindPhysical, device.KindPool
	o.argLists.Kind, o.graphs.Kind, o.groups.Kind = device.KindArgs, device.KindGraph, device.KindGroup
	o.allocators.Kind, o.buffers.Kind, o.datasets.Kind, o.raised.Kind = device.KindAllocator, device.KindBuffer, device.KindDataset, device.KindException
	o.labels.Kind, o.labelLists.Kind, o.graphTasks.Kind, o.conditions.Kind = device.KindLabel, device.KindLabelList, device.KindGraphTask, device.KindCondition
}

// live reports whether an object that can leak lives.
func (o *objects) live(h uint64) bool {
	switch device.KindOf(h) {
	case device.KindContext:
		return o.contexts.Get(h) != nil
	case device.KindStream:
		return o.streams.Get(h) != nil
	case device.KindEvent:
		return o.events.Get(h) != nil
	case device.KindImage:
		return o.images.Get(h) != nil
	case device.KindBinary:
		return o.binaries.Get(h) != nil
	case device.KindGraph:
		return o.graphs.Get(h) != nil
	case device.KindNotify:
		return o.notifies.Get(h) != nil
	case device.KindCounter:
		return o.counters.Get(h) != nil
	case device.KindPhysical:
		return o.physicals.Get(h) != nil
	case device.KindPool:
		return o.pools.Get(h) != nil
	}
	return false
}
