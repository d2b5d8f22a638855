package sim

// objects are the tables of live objects.
type objects struct {
	contexts   table[context]
	streams    table[stream]
	events     table[event]
	notifies   table[notify]
	counters   table[counter]
	images     table[image] // aclrtBinary
	binaries   table[kernelBinary]
	functions  table[function]
	argLists   table[argList]
	physicals  table[physical]
	pools      table[memPool]
	graphs     table[graph]
	groups     table[taskGroup]
	graphTasks table[graphTask]
	conditions table[condition]
	labels     table[label]
	labelLists table[labelList]
	allocators table[allocator]
	buffers    table[dataBuffer]
	datasets   table[dataset]
	raised     table[exception]
}

func (o *objects) init() {
	o.contexts.kind, o.streams.kind, o.events.kind = kindContext, kindStream, kindEvent
	o.images.kind, o.binaries.kind, o.functions.kind = kindImage, kindBinary, kindFunction
	o.notifies.kind, o.counters.kind, o.physicals.kind, o.pools.kind = kindNotify, kindCounter, kindPhysical, kindPool
	o.argLists.kind, o.graphs.kind, o.groups.kind = kindArgs, kindGraph, kindGroup
	o.allocators.kind, o.buffers.kind, o.datasets.kind, o.raised.kind = kindAllocator, kindBuffer, kindDataset, kindException
	o.labels.kind, o.labelLists.kind, o.graphTasks.kind, o.conditions.kind = kindLabel, kindLabelList, kindGraphTask, kindCondition
}

// live reports whether an object that can leak lives.
func (o *objects) live(h uint64) bool {
	switch kindOf(h) {
	case kindContext:
		return o.contexts.get(h) != nil
	case kindStream:
		return o.streams.get(h) != nil
	case kindEvent:
		return o.events.get(h) != nil
	case kindImage:
		return o.images.get(h) != nil
	case kindBinary:
		return o.binaries.get(h) != nil
	case kindGraph:
		return o.graphs.get(h) != nil
	case kindNotify:
		return o.notifies.get(h) != nil
	case kindCounter:
		return o.counters.get(h) != nil
	case kindPhysical:
		return o.physicals.get(h) != nil
	case kindPool:
		return o.pools.get(h) != nil
	}
	return false
}
