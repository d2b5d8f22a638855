package chrome

import (
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/internal/grow"
)

// studio writes events as in the trace_view.json of msprof and torch_npu.
type studio struct {
	*writer
	start     int64     // wall-clock start, nanoseconds since 1970
	streams   []int     // threads of device rows, by row
	described [2][]bool // by row: for the runtime and the device, and for the program
}

// msprof's process numbers combine process, layer (five bits) and device (five bits). Viewers sort by layer. The program itself,
// with its ranges and steps, has its own process number, as in torch_npu's files.
const (
	cannLayer     = 7
	hardwareLayer = 13
)

func layer(pid, layer, device int) int { return pid<<10 | layer<<5 | max(device, 0)&31 }

func (x *studio) Slice(l *scene.Slice) error {
	r := l.Row
	pid := x.scene.PID(r.Process)
	switch {
	case l.Call != nil:
		pid = layer(pid, cannLayer, 0)
		_, tid := x.place(r)
		if err := x.describe(r, pid, tid, "CANN", "CPU", cannLayer); err != nil {
			return err
		}
		return x.call(l, pid, tid)
	case l.Task != nil:
		pid, tid := layer(pid, hardwareLayer, r.Device), x.stream(r, l)
		if err := x.describe(r, pid, tid, "Ascend Hardware", "NPU", hardwareLayer); err != nil {
			return err
		}
		return x.task(l, pid, tid)
	}
	_, tid := x.place(r)
	if err := x.describe(r, pid, tid, "Python", "CPU", programLayer); err != nil {
		return err
	}
	return x.program(l, pid, tid)
}

// programLayer sorts the program above the runtime.
const programLayer = 0

// stream returns a device row's thread: the runtime's stream id if it is known for the row's first task, else a number that no stream has.
func (x *studio) stream(r *scene.Row, l *scene.Slice) int {
	tid := grow.At(&x.streams, r.ID)
	switch {
	case *tid != 0:
	case l.Task.HasID && r.N == 0 && r.Kind == scene.Measured:
		*tid = int(l.Task.StreamID)
	default:
		*tid = 1<<20 + r.ID
	}
	return *tid
}

// describe names a row and its process before first use.
func (x *studio) describe(r *scene.Row, pid, tid int, process, label string, order int) error {
	of := 0
	if order == programLayer {
		of = 1
	}
	described := grow.At(&x.described[of], r.ID)
	if *described {
		return nil
	}
	*described = true
	if !x.procs[pid] {
		if x.procs == nil {
			x.procs = map[int]bool{}
		}
		x.procs[pid] = true
		if err := x.meta("process_name", pid, 0, "name", process); err != nil {
			return err
		}
		if err := x.meta("process_labels", pid, 0, "labels", label); err != nil {
			return err
		}
		if err := x.metaNumber("process_sort_index", pid, 0, "sort_index", order); err != nil {
			return err
		}
	}
	name := strings.ToUpper(r.Name[:1]) + r.Name[1:]
	if r.Kind == scene.Host && r.N == 0 {
		name = "Thread " + strconv.Itoa(tid)
		if th := x.scene.Threads[r.Thread].Name; th != "" {
			name += " (" + strings.ToValidUTF8(th, "\uFFFD") + ")"
		}
	}
	if err := x.meta("thread_name", pid, tid, "name", name); err != nil {
		return err
	}
	return x.metaNumber("thread_sort_index", pid, tid, "sort_index", tid)
}

// program writes a step, a range, or lost calls. torch_npu's steps are named by number.
func (x *studio) program(l *scene.Slice, pid, tid int) error {
	b := append(x.event(), `"name":`...)
	if l.Row.Kind == scene.Steps {
		b = append(strconv.AppendInt(append(b, `"ProfilerStep#`...), int64(l.Number), 10), '"')
	} else {
		b = append(b, x.text(l.Name)...)
	}
	b = x.time(appendPlace(b, pid, tid), l.From)
	b = appendMicros(append(b, `,"dur":`...), l.To-l.From)
	b = append(append(b, `,"ph":"X","cat":"user_annotation","args":{"name":`...), x.text(l.Name)...)
	return x.put(append(b, '}'))
}

