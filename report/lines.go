package report

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/timeline"
)

// LineOptions choose calls. The zero value chooses all.
type LineOptions struct {
	JSON     bool
	Funcs    []string // names
	From, To int64    // nanoseconds since the beginning of the trace; To 0 means to the end
	TID      int      // 0: all threads
	Stream   int      // number of a stream object as shown (stream#N), 0: all
	Task     *TaskID  // only the calls that made this task
	Tail     int      // only so many of the last ones, 0: all
}

// A TaskID is how the runtime's logs and dumps name a task.
type TaskID = format.TaskID

// ParseTaskID reads STREAM:ID, or STREAM:FLIP:TASK as logs have it, where the id is FLIP<<16 | TASK.
func ParseTaskID(s string) (*TaskID, error) {
	parts := strings.Split(s, ":")
	bad := fmt.Errorf("task %q is neither STREAM:ID nor STREAM:FLIP:TASK", s)
	if len(parts) != 2 && len(parts) != 3 {
		return nil, bad
	}
	var v [3]uint64
	for i, p := range parts {
		bits := 32
		if len(parts) == 3 && i > 0 {
			bits = 16
		}
		n, err := strconv.ParseUint(strings.TrimSpace(p), 0, bits)
		if err != nil {
			return nil, bad
		}
		v[i] = n
	}
	if len(parts) == 3 {
		v[1] = v[1]<<16 | v[2]
	}
	return &TaskID{Stream: uint32(v[0]), Task: uint32(v[1])}, nil
}

// line is a call as `acltrace cat --json` prints it.
type line struct {
	I       uint64         `json:"i"`
	Func    string         `json:"func"`
	PID     int            `json:"pid"`
	TID     int            `json:"tid"`
	Time    int64          `json:"t_ns"`
	Dur     int64          `json:"dur_ns"`
	Ret     *int64         `json:"ret"` // null for a call that never returned and for a function that returns nothing
	Error   string         `json:"error,omitempty"`
	Args    map[string]any `json:"args"`
	Stack   []string       `json:"stack,omitempty"` // innermost first
	Out     map[string]any `json:"out,omitempty"`
	Kernel  string         `json:"kernel,omitempty"`
	Kinds   []string       `json:"kernel_arguments,omitempty"` // what they are, as the kernel's binary says
	Task    *lineTask      `json:"task,omitempty"`
	Objects map[string]any `json:"objects,omitempty"`
	Data    []lineData     `json:"data,omitempty"`
}

// lineTask has the runtime's numbers of a task; flip and task are the halves of its id.
type lineTask struct {
	Stream uint32 `json:"stream"`
	ID     uint32 `json:"id"`
	Flip   uint16 `json:"flip"`
	Task   uint16 `json:"task"`
}

