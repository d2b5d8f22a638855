package msprof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/regular"
)

// event is a Chrome trace event, reduced to the fields used here.
type event struct {
	Phase string `json:"ph"`
	Name  text   `json:"name"`
	Cat   text   `json:"cat"`
	ID    number `json:"id"`
	PID   number `json:"pid"`
	TID   number `json:"tid"`
	TS    number `json:"ts"`
	Dur   number `json:"dur"`
	Args  args   `json:"args"`
}

type args struct {
	Name       text   `json:"name"`
	Level      text   `json:"level"`
	Connection number `json:"connection_id"`
	Type       text   `json:"Task Type"`
	Stream     number `json:"Physic Stream Id"`
	StreamID   number `json:"Stream Id"` // from newer profilers
	Task       number `json:"Task Id"`
	Bytes      number `json:"data size(Byte)"`
	Direction  text   `json:"memcpy direction"`
}

// UnmarshalJSON accepts arguments in any form and ignores all but objects.
func (a *args) UnmarshalJSON(b []byte) error {
	type plain args
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	return json.Unmarshal(b, (*plain)(a))
}

// text is a string; any other JSON value becomes "".
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if len(b) > 0 && b[0] == '"' && json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// number keeps the digits of a JSON number or string: a float would lose nanoseconds in a time of day.
type number string

func (n *number) UnmarshalJSON(b []byte) error {
	s := string(bytes.Trim(b, `"`))
	if s != "null" && s != "N/A" {
		*n = number(s)
	}
	return nil
}

func (n number) int() (int64, bool) {
	v, err := strconv.ParseInt(string(n), 10, 64)
	return v, err == nil
}

var errTime = errors.New("no time in microseconds")

// nanoseconds converts microseconds, exactly if they have three decimals, else rounded.
func (n number) nanoseconds() (int64, error) {
	whole, part, _ := strings.Cut(strings.TrimSpace(string(n)), ".")
	v, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || v < 0 || v > math.MaxInt64/2000 || strings.ContainsAny(part, "eE+-") {
		f, err := strconv.ParseFloat(strings.TrimSpace(string(n)), 64)
		if err != nil || !(f >= 0 && f < math.MaxInt64/2000) {
			return 0, errTime
		}
		return int64(math.Round(f * 1000)), nil
	}
	v *= 1000
	for i, unit := 0, int64(100); i < len(part); i, unit = i+1, unit/10 {
		d := int64(part[i] - '0')
		if d < 0 || d > 9 {
			return 0, errTime
		}
		if unit == 0 {
			if i == 3 && d >= 5 {
				v++
			}
			continue
		}
		v += d * unit
	}
	return v, nil
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
}

