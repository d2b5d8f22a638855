package report

import (
	"bufio"
	"bytes"
	"cmp"
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
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// LineOptions select calls. The zero value selects all.
type LineOptions struct {
	timeline.Selection
	JSON     bool
	Tail     int                   // only the last ones, 0: all
	Progress func(done, total int) // called now and then with the calls read and the total
}

// A TaskID identifies a task as the runtime's logs do.
type TaskID = format.TaskID

// ParseTaskID reads STREAM:ID, or STREAM:FLIP:TASK as in logs. The id is FLIP<<16 | TASK.
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

// line is a call in `acltrace cat --json`.
type line struct {
	I      uint64         `json:"i"`                          // call number in the trace, from 0
	Func   string         `json:"func"`                       // function
	PID    int            `json:"pid"`                        // process id
	TID    int            `json:"tid"`                        // thread id
	Time   int64          `json:"t_ns"`                       // start of the call
	Gap    *int64         `json:"gap_ns,omitempty"`           // time since the thread's call before, if calls of a period are selected and it is known
	Dur    int64          `json:"dur_ns"`                     // duration; for a call that never returned, up to the last known time
	Ret    *int64         `json:"ret"`                        // returned value; nil for a call that never returned, or a function without a result
	NoEnd  bool           `json:"no_end,omitempty"`           // the end was not seen, so the call may be over
	Cut    bool           `json:"cut,omitempty"`              // the recording ended during the call
	Kept   bool           `json:"kept,omitempty"`             // the recorder answered the call, and the runtime did not get it
	Error  string         `json:"error,omitempty"`            // name of the returned error
	Args   map[string]any `json:"args"`                       // arguments by parameter; addresses and handles are hexadecimal strings
	Stack  []string       `json:"stack,omitempty"`            // call stack, innermost frame first
	Out    map[string]any `json:"out,omitempty"`              // outputs by parameter, as in args
	Kernel string         `json:"kernel,omitempty"`           // name of the launched kernel
	Kinds  []string       `json:"kernel_arguments,omitempty"` // kinds of the kernel's arguments, according to its binary
	Task   *lineTask      `json:"task,omitempty"`             // task that the call launched
	// Replaces is the captured call whose task in a graph the call replaced, as an update of a task group does.
	Replaces   *uint64    `json:"replaces,omitempty"`
	Updates    uint64     `json:"updates,omitempty"`     // with --graph: updates that replaced the captured task
	ReplacedBy *uint64    `json:"replaced_by,omitempty"` // with --graph: the latest of these updates
	Waits      []lineWait `json:"waits,omitempty"`       // tasks on other streams that the call, or its task, waits for by an event, a notify or a value
	// Objects are the objects of handles and addresses by parameter, each with kind, id, offset, ended if a call had ended it, and older if it is older
	// than the trace.
	Objects map[string]any `json:"objects,omitempty"`
	Data    []lineData     `json:"data,omitempty"` // payloads: memory that the call read or wrote
}

// lineWait is a wait for a task.
type lineWait struct {
	Why  string `json:"why"`  // event, notify, value, default stream or host wait for an event
	Call uint64 `json:"call"` // that made the task
}

// lineTask has the runtime's ids of a task.
type lineTask struct {
	Stream uint32 `json:"stream"` // stream id
	ID     uint32 `json:"id"`     // task id
	Flip   uint16 `json:"flip"`   // upper 16 bits of id
	Task   uint16 `json:"task"`   // lower 16 bits of id
}

type lineData struct {
	Param  string  `json:"param"`            // parameter, or return, or memory for host memory that no parameter names
	Item   uint32  `json:"item"`             // index in an array of buffers, else 0
	Dir    string  `json:"dir"`              // in if the call read it, out if it wrote it
	Status string  `json:"status"`           // whole, hash-only or missing; unknown if a shadow has no content
	Reason string  `json:"reason,omitempty"` // why it is missing or doubtful
	Len    uint64  `json:"len"`              // size in bytes
	Blob   uint32  `json:"blob,omitempty"`   // number of the blob in the trace, if the data is outside the calls
	Text   *string `json:"text,omitempty"`   // content, if it is a string
	Hex    string  `json:"hex,omitempty"`    // first 64 bytes of other content that is stored in the calls
	Source string  `json:"source,omitempty"` // "shadow" for device memory whose content follows from earlier copies, otherwise empty
}

// hexShown limits Hex, in bytes.
const hexShown = 64

// Lines writes the calls ordered by their start, one a line.
func Lines(w io.Writer, r *format.Reader, m *api.Model, o *LineOptions) error {
	l, err := newLister(r, m, o)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	from, before := int64(math.MinInt64), 0
	// Begin this many chunks before the end. Begin earlier while that yields too few calls.
	for back := l.atLeast(); l.o.Tail > 0; back *= 4 {
		if from = math.MinInt64; back < len(l.starts) {
			from = l.starts[back-1].at
		}
		n, err := l.list(nil, from, 0)
		if err != nil {
			return err
		}
		if before = max(n-l.o.Tail, 0); n >= l.o.Tail || from == math.MinInt64 {
			break
		}
	}
	l.flush = out.Flush
	_, err = l.list(out, from, before)
	return cmp.Or(err, out.Flush()) // lines before an error are shown
}

// A lister finds and writes the selected calls.
type lister struct {
	r       *format.Reader
	m       *api.Model
	o       LineOptions
	sel     *timeline.Selector
	threads []format.Thread
	starts  []chunkStart // for Tail: chunks that may have selected calls, last first
	total   uint64       // index after the last call that may be selected
	flush   func() error // writes the buffered lines; may be nil
}

type chunkStart struct {
	at    int64
	calls uint64
}

func newLister(r *format.Reader, m *api.Model, o *LineOptions) (*lister, error) {
	l := &lister{r: r, m: m, threads: r.Threads()}
	if o != nil {
		l.o = *o
	}
	var err error
	if l.sel, err = timeline.NewSelector(r, m, &l.o.Selection); err != nil {
		return nil, err
	}
	_, to := l.sel.Window()
	for c := range r.Chunks() {
		if c.TMin < to {
			l.total = max(l.total, c.First+c.Calls)
		}
		if l.o.Tail > 0 && c.Calls > 0 && l.sel.MayHold(c) {
			l.starts = append(l.starts, chunkStart{c.TMin, c.Calls})
		}
	}
	slices.SortStableFunc(l.starts, func(a, b chunkStart) int { return cmp.Compare(b.at, a.at) })
	return l, nil
}

// atLeast returns the least number of chunks that hold the last selected calls.
func (l *lister) atLeast() int {
	calls, n := uint64(0), 0
	for n < len(l.starts) && calls < uint64(l.o.Tail) {
		calls += l.starts[n].calls
		n++
	}
	return max(n, 1)
}

// mayHold reports whether a chunk may have selected calls that start at from or later, according to the index.
func (l *lister) mayHold(c *format.ChunkInfo, from int64) bool {
	return c.TMax >= from && l.sel.MayHold(c)
}

func (l *lister) thread(i uint32) format.Thread {
	if int(i) < len(l.threads) {
		return l.threads[i]
	}
	return format.Thread{}
}

// list writes the selected calls that start at from or later, except the first ones, and returns their number including
// these. Without out it only counts them.
func (l *lister) list(out io.Writer, from int64, first int) (n int, err error) {
	p := printer{lister: l, stacks: timeline.NewStacks(l.r), gaps: newLineGaps(&l.o)}
	if p.accesses, err = access.New(l.r, l.m, nil); err != nil {
		return 0, err
	}
	p.s = p.accesses.State
	p.waits = timeline.NewWaits(p.s)
	l.sel.Use(p.s)
	p.enc = json.NewEncoder(&p.json)
	p.enc.SetEscapeHTML(false)
	if l.o.JSON && out != nil {
		if err := p.readLate(from); err != nil {
			return 0, err
		}
	}
	// A chunk without selected calls is read only if object names depend on it. The same holds for calls.
	skip := p.s.Skipper(l.r)
	var quiet quietChunks
	var flushErr error
	filter := &format.Filter{Chunk: func(c *format.ChunkInfo) bool {
		if l.o.Progress != nil && c.Known {
			if l.flush != nil {
				flushErr = l.flush() // show the lines along with the progress
			}
			l.o.Progress(int(c.First), int(l.total))
		}
		if p.accesses.Follows() || !skip.Skip(c) {
			return true
		}
		h, ok := skip.Handle(api.Stream, l.o.Stream)
		if l.o.Stream != 0 && (!ok || !c.Handle(h)) || !l.mayHold(c, from) {
			p.waits = nil
			p.gaps.skip(c)
			return false
		}
		quiet.add(c)
		return true
	}}
	if _, to := l.sel.Window(); to != math.MaxInt64 {
		filter.To = to
	}
	var line []byte
	for c, err := range l.r.CallsByStart(filter) {
		if err != nil {
			return n, err
		}
		if _, to := l.sel.Window(); c.Start >= to {
			break
		}
		p.gaps.see(c)
		may := c.Start >= from && l.sel.MayBe(c)
		if !may && quiet.has(c) {
			p.waits = nil
			continue
		}
		th := l.thread(c.Thread)
		e := p.accesses.Apply(th.Process, c).Event
		if p.waitsFor = nil; p.waits != nil {
			p.waitsFor = p.waits.Of(e)
		}
		stack := p.stacks.Of(th.Process, c)
		if !may || !l.sel.Is(e) {
			continue
		}
		if n++; out == nil || n <= first {
			continue
		}
		if line, err = p.line(line[:0], e, th, stack); err != nil {
			return n, err
		}
		if _, err := out.Write(line); err != nil {
			return n, err
		}
	}
	if l.o.Progress != nil {
		l.o.Progress(int(l.total), int(l.total))
	}
	return n, flushErr
}

// quietChunks are chunks that are read only for selected calls. Their other calls may be skipped.
type quietChunks []*format.ChunkInfo

func (q *quietChunks) add(c *format.ChunkInfo) {
	if !c.Known {
		return
	}
	*q = append(slices.DeleteFunc(*q, func(old *format.ChunkInfo) bool { return old.TMax < c.TMin }), c)
}

func (q quietChunks) has(c *format.Call) bool {
	return slices.ContainsFunc(q, func(k *format.ChunkInfo) bool { return c.Index-k.First < k.Calls })
}

// lateOf selects data that was stored apart from its calls, for the wanted chunks.
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

// word returns the parameter with a word in device memory that a task waits for or writes, -1 for none.
func word(e *timeline.Event) int {
	if e.Fn == nil || e.Fn.Task != api.Wait && e.Fn.Task != api.Fill {
		return -1
	}
	return slices.IndexFunc(e.Fn.Params, func(p api.Param) bool {
		return p.Role == api.DevArgs || p.Role == api.Fills && p.Size.Unit == 8
	})
}

// devArgs returns the parameter with a kernel's arguments in device memory, -1 for none.
func devArgs(e *timeline.Event) int {
	if e.Fn == nil || e.Fn.Task != api.Kernel {
		return -1
	}
	return slices.IndexFunc(e.Fn.Params, func(p api.Param) bool { return p.Role == api.DevArgs })
}

// A printer formats calls.
type printer struct {
	*lister
	s        *timeline.State
	accesses *access.Calls
	stacks   *timeline.Stacks
	gaps     lineGaps
	waits    *timeline.Waits          // nil once calls were skipped
	waitsFor []timeline.Wait          // of the current call
	late     map[uint64][]format.Data // by call, for JSON
	args     []timeline.Arg           // reused
	json     bytes.Buffer
	enc      *json.Encoder
}

// readLate reads data that was stored apart from calls that may be selected.
func (p *printer) readLate(from int64) (err error) {
	p.late, err = p.r.DataByCall(lateOf(p.r, func(c *format.ChunkInfo) bool { return p.mayHold(c, from) }), func(d *format.Data) bool {
		d.Bytes = d.Bytes[:min(len(d.Bytes), hexShown)]
		return true
	})
	return err
}

func (p *printer) line(dst []byte, e *timeline.Event, th format.Thread, stack []timeline.Frame) ([]byte, error) {
	if !p.o.JSON {
		dst = endLine(p.text(dst, e, th.TID), len(dst))
		for _, f := range stack {
			at := len(dst)
			dst = endLine(fmt.Appendf(dst, "%31sfrom %v", "", f), at)
		}
		return dst, nil
	}
	var pid int
	if procs := p.r.Processes(); int(th.Process) < len(procs) {
		pid = procs[th.Process].PID
	}
	l := object(p.r, p.m, p.s, p.accesses, e, p.late[e.Call.Index], pid, th.TID)
	for _, f := range stack {
		l.Stack = append(l.Stack, f.String())
	}
	if u := p.sel.Updates(e.Call.Index); u.Count > 0 {
		l.Updates, l.ReplacedBy = u.Count, &u.Last
	}
	for i := range p.waitsFor {
		w := &p.waitsFor[i]
		l.Waits = append(l.Waits, lineWait{w.Why.String(), w.Call})
	}
	if p.gaps.gap >= 0 {
		l.Gap = &p.gaps.gap
	}
	p.json.Reset()
	err := p.enc.Encode(l)
	return append(dst, p.json.Bytes()...), err
}

// endLine ends the line that starts at index at, and escapes it.
func endLine(dst []byte, at int) []byte {
	if line := dst[at:]; !shown(line) {
		dst = append(dst[:at], Escape(string(line))...)
	}
	return append(dst, '\n')
}

// pad aligns the text from index at to the right in a column.
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

// text appends a call as a line, without its stack and newline.
func (p *printer) text(dst []byte, e *timeline.Event, tid int) []byte {
	c := e.Call
	dst = append(pad(strconv.AppendUint(dst, c.Index, 10), len(dst), 6), ' ')
	at := len(dst)
	dst = append(pad(human.AppendMoment(dst, c.Start), at, 13), ' ')
	at = len(dst)
	dst = p.gaps.appendText(append(pad(strconv.AppendInt(dst, int64(tid), 10), at, 6), "  "...))
	dst = append(append(dst, p.r.Schema().FuncName(c.Func)...), '(')
	p.args = e.Args(p.args[:0], p.m)
	shadow, word := devArgs(e), word(e)
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
		if a.Param == word && e.Fn != nil {
			dst = append(dst, " {word}"...)
		}
		if a.Param == shadow && e.Fn != nil {
			if data, known, why := p.accesses.DevArgs(); known {
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
		dst = append(p.s.AppendParams(append(append(dst, " ["...), human.Kernel(e.Kernel)...), e), ']')
		if as := p.s.Arguments(e); len(as) > 0 {
			dst = append(append(dst, " of "...), strings.Join(kinds(as), ", ")...)
		}
	}
	at = len(dst)
	if dst = p.s.AppendCopy(append(dst, " ["...), e); len(dst) == at+len(" [") {
		dst = dst[:at]
	} else {
		dst = append(dst, ']')
	}
	for i := range p.waitsFor {
		dst = append(append(dst, ' '), p.waitsFor[i].String()...)
	}
	if c.Flags&format.Kept != 0 {
		dst = append(dst, " kept by the recorder"...)
	}
	if e.Part.Replaces() {
		dst = strconv.AppendUint(append(dst, " replaces the task of call "...), e.Part.Of, 10)
	}
	if u := p.sel.Updates(c.Index); u.Count > 0 {
		dst = fmt.Appendf(dst, " replaced %s, last by call %d", human.Plural(u.Count, "time"), u.Last)
	}
	if stream, task, ok := e.TaskID(); ok {
		dst = strconv.AppendUint(append(dst, " task="...), uint64(stream), 10)
		dst = strconv.AppendUint(append(dst, ':'), uint64(task), 10)
	}
	if c.Flags&format.Unfinished == 0 || timeline.Hung(e.Fn, c.Flags) {
		dst = human.AppendDuration(append(dst, "  "...), c.End-c.Start)
	}
	return dst
}

func object(r *format.Reader, m *api.Model, s *timeline.State, accesses *access.Calls, e *timeline.Event, late []format.Data, pid, tid int) *line {
	c := e.Call
	l := &line{I: c.Index, Func: r.Schema().FuncName(c.Func), PID: pid, TID: tid, Time: c.Start, Dur: c.End - c.Start, NoEnd: c.Flags&format.NoEnd != 0, Cut: c.Flags&format.Cut != 0, Kept: c.Flags&format.Kept != 0, Kernel: e.Kernel, Args: map[string]any{}}
	if timeline.Hung(e.Fn, c.Flags) {
		l.Error = timeline.NeverReturned
	}
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
		o := map[string]any{"kind": u.Object.Kind, "id": u.Object.ID, "offset": u.Offset}
		switch former := u.Object.Former; {
		case former != nil:
			o["id"], o["ended"] = former.ID, true
		case u.Object.Created == timeline.NoCall && !u.Object.Constant:
			o["older"] = true // older than the trace
		}
		l.Objects[paramName(e.Fn, u.Param)] = o
	}
	if e.Part.Replaces() {
		of := e.Part.Of
		l.Replaces = &of
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
		if data, known, why := accesses.DevArgs(); known {
			ld.Status, ld.Hex = format.Whole.String(), hex.EncodeToString(data[:min(len(data), hexShown)])
		} else {
			ld.Status, ld.Reason = "unknown", why
		}
		l.Data = append(l.Data, ld)
	}
	return l
}

// kinds names the kinds of kernel arguments.
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

// piece converts data for JSON.
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

// isText reports whether data is a string. File content is not.
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
	case api.String, api.File, api.Target, api.Text:
		return true
	}
	return false
}

func paramName(f *api.Func, i int) string {
	if f != nil && i < len(f.Params) {
		return f.Params[i].Name
	}
	switch i {
	case timeline.RetParam:
		return "return"
	case api.MemoryParam:
		return "memory"
	}
	return fmt.Sprintf("param%d", i)
}
