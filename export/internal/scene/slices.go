package scene

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
	"github.com/acltrace/acltrace/timeline/step"
)

// function caches properties that all calls to one function share.
type function struct {
	name   Sym
	params []param
	drawn  []int // index into params, by parameter of the function, -1 if it is not drawn
}

type param struct {
	key  Sym
	word int
	kind ArgKind
	size uint8 // integer size in bytes
	enum string
}

func (s *Scene) begin(row *Row, name, category Sym, from, to int64) *Slice {
	l := &s.slice
	*l = Slice{Row: row, Name: name, Category: category, From: from, To: to, Args: l.Args[:0]}
	return l
}

func (l *Slice) num(key Sym, v uint64) { l.Args = append(l.Args, Arg{Key: key, Value: v, Kind: Uint}) }
func (l *Slice) int(key Sym, v int64) {
	l.Args = append(l.Args, Arg{Key: key, Value: uint64(v), Kind: Int})
}
func (l *Slice) text(key Sym, text Sym) {
	l.Args = append(l.Args, Arg{Key: key, Value: uint64(text), Kind: Text})
}
func (l *Slice) yes(key Sym) { l.Args = append(l.Args, Arg{Key: key, Kind: True}) }

// operator draws a part of an operator around its calls, instead of the marks that begin and end it.
func (s *Scene) operator(p *operator.Part) error {
	if err := s.until(p.From); err != nil {
		return err
	}
	l := s.begin(s.hostRow(s.thread(p.Thread), p.From, p.To), s.Sym(p.String()), catOperator, p.From, p.To)
	l.num(keyCall, p.Call)
	l.text(keyPhase, s.Sym(p.Phase.String()))
	if p.Open {
		l.yes(keyOpen)
	}
	s.Drawn.Operators++
	return s.v.Slice(l)
}

func (s *Scene) call(c *timeline.HostCall, t *timeline.Task) error {
	if err := s.until(c.Start); err != nil {
		return err
	}
	if t != nil {
		s.copies(c, t)
	}
	end := s.W.CallEnd(c)
	f := s.function(c)
	l := s.begin(s.hostRow(s.thread(c.Thread), c.Start, end), f.name, catCall, c.Start, end)
	l.Call = c
	l.num(keyCall, c.Index)
	if c.Kernel != "" {
		l.text(keyKernel, s.Sym(c.Kernel))
	}
	if t != nil {
		if t.Fn.Stream >= 0 {
			l.text(keyStream, s.lane(t.Lane).name)
		}
		l.Flow, l.FlowEnd = c.Index+1, early(t)
	}
	switch {
	case c.Flags&format.Unfinished != 0:
		l.yes(keyUnfinished)
		if c.Hung() {
			l.text(keyError, s.Sym(timeline.NeverReturned))
		}
	case c.Fn == nil || !c.Fn.RetError && !c.Fn.RetVoid:
		l.num(keyRet, c.Ret)
	case c.Fn.RetError && uint32(c.Ret) != 0:
		l.int(keyRet, int64(int32(c.Ret)))
		l.text(keyError, s.Sym(s.W.Model.ErrorName(int64(int32(c.Ret)))))
	}
	if c.Retries != timeline.NoCall {
		l.num(keyRetries, c.Retries)
	}
	if c.Flags&format.Truncated != 0 {
		l.yes(keyTruncated)
	}
	if !s.o.NoArgs {
		s.arguments(l, f, c.Raw)
		s.objects(l, f)
	}
	s.Drawn.Calls++
	return s.v.Slice(l)
}

func (s *Scene) function(c *timeline.HostCall) *function {
	if f := s.funcs[c.Fn]; f != nil && c.Fn != nil {
		return f
	}
	f := &function{name: s.Sym(c.Name)}
	if c.Fn == nil {
		return f // unknown functions differ in name
	}
	for i := range c.Fn.Params {
		p := &c.Fn.Params[i]
		if p.Words != 1 {
			f.drawn = append(f.drawn, -1)
			continue
		}
		f.drawn = append(f.drawn, len(f.params))
		q := param{key: s.Sym("arg." + p.Name), word: int(p.Word), kind: Pointer, size: 8}
		if p.Role == api.Value && !strings.HasSuffix(p.Type, "*") {
			q.kind = Uint
			switch p.Type {
			case "int32_t", "int":
				q.kind, q.size = Int, 4
			case "uint32_t", "unsigned int":
				q.size = 4
			case "int64_t", "long", "long long":
				q.kind = Int
			}
			for e := range s.W.Model.Enums {
				if s.W.Model.Enums[e].Type == p.Type {
					q.kind, q.size, q.enum = Int, 4, p.Type
				}
			}
		}
		f.params = append(f.params, q)
	}
	s.funcs[c.Fn] = f
	return f
}