type lineData struct {
	Param  string `json:"param"`
	Item   uint32 `json:"item"`
	Dir    string `json:"dir"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Len    uint64 `json:"len"`
	Blob   uint32 `json:"blob,omitempty"`
	// Text has the content of a string, Hex the first 64 bytes of anything else that lies among the calls.
	Text *string `json:"text,omitempty"`
	Hex  string  `json:"hex,omitempty"`
	// Source says where the content is from when no recorder has read it there: "shadow" for device memory whose content
	// follows from the copies before.
	Source string `json:"source,omitempty"`
}

// hexShown is how many bytes of a piece of data JSON shows.
const hexShown = 64

// Lines writes the calls of a trace in the order of their beginnings, one a line.
func Lines(w io.Writer, r *format.Reader, m *api.Model, o *LineOptions) error {
	if o == nil {
		o = &LineOptions{}
	}
	to := o.To
	if to == 0 {
		to = math.MaxInt64
	}
	funcs := map[uint16]bool{}
	for _, name := range o.Funcs {
		f := r.Schema().FuncByName(name)
		if f == nil {
			return fmt.Errorf("function %s is not in the trace's schema", name)
		}
		funcs[f.ID] = true
	}
	var out lineWriter = bufio.NewWriterSize(w, 1<<16)
	if o.Tail > 0 {
		out = &tail{w: w, lines: make([][]byte, 0, min(o.Tail, 1<<16)), max: o.Tail}
	}
	var b bytes.Buffer // a line of JSON
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	stacks := timeline.NewStacks(r)
	s := timeline.NewState(m).Read(r)
	if err := s.Follow(r); err != nil {
		return err
	}
	p := printer{r: r, m: m, s: s}
	var line []byte
	from := o.From
	if o.Tail > 0 && len(funcs) == 0 && o.TID == 0 && o.Stream == 0 && o.Task == nil && o.To == 0 {
		from = max(from, tailStart(r, uint64(o.Tail)))
	}
	threads, procs := r.Threads(), r.Processes()
	skip := s.Skipper(r)
	// What the index shows to have none of the calls that are wanted is read only where the names of objects depend on it.
	wanted := func(c *format.ChunkInfo) bool {
		if c.TMax < from || c.TMin > to || o.Task != nil && !c.Task(o.Task.Stream, o.Task.Task) {
			return false
		}
		if !c.Known {
			return true
		}
		return (len(funcs) == 0 || slices.ContainsFunc(c.Funcs, func(id uint32) bool { return funcs[uint16(id)] })) &&
			(o.TID == 0 || slices.ContainsFunc(c.Threads, func(t uint32) bool { return int(t) < len(threads) && threads[t].TID == o.TID }))
	}
	late := map[uint64][]format.Data{}
	if o.JSON {
		for d, err := range r.Data(lateOf(r, wanted)) {
			if err != nil {
				return err
			}
			k := *d
			k.Bytes = bytes.Clone(d.Bytes[:min(len(d.Bytes), hexShown)])
			late[d.Call] = append(late[d.Call], k)
		}
	}
	filter := &format.Filter{To: o.To, Chunk: func(c *format.ChunkInfo) bool {
		if !skip.Skip(c) {
			return true
		}
		if h, ok := skip.Handle(api.Stream, o.Stream); o.Stream != 0 && (!ok || !c.Handle(h)) {
			return false
		}
		return wanted(c)
	}}
	if o.To != 0 {
		filter.To++ // its own bound leaves out the moment itself
	}
	for c, err := range r.CallsByStart(filter) {
		if err != nil {
			return err
		}
		if c.Start > to {
			break
		}
		var th format.Thread
		if int(c.Thread) < len(threads) {
			th = threads[c.Thread]
		}
		e := s.Apply(th.Process, c)
		stack := stacks.Of(th.Process, c)
		if c.Start < from || len(funcs) > 0 && !funcs[c.Func] || o.TID != 0 && th.TID != o.TID ||
			o.Stream != 0 && (e.Stream == nil || e.Stream.ID != o.Stream) {
			continue
		}
		if o.Task != nil {
			if stream, task, ok := e.TaskID(); !ok || *o.Task != (TaskID{Stream: stream, Task: task}) {
				continue
			}
		}
		if o.JSON {
			b.Reset()
			var pid int
			if int(th.Process) < len(procs) {
				pid = procs[th.Process].PID
			}
			l := object(r, m, s, e, late[c.Index], pid, th.TID)
			for _, f := range stack {
				l.Stack = append(l.Stack, f.String())
			}
			if err := enc.Encode(l); err != nil {
				return err
			}
			line = append(line[:0], b.Bytes()...)
		} else {
			line = p.text(line[:0], e, th.TID)
			for _, f := range stack {
				line = fmt.Appendf(line, "%31sfrom %v\n", "", f)
			}
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// tailStart returns a time from which on at least n calls start, the latest that the index tells.
func tailStart(r *format.Reader, n uint64) int64 {
	chunks := slices.Collect(r.Chunks())
	start := int64(math.MaxInt64)
	for i := len(chunks) - 1; i >= 0; i-- {
		c := chunks[i]
		if c.Calls == 0 {
			continue
		}
		start = min(start, c.TMin)
		if n <= c.Calls {
			return start
		}
		n -= c.Calls
	}
	return 0
}

// lateOf selects the data that came late to calls in the chunks that are wanted.
func lateOf(r *format.Reader, wanted func(*format.ChunkInfo) bool) *format.DataFilter {
	f := &format.DataFilter{Late: true, From: math.MaxUint64, To: 1}
	for c := range r.Chunks() {
		switch {
		case !wanted(c):
		case !c.Known:
			return &format.DataFilter{Late: true}
		default:
			f.From, f.To = min(f.From, c.First), max(f.To, c.First+c.Calls)
		}
	}
	return f
}

type lineWriter interface {
	io.Writer
	Flush() error
}

// tail keeps the last lines until the end.
type tail struct {
	w     io.Writer
	lines [][]byte
	next  int // the oldest line, once there are max
	max   int
}

func (t *tail) Write(line []byte) (int, error) {
	if len(t.lines) < t.max {
		t.lines = append(t.lines, bytes.Clone(line))
	} else {
		t.lines[t.next] = append(t.lines[t.next][:0], line...)
		t.next = (t.next + 1) % t.max
	}
	return len(line), nil
}

func (t *tail) Flush() error {
	for i := range t.lines {
		if _, err := t.w.Write(t.lines[(t.next+i)%len(t.lines)]); err != nil {
			return err
		}
	}
	return nil
}

// devArgs returns the parameter with arguments in device memory, -1 where there is none.
func devArgs(e *timeline.Event) int {
	if e.Fn == nil {
		return -1
	}
	return slices.IndexFunc(e.Fn.Params, func(p api.Param) bool { return p.Role == api.DevArgs })
}

// A printer makes lines of text.
type printer struct {
	r    *format.Reader
	m    *api.Model
	s    *timeline.State
	args []timeline.Arg // memory
}

// pad moves what was appended from at on to the right end of a column of a width.
func pad(dst []byte, at, width int) []byte {
	missing := width - (len(dst) - at)
	for range missing {
		dst = append(dst, ' ')
	}
	if missing > 0 {
		copy(dst[at+missing:], dst[at:])
		copy(dst[at:at+missing], "             ")
	}
	return dst
}

// appendMillis appends nanoseconds as milliseconds, with all digits.
func appendMillis(dst []byte, ns int64) []byte {
	if ns < 0 {
		return appendMillis(append(dst, '-'), -ns)
	}
	dst = append(strconv.AppendInt(dst, ns/1e6, 10), '.')
	at := len(dst)
	dst = strconv.AppendInt(dst, ns%1e6+1e6, 10) // a digit in front keeps the zeros
	return append(dst[:at], dst[at+1:]...)
}

// text is a call as a line without the stack, in which it appends.
func (p *printer) text(dst []byte, e *timeline.Event, tid int) []byte {
	c := e.Call
	dst = append(pad(strconv.AppendUint(dst, c.Index, 10), len(dst), 6), ' ')
	at := len(dst)
	dst = append(pad(appendMillis(dst, c.Start), at, 13), " ms "...)
	at = len(dst)
	dst = append(pad(strconv.AppendInt(dst, int64(tid), 10), at, 6), "  "...)
	dst = append(append(dst, p.r.Schema().FuncName(c.Func)...), '(')
	p.args = e.Args(p.args[:0], p.m)
	shadow := devArgs(e)
	outs := len(p.args)
	for i := range p.args {
		a := &p.args[i]
		if a.Out {
			outs = i
			break
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = a.AppendText(append(append(dst, a.Name...), '='))
		if a.Param == shadow && e.Fn != nil {
			if data, known, why := p.s.DevArgs(e); known {
				dst = timeline.AppendWords(append(dst, ' '), data)
			} else {
				dst = append(append(append(dst, " {unknown: "...), why...), '}')
			}
		}
	}
	dst = append(dst, ')')
	at = len(dst)
	if dst = e.AppendResult(append(dst, " = "...), p.m); len(dst) == at+len(" = ") {
		dst = dst[:at]
	}
	for i := range p.args[outs:] {
		a := &p.args[outs+i]
		between := ", "
		if i == 0 {
			between = " {"
		}
		dst = a.AppendText(append(append(append(dst, between...), a.Name...), '='))
	}
	if outs < len(p.args) {
		dst = append(dst, '}')
	}
	if e.Kernel != "" {
		dst = append(append(append(dst, " ["...), e.Kernel...), ']')
		if as := p.s.Arguments(e); len(as) > 0 {
			dst = append(append(dst, " of "...), strings.Join(kinds(as), ", ")...)
		}
	}
	if stream, task, ok := e.TaskID(); ok {
		dst = strconv.AppendUint(append(dst, " task="...), uint64(stream), 10)
		dst = strconv.AppendUint(append(dst, ':'), uint64(task), 10)
	}
	if c.Flags&format.Unfinished == 0 {
		dst = appendDuration(append(dst, "  "...), c.End-c.Start)
	}
	return append(dst, '\n')
}

func object(r *format.Reader, m *api.Model, s *timeline.State, e *timeline.Event, late []format.Data, pid, tid int) *line {
	c := e.Call
	l := &line{I: c.Index, Func: r.Schema().FuncName(c.Func), PID: pid, TID: tid, Time: c.Start, Dur: c.End - c.Start, Kernel: e.Kernel, Args: map[string]any{}}
	if c.Flags&format.Unfinished == 0 && (e.Fn == nil || !e.Fn.RetVoid) {
		v := int64(c.Ret)
		if e.Fn != nil && e.Fn.RetError {
			v = int64(int32(c.Ret))
			if v != 0 {
				l.Error = m.ErrorName(v)
			}
		}
		l.Ret = &v
	}
	for _, a := range e.Args(nil, m) {
		if !a.Out {
			l.Args[a.Name] = a.Value()
			continue
		}
		if l.Out == nil {
			l.Out = map[string]any{}
		}
		l.Out[a.Name] = a.Value()
	}
	for _, u := range e.Uses {
		if l.Objects == nil {
			l.Objects = map[string]any{}
		}
		l.Objects[paramName(e.Fn, u.Param)] = map[string]any{"kind": u.Object.Kind, "id": u.Object.ID, "offset": u.Offset}
	}
	l.Kinds = kinds(s.Arguments(e))
	if stream, task, ok := e.TaskID(); ok {
		l.Task = &lineTask{stream, task, uint16(task >> 16), uint16(task)}
	}
	for _, data := range [][]format.Data{c.Data, late} {
		for i := range data {
			l.Data = append(l.Data, piece(e, &data[i]))
		}
	}
	if i := devArgs(e); i >= 0 {
		p := &e.Fn.Params[i]
		n, _ := p.Size.Bytes(e.Fn, c.Args)
		ld := lineData{Param: p.Name, Dir: format.DirIn.String(), Len: n, Source: "shadow"}
		if data, known, why := s.DevArgs(e); known {
			ld.Status, ld.Hex = format.Whole.String(), hex.EncodeToString(data[:min(len(data), hexShown)])
		} else {
			ld.Status, ld.Reason = "unknown", why
		}
		l.Data = append(l.Data, ld)
	}
	return l
}

// kinds says what the arguments of a kernel are.
func kinds(as []kernelbin.Arg) []string {
	var ks []string
	for _, a := range as {
		k := a.Kind.String()
		if a.Size != 0 {
			k += fmt.Sprintf("(%d)", a.Size)
		}
		ks = append(ks, k)
	}
	return ks
}

// piece is a piece of data as JSON has it.
func piece(e *timeline.Event, d *format.Data) lineData {
	ld := lineData{Param: paramName(e.Fn, int(d.Param)), Item: d.Item, Dir: d.Dir.String(), Status: d.Status.String(), Len: d.Len, Blob: uint32(d.Blob)}
	if d.Reason != format.NoReason {
		ld.Reason = d.Reason.String()
	}
	switch {
	case d.Status == format.Whole && d.Blob == 0:
		if isText(e.Fn, d) {
			s := string(d.Bytes)
			ld.Text = &s
		} else {
			ld.Hex = hex.EncodeToString(d.Bytes[:min(len(d.Bytes), hexShown)])
		}
	}
	return ld
}

// isText reports whether data is a string. The content of a file is not.
func isText(f *api.Func, d *format.Data) bool {
	if f == nil || d.Item != 0 {
		return false
	}
	if d.Param == timeline.RetParam {
		return f.Ret == api.Text
	}
	if int(d.Param) >= len(f.Params) {
		return false
	}
	switch f.Params[d.Param].Role {
	case api.String, api.File, api.Text:
		return true
	}
	return false
}

func paramName(f *api.Func, i int) string {
	if f != nil && i < len(f.Params) {
		return f.Params[i].Name
	}
	if i == timeline.RetParam {
		return "return"
	}
	return fmt.Sprintf("param%d", i)
}
