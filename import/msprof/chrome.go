package msprof

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/import/internal/events"
)

// event is a Chrome trace event, reduced to the fields used here.
type event struct {
	events.Event
	ID   events.Number `json:"id"`
	Args args          `json:"args"`
}

type args struct {
	Name       events.Text   `json:"name"`
	Level      events.Text   `json:"level"`
	Connection events.Number `json:"connection_id"`
	Type       events.Text   `json:"Task Type"`
	Stream     events.Number `json:"Physic Stream Id"`
	StreamID   events.Number `json:"Stream Id"` // from newer profilers
	Task       events.Number `json:"Task Id"`
	Bytes      events.Number `json:"data size(Byte)"`
	Direction  events.Text   `json:"memcpy direction"`
}

// UnmarshalJSON accepts arguments in any form and ignores all but objects.
func (a *args) UnmarshalJSON(b []byte) error {
	type plain args
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	return json.Unmarshal(b, (*plain)(a))
}

// Contents that a Chrome trace process may have.
const (
	hardware      = "Ascend Hardware"
	cann          = "CANN"
	hccl          = "HCCL"
	communication = "Communication"
)

// raw is a row to complete once all process names are known, which may follow their rows.
type raw struct {
	row
	pid, tid  int64
	typ       uint32 // task type name
	direction uint32 // its name
	framework bool   // an operator of the framework, or a frame of Python
}

// frameworkEvents are the categories of a framework's events that become ranges.
var frameworkEvents = []string{"cpu_op", "python_function", "user_annotation", "enqueue", "dequeue"}

// hostLanes is the lane.process of host threads. A profile has a thread under several processes: those of the framework and of CANN.
const hostLanes = -1

// trace reads a Chrome trace. path is used in errors.
func (im *importer) trace(path string, f io.Reader) error {
	var rows []raw
	processes := map[int64]string{}
	threads := map[[2]int64]string{}
	var arrows arrows
	err := events.Read(path, f, nil, func(e *event) error {
		pid, _ := e.PID.Int()
		tid, _ := e.TID.Int()
		switch {
		case e.Phase == "M" && e.Name == "process_name":
			processes[pid] = string(e.Args.Name)
		case e.Phase == "M" && e.Name == "thread_name":
			threads[[2]int64{pid, tid}] = string(e.Args.Name)
		case e.Phase == "X":
			r := raw{pid: pid, tid: tid, row: row{name: im.name(string(e.Name)), conn: -1, bytes: 0}}
			var err error
			if r.start, r.dur, err = e.Times(string(e.Name)); err != nil {
				return err
			}
			if c, ok := e.Args.Connection.Int(); ok {
				r.conn = c
			}
			if n, ok := e.Args.Bytes.Int(); ok && n > 0 {
				r.bytes = uint64(n)
			}
			if n, ok := e.Args.Task.Int(); ok && n >= 0 && n <= math.MaxUint32 {
				r.task, r.known = uint32(n), true
			}
			r.node = e.Args.Level == "node"
			r.framework = slices.Contains(frameworkEvents, string(e.Cat))
			r.typ, r.direction = im.name(string(e.Args.Type)), im.name(string(e.Args.Direction))
			rows = append(rows, r)
		case (e.Phase == "s" || e.Phase == "f") && (e.Cat == hostToDeviceArrow || strings.HasPrefix(string(e.Name), hostToDeviceArrow)):
			at, err := e.TS.Nanoseconds()
			if err != nil {
				return nil // it only ties a task to its call
			}
			arrows.add(e.Phase == "s", string(e.ID), end{pid, tid, at})
		case e.Phase == "C":
			im.rep.Left["value of counters"]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	arrows.tie(rows, processes)
	for i := range rows {
		im.event(&rows[i], processes, threads)
	}
	return nil
}

// event adds one event, depending on its process.
func (im *importer) event(r *raw, processes map[int64]string, threads map[[2]int64]string) {
	name, typ := im.names[r.name], im.names[r.typ]
	thread := threads[[2]int64{r.pid, r.tid}]
	switch processes[r.pid] {
	case cann:
		r.row.lane = im.lane(lane{process: hostLanes, id: r.tid})
		r.kind, r.known = hostCall, false
	case hardware:
		r.row.lane = im.lane(lane{process: r.pid, id: r.tid})
		if !im.task(&r.row, name, typ, im.names[r.direction]) {
			return
		}
	case hccl, communication:
		if !strings.Contains(thread, "Communication") {
			im.rep.Left["part of collectives, which the device's streams have as well"]++
			return
		}
		r.row.lane = im.lane(lane{process: r.pid, id: r.tid, name: thread})
		r.kind, r.known, r.node = kernel, false, false
		im.rep.Collectives++
	default:
		if im.pid == 0 && (r.framework || strings.HasPrefix(name, "ProfilerStep#")) {
			im.pid = int(r.pid)
		}
		if !strings.HasPrefix(name, "ProfilerStep#") {
			if r.framework {
				r.kind, r.conn, r.known, r.row.lane = ranged, -1, false, im.lane(lane{process: hostLanes, id: r.tid})
				im.add(&r.row)
				return
			}
			im.rep.Left["row of "+cmp.Or(processes[r.pid], "a process without a name")]++
			return
		}
		r.kind = step
	}
	im.add(&r.row)
}

// control are the types of tasks by which the runtime controls the device. They run no code of a program.
var control = []string{"PLACE_HOLDER", "Write Value", "WRITE_VALUE", "PROFILING_", "PROFILER_", "TASK_TIMEOUT_SET", "OVERFLOW_SWITCH_SET", "MAINTENANCE", "MAINTAINCE", "MODEL_MAINTAINCE",
	"CREATE_STREAM", "CREATE_L2_ADDR", "STREAM_ACTIVE", "STREAM_SWITCH", "LABEL_SET", "DEBUG_REGISTER", "DEBUG_UNREGISTER", "DATADUMP_LOADINFO", "AICPU_INFO_LOAD", "NOP", "END_GRAPH", "MODEL_END_GRAPH",
	"TASK_SQE_UPDATE", "FLIP", "UPDATE_ADDRESS", "GET_DEVICE_MSG", "SET_STREAM"}

// task completes a device task row. It reports false for task types that a trace cannot hold.
func (im *importer) task(r *row, name, typ, direction string) bool {
	r.node = false
	switch {
	case strings.HasPrefix(typ, "EVENT_RECORD") || name == "EVENT_RECORD":
		r.kind = recording
	case strings.HasPrefix(typ, "EVENT_WAIT") || strings.HasPrefix(typ, "Notify Wait") || strings.HasPrefix(typ, "NOTIFY_WAIT"):
		r.kind = waiting
	case name == "MEMCPY_ASYNC" || strings.HasPrefix(typ, "SDMA") || strings.HasPrefix(typ, "PCIE_DMA"):
		r.kind, r.direction = copying, im.way(direction)
	case slices.ContainsFunc(control, func(prefix string) bool { return strings.HasPrefix(typ, prefix) }):
		im.rep.Left["task of the scheduler: "+typ]++
		return false
	default:
		r.kind = kernel
	}
	return true
}

// way returns a copy direction as an aclrtMemcpyKind.
func (im *importer) way(s string) uint8 {
	switch {
	case strings.HasPrefix(s, "host to device"):
		return hostToDevice
	case strings.HasPrefix(s, "device to host"):
		return deviceToHost
	case strings.HasPrefix(s, "host to host"):
		return hostToHost
	}
	return deviceToDevice
}