func (s *Scene) arguments(l *Slice, f *function, c *format.Call) {
	for i := range f.params {
		p := &f.params[i]
		if p.word >= len(c.Args) {
			return
		}
		a := Arg{Key: p.key, Value: c.Args[p.word], Kind: p.kind}
		if p.size == 4 {
			if a.Value = uint64(uint32(a.Value)); p.kind == Int {
				a.Value = uint64(int64(int32(a.Value)))
			}
		}
		if p.enum != "" {
			if name := s.W.Model.EnumName(p.enum, int64(a.Value)); name != "" {
				a.Kind, a.Value = Text, uint64(s.Sym(name))
			}
		}
		l.Args = append(l.Args, a)
	}
}

// objects replaces the handles among a call's arguments by their objects: the number of a handle may be used again.
func (s *Scene) objects(l *Slice, f *function) {
	first := len(l.Args) - len(f.params)
	for _, u := range s.W.Uses() {
		if u.Param >= len(f.drawn) || f.drawn[u.Param] < 0 || u.Object.Kind.Memory() || u.Field != 0 || u.Offset != 0 {
			continue
		}
		if at := first + f.drawn[u.Param]; at >= 0 && at < len(l.Args) {
			l.Args[at].Kind, l.Args[at].Value = s.handle(u.Object)
		}
	}
}

// maxHandles limits the objects whose names are texts. A program may make objects without end.
const maxHandles = 1 << 12

// handle returns an object as an argument.
func (s *Scene) handle(o *timeline.Object) (ArgKind, uint64) {
	if o.ID < len(s.handles) && s.handles[o.ID] != 0 {
		return Text, uint64(s.handles[o.ID])
	}
	i := slices.Index(s.kinds, o.Kind)
	if i < 0 {
		i = len(s.kinds)
		s.kinds = append(s.kinds, o.Kind)
	}
	value := uint64(o.ID)<<8 | uint64(i)
	if o.ID >= maxHandles {
		return Handle, value
	}
	name := s.Sym(string(s.AppendHandle(nil, value)))
	*grow.At(&s.handles, o.ID) = name
	return Text, uint64(name)
}

// AppendName appends a slice's name.
func (s *Scene) AppendName(b []byte, l *Slice) []byte {
	if b = append(b, s.Text(l.Name)...); l.Numbered {
		b = strconv.AppendInt(append(b, ' '), int64(l.Number), 10)
	}
	return b
}

// AppendHandle appends an object's name, such as stream#1, as acltrace cat prints it.
func (s *Scene) AppendHandle(b []byte, value uint64) []byte {
	for _, c := range []byte(s.kinds[value&0xff]) {
		if c == ' ' {
			c = '_'
		}
		b = append(b, c)
	}
	return strconv.AppendUint(append(b, '#'), value>>8, 10)
}

// early reports whether a measured task begins before its call. Device and host clocks may differ by microseconds, and no
// viewer draws an arrow back in time.
func early(t *timeline.Task) bool { return t.Measured && t.From < t.Issued }

func (s *Scene) task(t *timeline.Task) error {
	if !t.Measured {
		return s.hold(t)
	}
	row, moment := s.measuredRow(t)
	l := s.begin(row, s.Sym(t.Name), catTask, t.From, max(t.From, t.To))
	if moment {
		l.Moment, l.To = true, l.From
		l.int(keyNotAfter, t.To)
		s.Drawn.Moments++
	}
	return s.drawTask(l, t, s.graphs[t.Object])
}

// hold draws the task that the lane holds until the earliest begin of this one, and then holds this one.
func (s *Scene) hold(t *timeline.Task) error {
	in := s.lane(t.Lane)
	if err := s.drawHeld(in, t.From); err != nil {
		return err
	}
	held := *t
	in.held, in.content = &held, s.graphs[t.Object]
	return nil
}

// drawHeld draws the task that a lane holds, if any, up to a moment.
func (s *Scene) drawHeld(in *lane, until int64) error {
	t := in.held
	if t == nil {
		return nil
	}
	in.held = nil
	row := s.bracketedRow(t.Lane)
	from := max(t.From, row.end)
	row.end = max(from, min(t.To, until))
	l := s.begin(row, s.Sym(t.Name), catBracketed, from, row.end)
	l.int(keyNotAfter, t.To)
	return s.drawTask(l, t, in.content)
}

