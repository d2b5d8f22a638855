// Package chrome writes a trace in the JSON format for Chrome's about:tracing, in two variants. Command export chrome
// calls Write.
//
// The default variant is for the Perfetto UI, Speedscope and the Firefox Profiler. Times are microseconds since the
// recording began, with three decimals, so that readers keep nanoseconds in floating point. baseTimeNanoseconds is the
// wall-clock start. Slices on one row nest or do not overlap, since readers drop or misdraw others. Rows, names and
// arguments equal package perfetto's, see package scene. The format has no groups, so each device appears as a process
// named after the program.
//
// Options.MindStudio selects a trace_view.json like torch_npu's, for MindStudio Insight: an event list, absolute times as
// text, layers "CANN" and "Ascend Hardware" with msprof's process numbers, and arrows named HostToDevice. A process "Python"
// has ranges, lost calls and steps, which are named ProfilerStep#N. It has no counters or call arguments, because msprof has no
// place for them.
//
// The files are ten to twenty times as long as package perfetto's and load slower.
//
// Write only reads the trace and may run concurrently with separate readers. Its memory does not grow with the trace
// (see timeline.Walk).
package chrome

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
)

// Options configure Write; nil means the zero value.
type Options struct {
	Select     *timeline.Selection // as in package perfetto
	NoArgs     bool                // leave out call arguments and everything else that varies between calls, for Speedscope
	MindStudio bool                // as msprof's trace_view.json
	Progress   func(done, total int)
}

// Result counts the events written.
type Result struct {
	scene.Drawn
}

// Write writes a trace.
func Write(w io.Writer, r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	x := &writer{w: bufio.NewWriterSize(w, 256<<10)}
	if o != nil {
		x.o = *o
	}
	var err error
	if x.scene, err = scene.New(r, m, &scene.Options{Select: x.o.Select, NoArgs: x.o.NoArgs || x.o.MindStudio, Progress: x.o.Progress}); err != nil {
		return nil, err
	}
	var v scene.Viewer = x
	begin, end := x.head(r.Meta()), "\n]}\n"
	if x.o.MindStudio {
		v, begin, end = &studio{writer: x, start: r.Meta().StartWall}, "[", "\n]\n"
	}
	_, err = x.w.WriteString(begin)
	if err == nil {
		err = x.scene.Walk(v)
	}
	if err == nil {
		_, err = x.w.WriteString(end)
	}
	if err == nil {
		err = x.w.Flush()
	}
	if err != nil {
		err = fmt.Errorf("write Chrome trace: %w", err)
	}
	return &Result{x.scene.Drawn}, err
}

type writer struct {
	w     *bufio.Writer
	o     Options
	scene *scene.Scene
	b     []byte
	some  bool     // an event was written
	texts [][]byte // quoted, by scene.Sym
	rows  []bool   // described rows
	procs map[int]bool
}

func (x *writer) head(m *format.Meta) string {
	b := append([]byte(nil), `{"displayTimeUnit": "ns", "baseTimeNanoseconds": `...)
	b = strconv.AppendInt(b, m.StartWall, 10)
	b = append(b, `, "otherData": {"recording": `...)
	b = appendQuoted(b, m.UUID)
	b = append(b, `, "host": `...)
	b = appendQuoted(b, m.Host)
	b = append(b, `, "simulated": `...)
	b = strconv.AppendBool(b, m.Simulated)
	if s := x.scene.W.Selector().String(); s != "" {
		b = appendQuoted(append(b, `, "selection": `...), s)
	}
	return string(append(b, `}, "traceEvents": [`...))
}

// event begins an event, for put to write.
func (x *writer) event() []byte {
	b := x.b[:0]
	if x.some {
		b = append(b, ',')
	}
	x.some = true
	return append(b, "\n{"...)
}

func (x *writer) put(b []byte) error {
	x.b = append(b, '}')
	_, err := x.w.Write(x.b)
	return err
}

// text returns a scene text as JSON.
func (x *writer) text(y scene.Sym) []byte {
	text := grow.At(&x.texts, int(y))
	if *text == nil {
		*text = appendQuoted(nil, x.scene.Text(y))
	}
	return *text
}

const hex = "0123456789abcdef"

// appendQuoted appends valid UTF-8 as a JSON string.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// appendMicros appends nanoseconds as exact microseconds.
func appendMicros(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	f := ns % 1000
	return append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
}

// devicePID is the first process number for devices. It exceeds every Linux pid.
const devicePID = 1 << 23

func (x *writer) devicePID(process, device int) int {
	return devicePID + process<<8 + (device+1)&0xff
}

// place returns a row's process and thread.
func (x *writer) place(r *scene.Row) (pid, tid int) {
	switch {
	case r.Lane >= 0:
		return x.devicePID(r.Process, r.Device), r.ID + 1
	case r.Kind == scene.Host && r.N == 0 && x.scene.Threads[r.Thread].TID > 0:
		return x.scene.PID(r.Process), x.scene.Threads[r.Thread].TID
	}
	return x.scene.PID(r.Process), devicePID + r.ID // no thread's number
}

// first reports whether a row is used for the first time.
func (x *writer) first(r *scene.Row) bool {
	described := grow.At(&x.rows, r.ID)
	is := !*described
	*described = true
	return is
}

// name describes a row and its process before first use.
func (x *writer) name(r *scene.Row, pid, tid int) error {
	if !x.first(r) {
		return nil
	}
	if err := x.process(r.Process, pid, r.Lane >= 0, r.Device); err != nil {
		return err
	}
	if err := x.meta("thread_name", pid, tid, "name", r.Name); err != nil {
		return err
	}
	order := r.ID
	if r.Lane >= 0 {
		order = r.Lane<<8 + int(r.Kind)<<6 + r.N
		if r.Moments {
			order += scene.MaxRows
		}
	}
	return x.metaNumber("thread_sort_index", pid, tid, "sort_index", order)
}

