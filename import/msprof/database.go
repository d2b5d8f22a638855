package msprof

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
)

// none marks a missing connection, task or context in a database.
const none = math.MaxUint32

// ENUM_API_TYPE values, with the call name prefixes that Chrome traces use for them.
var layers = map[int64]string{20000: "AscendCL@", 15000: "Model@", nodeLayer: "Node@", 5500: "Hccl@", 5000: "Runtime@"}

const nodeLayer = 10000

// ENUM_MEMCPY_OPERATION values.
var ways = []uint8{0: hostToHost, 1: hostToDevice, 2: deviceToHost, 3: deviceToDevice, 4: deviceToDevice, 5: deviceToDevice, 6: hostToDevice, 7: deviceToHost}

// Tables without a counterpart in a trace, with a name for their rows.
var leftTables = map[string]string{
	"NPU_MEM": "value of counters", "NPU_MODULE_MEM": "value of counters",
	"HBM": "value of counters", "DDR": "value of counters", "LLC": "value of counters", "TASK_PMU_INFO": "value of counters", "AICORE_FREQ": "value of counters",
	"ACC_PMU": "value of counters", "SOC_BANDWIDTH_LEVEL": "value of counters",
}

// taskInfo is task data from other tables.
type taskInfo struct {
	name   string
	shape  uint32
	blocks uint32
	bytes  uint64
	way    uint8
	copy   bool
}

// database reads the tables in a db export from msprof or torch_npu. Times are UTC nanoseconds.
func (im *importer) database(path string) error {
	db, err := openTables(path)
	if err != nil {
		return err
	}
	defer db.Close()
	if !db.has("STRING_IDS", "id", "value") || !db.has("TASK", "startNs", "endNs", "taskType") && !db.has("CANN_API", "startNs", "endNs", "name") {
		return fmt.Errorf("%s: a database, but none of a profile: it has no tables STRING_IDS and TASK or CANN_API", path)
	}
	d := &dbReader{importer: im, db: db, path: path, strings: map[int64]string{}, info: map[int64]*taskInfo{}}
	for _, read := range []func() error{d.texts, d.infos, d.calls, d.tasks, d.collectives, d.steps, d.framework, d.marks} {
		if err := read(); err != nil {
			return err
		}
	}
	for table, what := range leftTables {
		n, err := db.count(table)
		if err != nil {
			return err
		}
		if n > 0 {
			im.rep.Left[what] += n
		}
	}
	return nil
}

type dbReader struct {
	*importer
	db      *tables
	path    string
	strings map[int64]string // from STRING_IDS
	info    map[int64]*taskInfo
}

// each calls f with a table's rows. It adds the row number to errors.
func (d *dbReader) each(table string, f func(v []any) error, columns ...string) error {
	n := 0
	for v, err := range d.db.rows(table, columns...) {
		if err != nil {
			return err
		}
		n++
		if err := f(v); err != nil {
			return fmt.Errorf("%s: table %s, row %d: %w", d.path, table, n, err)
		}
	}
	return nil
}

// whole converts a value to an integer; some tables store integers as text.
func whole(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// times sets a row's start and end.
func (r *row) times(from, to any) error {
	start, ok := whole(from)
	end, ok2 := whole(to)
	if !ok || !ok2 || start < 0 || end < start || end > math.MaxInt64/2 {
		return fmt.Errorf("it is from %s to %s, which are no times", shown(from), shown(to))
	}
	r.start, r.dur = start, end-start
	return nil
}

func shown(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return strconv.Quote(v)
	}
	return "nothing"
}

// connect sets a row's connection.
func (r *row) connect(v any) {
	r.conn = -1
	if c, ok := whole(v); ok && c >= 0 && c < none {
		r.conn = c
	}
}

func (d *dbReader) texts() error {
	return d.each("STRING_IDS", func(v []any) error {
		id, ok := v[0].(int64)
		if text, is := v[1].(string); ok && is {
			d.strings[id] = text
		}
		return nil
	}, "id", "value")
}

// text returns the text for a string id.
func (d *dbReader) text(v any) string {
	id, ok := v.(int64)
	if !ok {
		return ""
	}
	return d.strings[id]
}

// about returns where to store further data about a task.
func (d *dbReader) about(v any) *taskInfo {
	id, ok := whole(v)
	if !ok {
		return &taskInfo{}
	}
	if d.info[id] == nil {
		d.info[id] = &taskInfo{}
	}
	return d.info[id]
}

func (d *dbReader) infos() error {
	// Older profilers call the block count a dim.
	blocks := "blockNum"
	if !d.db.has("COMPUTE_TASK_INFO", blocks) {
		blocks = "blockDim"
	}
	err := d.each("COMPUTE_TASK_INFO", func(v []any) error {
		t := d.about(v[0])
		t.name = d.text(v[1])
		if n, ok := whole(v[2]); ok && n > 0 && n < math.MaxUint32 {
			t.blocks = uint32(n)
		}
		t.shape = d.shape(t.name, d.text(v[3]), [3]string{d.text(v[4]), d.text(v[5]), d.text(v[6])}, [3]string{d.text(v[7]), d.text(v[8]), d.text(v[9])})
		return nil
	}, "globalTaskId", "name", blocks, "opType", "inputShapes", "inputDataTypes", "inputFormats", "outputShapes", "outputDataTypes", "outputFormats")
	if err != nil {
		return err
	}
	for _, table := range []string{"COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO"} {
		if err := d.each(table, func(v []any) error {
			t := d.about(v[0])
			t.name = d.text(v[1])
			if n, ok := whole(v[2]); ok && n > 0 {
				t.bytes = uint64(n)
			}
			return nil
		}, "globalTaskId", "name", "size"); err != nil {
			return err
		}
	}
	return d.each("MEMCPY_INFO", func(v []any) error {
		t := d.about(v[0])
		if n, ok := whole(v[1]); ok && n > 0 {
			t.bytes = uint64(n)
		}
		if n, ok := whole(v[2]); ok && n >= 0 && n < int64(len(ways)) {
			t.way, t.copy = ways[n], true
		}
		return nil
	}, "globalTaskId", "size", "memcpyOperation")
}

