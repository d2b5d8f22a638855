package acl

import (
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// objects are the tables of live objects.
type objects struct {
	contexts   space.Table[device.Context]
	streams    space.Table[device.Stream]
	events     space.Table[event]
	notifies   space.Table[notify]
	counters   space.Table[counter]
	images     space.Table[image] // aclrtBinary
	binaries   space.Table[kernelBinary]
	functions  space.Table[function]
	argLists   space.Table[argList]
	physicals  space.Table[memory.Physical]
	pools      space.Table[memPool]
	graphs     space.Table[graph]
	groups     space.Table[taskGroup]
	graphTasks space.Table[graphTask]
	conditions space.Table[condition]
	labels     space.Table[label]
	labelLists space.Table[labelList]
	allocators space.Table[allocator]
	buffers    space.Table[dataBuffer]
	datasets   space.Table[dataset]
	raised     space.Table[exception]
}

func (o *objects) init() {
	o.contexts.Kind, o.streams.Kind, o.events.Kind = space.KindContext, space.KindStream, space.KindEvent
	o.images.Kind, o.binaries.Kind, o.functions.Kind = space.KindImage, space.KindBinary, space.KindFunction
	o.notifies.Kind, o.counters.Kind, o.physicals.Kind, o.pools.Kind = space.KindNotify, space.KindCounter, space.KindPhysical, space.KindPool
	o.argLists.Kind, o.graphs.Kind, o.groups.Kind = space.KindArgs, space.KindGraph, space.KindGroup
	o.allocators.Kind, o.buffers.Kind, o.datasets.Kind, o.raised.Kind = space.KindAllocator, space.KindBuffer, space.KindDataset, space.KindException
	o.labels.Kind, o.labelLists.Kind, o.graphTasks.Kind, o.conditions.Kind = space.KindLabel, space.KindLabelList, space.KindGraphTask, space.KindCondition
}

// live reports whether an object that can leak lives.
func (o *objects) live(h uint64) bool {
	switch space.KindOf(h) {
	case space.KindContext:
		return o.contexts.Get(h) != nil
	case space.KindStream:
		return o.streams.Get(h) != nil
	case space.KindEvent:
		return o.events.Get(h) != nil
	case space.KindImage:
		return o.images.Get(h) != nil
	case space.KindBinary:
		return o.binaries.Get(h) != nil
	case space.KindGraph:
		return o.graphs.Get(h) != nil
	case space.KindNotify:
		return o.notifies.Get(h) != nil
	case space.KindCounter:
		return o.counters.Get(h) != nil
	case space.KindPhysical:
		return o.physicals.Get(h) != nil
	case space.KindPool:
		return o.pools.Get(h) != nil
	}
	return false
}