// drawTask draws a task. content is the size of the graph that it runs.
func (s *Scene) drawTask(l *Slice, t *timeline.Task, content uint64) error {
	l.Task = t
	if s.within(t.Issued, t.Returned) {
		l.Flow, l.FlowEnd = t.Call+1, !early(t)
	}
	l.num(keyCall, t.Call)
	if t.Operator != 0 {
		l.text(keyOperator, s.Sym(s.W.OperatorOf(t)))
	}
	l.text(keyTask, s.Sym(t.Kind.String()))
	switch t.Kind {
	case api.Copy, api.Fill:
		l.num(keyBytes, t.Bytes)
		if t.Pageable() {
			l.yes(keyPageable)
		}
	case api.Kernel:
		if t.Blocks > 0 {
			l.num(keyBlocks, uint64(t.Blocks))
		}
		if t.Shapes != 0 {
			l.text(keyShapes, s.Sym(s.W.ShapesOf(t)))
		}
	case api.GraphRun:
		if t.Object != nil {
			l.num(keyGraph, uint64(t.Object.ID))
			l.num(keyGraphTasks, content)
			if t.Content != nil {
				l.text(keyGraphKernels, s.Sym(t.Content.String()))
			}
		}
	default:
		if t.Object != nil {
			l.num(keyEvent, uint64(t.Object.ID))
		}
	}
	if t.HasID {
		l.num(keyStreamID, uint64(t.StreamID))
		l.num(keyTaskID, uint64(t.TaskID))
	}
	if !t.Measured {
		l.yes(keyBracketed)
		s.Drawn.Bracketed++
	}
	if t.Open {
		l.yes(keyOpen)
	}
	s.Drawn.Tasks++
	return s.v.Slice(l)
}

func (s *Scene) rangeOf(r *timeline.Range) error {
	if err := s.until(r.From); err != nil {
		return err
	}
	name := r.Name
	if name == "" {
		name = "range"
	}
	var row *Row
	thread, to := s.thread(r.Thread), max(r.From, r.To)
	if r.Thread == r.EndThread {
		row = s.hostRow(thread, r.From, to)
	} else {
		row = s.rangeRow(int(s.Threads[thread].Process), r.From, to)
	}
	l := s.begin(row, s.Sym(name), catRange, r.From, to)
	l.Moment = r.Mark
	l.num(keyCall, r.Begin)
	if r.Domain != "" {
		l.text(keyDomain, s.Sym(r.Domain))
	}
	if r.Stream != nil {
		for i := range s.W.Lanes {
			if s.W.Lanes[i].Stream == r.Stream {
				l.text(keyStream, s.lane(i).name)
			}
		}
	}
	if r.Thread != r.EndThread {
		l.num(keyEndThread, uint64(s.Threads[s.thread(r.EndThread)].TID))
	}
	if r.Open {
		l.yes(keyOpen)
	}
	s.Drawn.Ranges++
	return s.v.Slice(l)
}

func (s *Scene) step(p *step.Step) error {
	if p.Open {
		return nil // the time after the last step
	}
	if s.rows.steps == nil {
		s.rows.steps = s.rows.row(Row{Kind: Steps, Process: s.process(s.W.StepRule().Process), Thread: -1, Lane: -1, Name: "steps"})
	}
	name := cmp.Or(p.Name, "step")
	l := s.begin(s.rows.steps, s.Sym(name), catStep, p.From, max(p.From, p.To))
	last := name[len(name)-1]
	l.Numbered, l.Number = !s.o.NoArgs && (last < '0' || last > '9'), p.Index // without arguments, viewers sum up by name
	l.num(keyStep, uint64(p.Index))
	l.text(keyStepSource, s.Sym(string(s.W.StepRule().Source)))
	if !p.Typical {
		l.yes(keyUntypical)
	}
	s.Drawn.Steps++
	return s.v.Slice(l)
}

func (s *Scene) gap(g *format.Gap) error {
	to := max(g.From, g.To)
	if !s.within(g.From, to) {
		return nil
	}
	var row *Row
	if g.Thread != format.NoThread {
		row = s.hostRow(s.thread(g.Thread), g.From, to)
	} else {
		if s.rows.lost == nil || !s.rows.lost.nest(g.From, to) {
			s.rows.lost = s.rows.row(Row{Kind: Lost, Thread: -1, Lane: -1, Name: "calls lost"})
			s.rows.lost.nest(g.From, to)
		}
		row = s.rows.lost
	}
	name := nameLost
	if g.Intended() {
		name = nameNotRecorded
	}
	l := s.begin(row, name, catGap, g.From, to)
	if g.Calls > 0 {
		l.num(keyLost, g.Calls)
	}
	l.text(keyReason, s.Sym(g.Reason.String()))
	s.Drawn.Gaps++
	return s.v.Slice(l)
}