func (d *dbReader) calls() error {
	return d.each("CANN_API", func(v []any) error {
		layer, _ := whole(v[2])
		r := row{kind: hostCall, node: layer == nodeLayer, name: d.name(layers[layer] + d.text(v[5]))}
		if err := r.times(v[0], v[1]); err != nil {
			return err
		}
		r.connect(v[4])
		r.lane = d.thread(v[3])
		d.add(&r)
		return nil
	}, "startNs", "endNs", "type", "globalTid", "connectionId", "name")
}

// thread returns the lane of a thread, and learns the process.
func (d *dbReader) thread(v any) uint32 {
	thread, _ := whole(v)
	pid := int64(uint64(thread) >> 32)
	if d.pid == 0 {
		d.pid = int(pid)
	}
	return d.lane(lane{process: pid, id: thread & math.MaxUint32})
}

// framework adds the framework's operators and frames of Python.
func (d *dbReader) framework() error {
	return d.each("PYTORCH_API", func(v []any) error {
		r := row{kind: ranged, conn: -1, name: d.name(d.text(v[3])), lane: d.thread(v[2])}
		if err := r.times(v[0], v[1]); err != nil {
			return err
		}
		d.add(&r)
		return nil
	}, "startNs", "endNs", "globalTid", "name")
}

// marks adds the ranges of mstx, and its marks as ranges without a duration.
func (d *dbReader) marks() error {
	return d.each("MSTX_EVENTS", func(v []any) error {
		r := row{kind: marked, conn: -1, name: d.name(d.text(v[3])), lane: d.thread(v[2])}
		if err := r.times(v[0], v[1]); err != nil {
			return err
		}
		d.add(&r)
		return nil
	}, "startNs", "endNs", "globalTid", "message")
}

// lane.process values for streams and collectives. No host process has them.
const (
	deviceLanes     = 1 << 40
	collectiveLanes = 2 << 40
)

// tasks adds the device tasks. A task that the scheduler splits has one row per part, with a context, and one row
// around them that adds nothing.
func (d *dbReader) tasks() error {
	type number struct{ device, stream, task int64 }
	split := map[number]bool{}
	numbered := func(v []any) (n number, part bool) {
		n.device, _ = whole(v[0])
		n.stream, _ = whole(v[1])
		n.task, _ = whole(v[2])
		context, ok := whole(v[3])
		return n, ok && context != none
	}
	if err := d.each("TASK", func(v []any) error {
		if n, part := numbered(v); part {
			split[n] = true
		}
		return nil
	}, "deviceId", "streamId", "taskId", "contextId"); err != nil {
		return err
	}
	return d.each("TASK", func(v []any) error {
		n, part := numbered(v)
		typ := d.text(v[4])
		info := &taskInfo{}
		if id, ok := whole(v[5]); ok && d.info[id] != nil {
			info = d.info[id]
		}
		if info.name == "" && !part && split[n] {
			d.rep.Left["task counted by its parts"]++
			return nil
		}
		name := cmp.Or(info.name, typ)
		r := row{name: d.name(name), blocks: info.blocks, shape: info.shape, bytes: info.bytes, lane: d.lane(lane{process: deviceLanes + n.device, id: n.stream})}
		if !d.task(&r, name, typ, "") {
			return nil
		}
		if r.kind == copying && info.copy {
			r.direction = info.way
		}
		if n.task >= 0 && n.task < none {
			r.task, r.known = uint32(n.task), true
		}
		r.connect(v[6])
		if err := r.times(v[7], v[8]); err != nil {
			return err
		}
		d.add(&r)
		d.shaped(&r)
		return nil
	}, "deviceId", "streamId", "taskId", "contextId", "taskType", "globalTaskId", "connectionId", "startNs", "endNs")
}

func (d *dbReader) collectives() error {
	return d.each("COMMUNICATION_OP", func(v []any) error {
		r := row{kind: kernel, name: d.name(d.text(v[2]))}
		if err := r.times(v[0], v[1]); err != nil {
			return err
		}
		r.connect(v[3])
		device, _ := whole(v[5])
		group, _ := whole(v[4])
		r.lane = d.lane(lane{process: collectiveLanes + device, id: group, name: "Communication " + d.text(v[4])})
		d.rep.Collectives++
		d.add(&r)
		return nil
	}, "startNs", "endNs", "opName", "connectionId", "groupName", "deviceId")
}

func (d *dbReader) steps() error {
	return d.each("STEP_TIME", func(v []any) error {
		r := row{kind: step, conn: -1, name: d.name("ProfilerStep#" + shown(v[2]))}
		if err := r.times(v[0], v[1]); err != nil {
			return err
		}
		d.add(&r)
		return nil
	}, "startNs", "endNs", "id")
}