func (x *writer) process(process, pid int, isDevice bool, device int) error {
	if x.procs[pid] {
		return nil
	}
	if x.procs == nil {
		x.procs = map[int]bool{}
	}
	x.procs[pid] = true
	name := x.scene.ProcessName(process)
	if isDevice {
		name = x.scene.DeviceName(device) + " of " + name
	}
	if err := x.meta("process_name", pid, 0, "name", name); err != nil {
		return err
	}
	order := process * 1000
	if isDevice {
		order += device + 2
	}
	return x.metaNumber("process_sort_index", pid, 0, "sort_index", order)
}

func (x *writer) meta(what string, pid, tid int, key, value string) error {
	return x.put(append(appendQuoted(x.metaHead(what, pid, tid, key), value), '}'))
}

func (x *writer) metaNumber(what string, pid, tid int, key string, value int) error {
	return x.put(append(strconv.AppendInt(x.metaHead(what, pid, tid, key), int64(value), 10), '}'))
}

func (x *writer) metaHead(what string, pid, tid int, key string) []byte {
	b := append(x.event(), `"ph":"M","name":"`...)
	b = append(b, what...)
	b = appendPlace(append(b, '"'), pid, tid)
	return append(append(append(b, `,"args":{"`...), key...), `":`...)
}

func appendPlace(b []byte, pid, tid int) []byte {
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(pid), 10)
	return strconv.AppendInt(append(b, `,"tid":`...), int64(tid), 10)
}

// Slice implements scene.Viewer.
func (x *writer) Slice(l *scene.Slice) error {
	pid, tid := x.place(l.Row)
	if err := x.name(l.Row, pid, tid); err != nil {
		return err
	}
	b := append(append(x.event(), `"ph":"X","name":`...), x.text(l.Name)...)
	if l.Numbered {
		b = append(strconv.AppendInt(append(b[:len(b)-1], ' '), int64(l.Number), 10), '"')
	}
	b = append(append(b, `,"cat":`...), x.text(l.Category)...)
	b = appendPlace(b, pid, tid)
	b = appendMicros(append(b, `,"ts":`...), l.From)
	b = appendMicros(append(b, `,"dur":`...), l.To-l.From)
	b = x.args(b, l.Args)
	if err := x.put(b); err != nil || l.Flow == 0 {
		return err
	}
	b = append(x.event(), `"ph":"s","name":"launch","cat":"launch","id":`...)
	if l.FlowEnd {
		b = append(x.event(), `"ph":"f","bp":"e","name":"launch","cat":"launch","id":`...)
	}
	b = strconv.AppendUint(b, l.Flow, 10)
	b = appendPlace(b, pid, tid)
	return x.put(appendMicros(append(b, `,"ts":`...), l.From))
}

// args appends a slice's arguments, if any. With NoArgs only flags remain: Speedscope treats slices that differ in
// arguments as different functions and would not add them up.
func (x *writer) args(b []byte, args []scene.Arg) []byte {
	between := `,"args":{`
	for i := range args {
		a := &args[i]
		if x.o.NoArgs && a.Kind != scene.True {
			continue
		}
		b = append(append(append(b, between...), x.text(a.Key)...), ':')
		b = x.value(b, a)
		between = ","
	}
	if between == "," {
		b = append(b, '}')
	}
	return b
}

// exact is the largest integer that every JSON reader keeps.
const exact = 1 << 53

func (x *writer) value(b []byte, a *scene.Arg) []byte {
	switch a.Kind {
	case scene.Text:
		return append(b, x.text(scene.Sym(a.Value))...)
	case scene.True:
		return append(b, "true"...)
	case scene.Handle:
		return append(x.scene.AppendHandle(append(b, '"'), a.Value), '"')
	case scene.Pointer:
		return append(strconv.AppendUint(append(b, `"0x`...), a.Value, 16), '"')
	case scene.Int:
		if v := int64(a.Value); v < exact && v > -exact {
			return strconv.AppendInt(b, v, 10)
		}
		return append(strconv.AppendInt(append(b, '"'), int64(a.Value), 10), '"')
	}
	if a.Value < exact {
		return strconv.AppendUint(b, a.Value, 10)
	}
	return append(strconv.AppendUint(append(b, '"'), a.Value, 10), '"')
}

// Point implements scene.Viewer.
func (x *writer) Point(c *scene.Counter, at int64, value float64) error {
	pid := x.devicePID(c.Process, c.Device)
	if err := x.process(c.Process, pid, true, c.Device); err != nil {
		return err
	}
	unit := [...]string{scene.Count: "count", scene.Bytes: "bytes", scene.BytesPerSecond: "B/s"}[c.Unit]
	b := appendQuoted(append(x.event(), `"ph":"C","name":`...), c.Name)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(pid), 10)
	b = appendMicros(append(b, `,"ts":`...), at)
	b = appendQuoted(append(b, `,"args":{`...), unit)
	b = append(b, ':')
	return x.put(append(appendValue(b, value), '}'))
}

// appendValue appends a counter's value: an integer if it is one.
func appendValue(b []byte, value float64) []byte {
	if value == math.Trunc(value) && math.Abs(value) < exact {
		return strconv.AppendInt(b, int64(value), 10)
	}
	return strconv.AppendFloat(b, value, 'g', -1, 64)
}
