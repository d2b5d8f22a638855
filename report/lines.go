package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// LineOptions choose calls. The zero value chooses all.
type LineOptions struct {
	JSON     bool
	Funcs    []string // names
	From, To int64    // nanoseconds since the beginning of the trace; To 0 means to the end
	TID      int      // 0: all threads
	Stream   int      // number of a stream object as shown (stream#N), 0: all
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
	Out     map[string]any `json:"out,omitempty"`
	Kernel  string         `json:"kernel,omitempty"`
	Objects map[string]any `json:"objects,omitempty"`
	Data    []lineData     `json:"data,omitempty"`
}

type lineData struct {
	Param  string `json:"param"`
	Item   uint32 `json:"item"`
	Dir    string `json:"dir"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Len    uint64 `json:"len"`
	Blob   uint32 `json:"blob,omitempty"`
}

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
	b := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(b)
	s := timeline.NewState(m)
	threads, procs := r.Threads(), r.Processes()
	// Handles get their names from the calls before the chosen ones, so every call goes through the state.
	for c, err := range r.CallsByStart(nil) {
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
		if c.Start < o.From || len(funcs) > 0 && !funcs[c.Func] || o.TID != 0 && th.TID != o.TID ||
			o.Stream != 0 && (e.Stream == nil || e.Stream.ID != o.Stream) {
			continue
		}
		if !o.JSON {
			text(b, r, m, e, th.TID)
			continue
		}
		var pid int
		if int(th.Process) < len(procs) {
			pid = procs[th.Process].PID
		}
		if err := enc.Encode(object(r, m, e, pid, th.TID)); err != nil {
			return err
		}
	}
	return b.Flush()
}

func text(b *bufio.Writer, r *format.Reader, m *api.Model, e *timeline.Event, tid int) {
	c := e.Call
	fmt.Fprintf(b, "%6d %13.6f ms %6d  %s(", c.Index, float64(c.Start)/1e6, tid, r.Schema().FuncName(c.Func))
	var outs []string
	first := true
	for _, a := range e.Args(m) {
		if a.Out {
			outs = append(outs, a.Name+"="+a.Text)
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		b.WriteString(a.Name + "=" + a.Text)
	}
	b.WriteString(")")
	if res := e.Result(m); res != "" {
		b.WriteString(" = " + res)
	}
	if len(outs) > 0 {
		b.WriteString(" {" + strings.Join(outs, ", ") + "}")
	}
	if e.Kernel != "" {
		b.WriteString(" [" + e.Kernel + "]")
	}
	if c.Flags&format.Unfinished == 0 {
		fmt.Fprintf(b, "  %s", Duration(c.End-c.Start))
	}
	b.WriteByte('\n')
}

func object(r *format.Reader, m *api.Model, e *timeline.Event, pid, tid int) *line {
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
	for _, a := range e.Args(m) {
		if !a.Out {
			l.Args[a.Name] = a.Value
			continue
		}
		if l.Out == nil {
			l.Out = map[string]any{}
		}
		l.Out[a.Name] = a.Value
	}
	for _, u := range e.Uses {
		if l.Objects == nil {
			l.Objects = map[string]any{}
		}
		l.Objects[paramName(e.Fn, u.Param)] = map[string]any{"kind": u.Object.Kind, "id": u.Object.ID, "offset": u.Offset}
	}
	for _, d := range c.Data {
		ld := lineData{Param: paramName(e.Fn, int(d.Param)), Item: d.Item, Dir: d.Dir.String(), Status: d.Status.String(), Len: d.Len, Blob: uint32(d.Blob)}
		if d.Status == format.Missing {
			ld.Reason = d.Reason.String()
		}
		l.Data = append(l.Data, ld)
	}
	return l
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