// time appends a slice's time fields, as text because the numbers are too large.
func (x *studio) time(b []byte, at int64) []byte {
	return append(appendMicros(append(b, `,"ts":"`...), x.start+at), '"')
}

func (x *studio) call(l *scene.Slice, pid, tid int) error {
	c := l.Call
	name := appendQuoted(nil, c.Name)
	b := append(x.event(), `"name":"`...)
	if !strings.Contains(c.Name, "@") { // profile calls have their own layer
		b = append(b, "AscendCL@"...)
	}
	b = append(b, name[1:]...)
	b = x.time(appendPlace(b, pid, tid), l.From)
	b = appendMicros(append(b, `,"dur":`...), l.To-l.From)
	b = strconv.AppendInt(append(b, `,"ph":"X","args":{"Thread Id":`...), int64(tid), 10)
	b = append(append(b, `,"Mode":"ACL_RTS","level":"acl","id":`...), name...)
	b = append(b, `,"item_id":"0","connection_id":`...)
	if err := x.put(append(strconv.AppendUint(b, c.Index+1, 10), '}')); err != nil || l.Flow == 0 {
		return err
	}
	return x.arrow(`"ph":"s"`, l, pid, tid)
}

func (x *studio) task(l *scene.Slice, pid, tid int) error {
	t := l.Task
	name, kind, direction := t.Name, "PLACE_HOLDER_SQE", ""
	switch t.Kind {
	case api.Kernel:
		kind = "AI_CORE"
	case api.Copy:
		name, kind = "MEMCPY_ASYNC", "PCIE_DMA_SQE"
		direction = t.Direction()
		if direction == "DtoD" {
			kind = "SDMA_SQE"
		}
		direction = strings.NewReplacer("Hto", "host to ", "Dto", "device to ").Replace(direction)
		direction = strings.NewReplacer(" H", " host", " D", " device").Replace(direction)
	case api.Record:
		name, kind = "EVENT_RECORD", "EVENT_RECORD_SQE"
	case api.Wait:
		name, kind = "EVENT_WAIT", "EVENT_WAIT_SQE"
	}
	b := appendQuoted(append(x.event(), `"name":`...), strings.ToValidUTF8(name, "\uFFFD"))
	b = x.time(appendPlace(b, pid, tid), l.From)
	b = appendMicros(append(b, `,"dur":`...), l.To-l.From)
	b = appendQuoted(append(b, `,"ph":"X","args":{"Model Id":4294967295,"Task Type":`...), kind)
	b = strconv.AppendUint(append(b, `,"Physic Stream Id":`...), uint64(t.StreamID), 10)
	b = strconv.AppendUint(append(b, `,"Task Id":`...), uint64(t.TaskID), 10)
	b = append(b, `,"Batch Id":0,"Subtask Id":4294967295,"connection_id":`...)
	b = strconv.AppendUint(b, l.Flow, 10)
	if direction != "" {
		b = strconv.AppendUint(append(b, `,"data size(Byte)":`...), t.Bytes, 10)
		b = appendQuoted(append(b, `,"memcpy direction":`...), direction)
	}
	if !t.Measured {
		b = append(b, `,"bracketed":true`...)
	}
	if err := x.put(append(b, '}')); err != nil {
		return err
	}
	return x.arrow(`"ph":"f","bp":"e"`, l, pid, tid)
}

func (x *studio) arrow(end string, l *scene.Slice, pid, tid int) error {
	b := append(append(x.event(), end...), `,"name":"HostToDevice`...)
	b = strconv.AppendUint(b, l.Flow, 10)
	b = strconv.AppendUint(append(b, `","cat":"HostToDevice","id":"`...), l.Flow, 10)
	b = appendPlace(append(b, '"'), pid, tid)
	return x.put(x.time(b, l.From))
}

// Point implements scene.Viewer.
func (x *studio) Point(*scene.Counter, int64, float64) error { return nil }
