package perfetto

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/timeline"
)

// Field tags from perfetto/protos/perfetto/trace/gpu and system_info, as in wire.go.
const (
	packetStage   = 53<<3 | lengthened
	packetGPUInfo = 128<<3 | lengthened

	infoGPUs = 1<<3 | lengthened
	gpuName  = 1<<3 | lengthened
	gpuModel = 3<<3 | lengthened

	internedContexts = 23<<3 | lengthened
	internedSpecs    = 24<<3 | lengthened
	contextPID       = 2<<3 | varint
	specName         = 2<<3 | lengthened
	specCategory     = 4<<3 | varint

	stageEvent    = 1<<3 | varint
	stageDuration = 2<<3 | varint
	stageContext  = 5<<3 | varint
	stageGPU      = 11<<3 | varint
	stageQueue    = 13<<3 | varint
	stageKind     = 14<<3 | varint
	stageName     = 20<<3 | varint
	stageLaunch   = 21<<3 | lengthened

	launchGrid = 1<<3 | lengthened
	launchArg  = 3<<3 | lengthened
	gridX      = 1<<3 | varint
	argString  = 2<<3 | lengthened // its name
	argInt     = 3<<3 | varint
	argUint    = 4<<3 | varint
	argValue   = 6<<3 | lengthened // a string

	eventCorrelation = 3000<<3 | lengthened
	correlationStage = 1<<3 | varint
)

// Enum values.
const (
	stageOther, stageCompute = 0, 2
)

// maxGPUs limits the described devices.
const maxGPUs = 64

// gpus describes the devices. Events refer to them by index.
func (w *writer) gpus() {
	b, packet := open(w.b, tracePacket)
	b, info := open(put(b, packetSequence, firstSequence), packetGPUInfo)
	devices := 1
	for i := range w.scene.Processes {
		for _, d := range w.scene.Processes[i].Devices {
			devices = max(devices, d.Number+1)
		}
	}
	for i := range min(devices, maxGPUs) {
		var gpu int
		b, gpu = open(b, infoGPUs)
		b = putText(b, gpuName, w.scene.DeviceName(i))
		if w.meta.Device.Name != "" {
			b = putText(b, gpuModel, valid(w.meta.Device.Name))
		}
		b = closed(b, gpu)
	}
	w.b = closed(closed(b, info), packet)
}

// stage writes a task as an event on a device queue. Each scene row is a queue.
func (w *writer) stage(s *sequence, l *scene.Slice) error {
	t := l.Task
	from, to := max(l.From, 0), max(l.To, 0)
	e := put(w.event[:0], stageEvent, t.Call+1)
	if to > from {
		e = put(e, stageDuration, uint64(to-from))
	}
	kind := firstStage + uint64(t.Kind)
	e = put(put(e, stageContext, uint64(l.Row.Process+1)), stageQueue, rowQueue)
	e = put(put(e, stageKind, kind), stageName, uint64(l.Name))
	if l.Row.Device != timeline.NoDevice {
		e = put(e, stageGPU, uint64(l.Row.Device))
	}
	e, launch := open(e, stageLaunch)
	if t.Kind == api.Kernel && t.Blocks > 0 {
		var grid int
		e, grid = open(e, launchGrid)
		e = closed(put(e, gridX, uint64(t.Blocks)), grid)
	}
	for i := range l.Args {
		a := &l.Args[i]
		var arg int
		e, arg = open(e, launchArg)
		e = putText(e, argString, w.scene.Text(a.Key))
		switch a.Kind {
		case scene.Text:
			e = putText(e, argValue, w.scene.Text(scene.Sym(a.Value)))
		case scene.Int:
			e = put(e, argInt, a.Value)
		case scene.True:
			e = put(e, argUint, 1)
		default:
			e = put(e, argUint, a.Value)
		}
		e = closed(e, arg)
	}
	e = closed(e, launch)
	w.event = e
	w.packet(s, packetStage, from, w.internStage(s, l, kind), e)
	return w.flush()
}

// Specification ids: the row's queue, and the task kinds.
const (
	rowQueue   = 1
	firstStage = 2
)

// internStage interns texts that a stage is first to use, and the sequence's queue and process.
func (w *writer) internStage(s *sequence, l *scene.Slice, kind uint64) []byte {
	if s.known[eventText].has(uint32(l.Name)) && s.known[specs].has(uint32(kind)) {
		return nil
	}
	b, data := open(nil, packetInterned)
	spec := func(id uint64, name string, category uint64) {
		if !s.known[specs].add(uint32(id)) {
			return
		}
		var entry int
		b, entry = open(b, internedSpecs)
		b = closed(put(putText(put(b, internedID, id), specName, name), specCategory, category), entry)
	}
	category := uint64(stageOther)
	if l.Task.Kind == api.Kernel || l.Task.Kind == api.GraphRun {
		category = stageCompute
	}
	if !s.known[specs].has(rowQueue) {
		var context int
		b, context = open(b, internedContexts)
		b = closed(put(put(b, internedID, uint64(l.Row.Process+1)), contextPID, uint64(w.scene.PID(l.Row.Process))), context)
	}
	spec(rowQueue, l.Row.Name, stageOther)
	spec(kind, l.Task.Kind.String(), category)
	if s.known[eventText].add(uint32(l.Name)) {
		b = w.internText(b, eventText, l.Name)
	}
	return closed(b, data)
}