// trace reads a Chrome trace. path is used in errors.
func (im *importer) trace(path string, f io.Reader) error {
	dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	fail := func(at int64, err error) error {
		line, column := position(path, at)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends within the trace: it was cut off, export it again")
		}
		if strings.Contains(err.Error(), "exceeded max depth") {
			err = errors.New("values are nested more than 10,000 levels deep: this is not a Chrome trace as the profiler writes it")
		}
		return fmt.Errorf("%s:%d:%d: %w", path, line, column, err)
	}
	if err := enter(dec); err != nil {
		return fail(dec.InputOffset(), err)
	}
	var rows []raw
	processes := map[int64]string{}
	threads := map[[2]int64]string{}
	var arrows arrows
	for dec.More() {
		var e event
		at := dec.InputOffset()
		err := dec.Decode(&e)
		if err != nil {
			if s := (*json.SyntaxError)(nil); errors.As(err, &s) && s.Offset > 0 {
				at = s.Offset - 1
			}
			return fail(at, err)
		}
		pid, _ := e.PID.int()
		tid, _ := e.TID.int()
		switch {
		case e.Phase == "M" && e.Name == "process_name":
			processes[pid] = string(e.Args.Name)
		case e.Phase == "M" && e.Name == "thread_name":
			threads[[2]int64{pid, tid}] = string(e.Args.Name)
		case e.Phase == "X":
			r := raw{pid: pid, tid: tid, row: row{name: im.name(string(e.Name)), conn: -1, bytes: 0}}
			if r.start, err = e.TS.nanoseconds(); err != nil {
				return fail(at, fmt.Errorf("ts %q of %q is %w", e.TS, e.Name, err))
			}
			if r.dur, err = e.Dur.nanoseconds(); err != nil {
				return fail(at, fmt.Errorf("dur %q of %q is %w", e.Dur, e.Name, err))
			}
			if c, ok := e.Args.Connection.int(); ok {
				r.conn = c
			}
			if n, ok := e.Args.Bytes.int(); ok && n > 0 {
				r.bytes = uint64(n)
			}
			if n, ok := e.Args.Task.int(); ok && n >= 0 && n <= math.MaxUint32 {
				r.task, r.known = uint32(n), true
			}
			r.node = e.Args.Level == "node"
			r.typ, r.direction = im.name(string(e.Args.Type)), im.name(string(e.Args.Direction))
			rows = append(rows, r)
		case (e.Phase == "s" || e.Phase == "f") && (e.Cat == hostToDeviceArrow || strings.HasPrefix(string(e.Name), hostToDeviceArrow)):
			at, err := e.TS.nanoseconds()
			if err != nil {
				continue // it only ties a task to its call
			}
			arrows.add(e.Phase == "s", string(e.ID), end{pid, tid, at})
		case e.Phase == "C":
			im.rep.Left["values of counters"]++
		}
	}
	if _, err := dec.Token(); err != nil {
		return fail(dec.InputOffset(), err)
	}
	arrows.tie(rows, processes)
	for i := range rows {
		im.event(&rows[i], processes, threads)
	}
	return nil
}

// enter moves to the first event. The file is an event list or an object with one.
func enter(dec *json.Decoder) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t == json.Delim('{') {
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			if key == "traceEvents" {
				t, err = dec.Token()
				if err != nil {
					return err
				}
				break
			}
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return err
			}
		}
	}
	if t != json.Delim('[') {
		return errors.New("no list of events: this is not a Chrome trace as the profiler writes it")
	}
	return nil
}

// position returns the line and column at a byte offset.
func position(path string, at int64) (line, column int) {
	line, column = 1, 1
	f, err := regular.Open(path)
	if err != nil {
		return line, column
	}
	defer f.Close()
	r := bufio.NewReader(io.LimitReader(f, at))
	for {
		b, err := r.ReadByte()
		if err != nil {
			return line, column
		}
		column++
		if b == '\n' {
			line, column = line+1, 1
		}
	}
}

// event adds one event, depending on its process.
func (im *importer) event(r *raw, processes map[int64]string, threads map[[2]int64]string) {
	name, typ := im.names[r.name], im.names[r.typ]
	thread := threads[[2]int64{r.pid, r.tid}]
	switch processes[r.pid] {
	case cann:
		r.row.lane = im.lane(lane{process: r.pid, id: r.tid})
		r.kind, r.known = hostCall, false
	case hardware:
		r.row.lane = im.lane(lane{process: r.pid, id: r.tid})
		if !im.task(&r.row, name, typ, im.names[r.direction]) {
			return
		}
	case hccl, communication:
		if !strings.Contains(thread, "Communication") {
			im.rep.Left["parts of collectives, which the device's streams have as well"]++
			return
		}
		r.row.lane = im.lane(lane{process: r.pid, id: r.tid, name: thread})
		r.kind, r.known, r.node = kernel, false, false
		im.rep.Collectives++
	default:
		if !strings.HasPrefix(name, "ProfilerStep#") {
			im.rep.Left["rows of "+processes[r.pid]]++
			return
		}
		r.kind = step
		if im.pid == 0 {
			im.pid = int(r.pid)
		}
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
		im.rep.Left["tasks of the scheduler: "+typ]++
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
