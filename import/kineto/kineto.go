// Package kineto adds the operators of a framework's profile to a recording of the same run.
//
// Profiles are the Chrome traces of torch.profiler (Kineto) and torch_npu.profiler. Command merge calls Read for each, and Add
// for each recording that has a process of theirs. An operator, a record_function or a Python frame becomes an mstx range in
// domain "torch" on its thread, so all viewers draw it around the calls inside, and a ProfilerStep marks a step. Tasks of the
// device and calls of the runtime are left out, because the recording has them.
//
// Both clocks are wall clocks: a profile has the time of day, a recording the time of day at its start. They differ by less
// than a microsecond, unless the machine's clock was set during the run, or the profiler converts its clock wrongly: without
// CANN's own profile, torch_npu takes CLOCK_MONOTONIC_RAW for CLOCK_MONOTONIC. Add corrects up to two seconds, so that calls lie
// inside operators or beside them. Report.Crossing counts the calls for which no correction does.
//
// Memory holds 100 bytes an operator, 40 bytes a recorded call in its time, and the distinct names. The recording is copied in a stream.
package kineto

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/timeline/step"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/internal/events"
	"github.com/acltrace/acltrace/internal/schema"
)

// A Profile has the operators of a profile.
type Profile struct {
	Path string

	ops     []op
	names   []string
	threads map[thread]string // names
}

// op is an operator, in nanoseconds since 1970 UTC.
type op struct {
	thread
	from, to int64
	name     uint32 // index in Profile.names
}

type thread struct{ pid, tid int64 }

// Read reads a profile. Events of the device have no process of the program, and Add leaves them out.
func Read(path string) (*Profile, error) {
	f, err := events.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &Profile{Path: path, threads: map[thread]string{}}
	byName := map[string]uint32{}
	base := int64(0)
	header := func(name string, value json.RawMessage) {
		if name == "baseTimeNanoseconds" {
			var n events.Number
			if json.Unmarshal(value, &n) == nil {
				base, _ = n.Int()
			}
		}
	}
	err = events.Read(path, f, header, func(e *event) error {
		pid, ok := e.PID.Int()
		tid, numbered := e.TID.Int()
		if !ok || !numbered {
			return nil
		}
		t := thread{pid, tid}
		switch {
		case e.Phase == "M" && e.Name == "thread_name":
			if p.threads[t] == "" {
				p.threads[t] = threadName(string(e.Args.Name))
			}
		case e.Phase == "X" && !slices.Contains(runtimes, string(e.Cat)):
			start, dur, err := e.Times(string(e.Name))
			if err != nil {
				return err
			}
			name, ok := byName[string(e.Name)]
			if !ok {
				name = uint32(len(p.names))
				byName[string(e.Name)], p.names = name, append(p.names, string(e.Name))
			}
			p.ops = append(p.ops, op{t, start, start + dur, name})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range p.ops { // the base may follow the events
		o := &p.ops[i]
		if o.to > math.MaxInt64-base {
			return nil, fmt.Errorf("%s: baseTimeNanoseconds %d is no time of this age", path, base)
		}
		o.from, o.to = o.from+base, o.to+base
	}
	return p, nil
}

// runtimes are the categories of a runtime's calls, which the recording has.
var runtimes = []string{"cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver"}

type event struct {
	events.Event
	Args args `json:"args"`
}

type args struct {
	Name events.Text `json:"name"`
}

// UnmarshalJSON accepts arguments in any form and ignores all but objects.
func (a *args) UnmarshalJSON(b []byte) error {
	type plain args
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	return json.Unmarshal(b, (*plain)(a))
}

// threadName returns NAME in "thread 12 (NAME)", "" for other names, which are made of the number.
func threadName(s string) string {
	_, name, ok := strings.Cut(s, "(")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(name, ")")
}

// processes returns the indexes of the recording's processes that have operators, by pid.
func (p *Profile) processes(r *format.Reader) map[int64]uint32 {
	with := map[int64]bool{}
	for i := range p.ops {
		with[p.ops[i].pid] = true
	}
	found := map[int64]uint32{}
	for i, q := range r.Processes() {
		if with[int64(q.PID)] {
			found[int64(q.PID)] = uint32(i) // a later one, if the number was used again
		}
	}
	return found
}

// end returns the end of a recording, in nanoseconds since 1970 UTC.
func end(r *format.Reader) int64 {
	at := r.Meta().EndNS
	for c := range r.Chunks() {
		at = max(at, c.TMax)
	}
	return r.Meta().StartWall + at
}

// Of returns the recording that a profile belongs to: it has a process of the profile, at that time.
func (p *Profile) Of(recordings []*format.Reader) (*format.Reader, error) {
	var found *format.Reader
	var names []string
	for _, r := range recordings {
		names = append(names, r.Path())
		ops, _ := p.within(r)
		switch {
		case len(ops) == 0:
		case found != nil:
			return nil, fmt.Errorf("%s belongs to %s and to %s: merge it with the recording of its rank alone, and merge the ranks then", p.Path, found.Path(), r.Path())
		default:
			found = r
		}
	}
	switch {
	case len(p.ops) == 0:
		return nil, fmt.Errorf("%s has no operators of the host: profile with ProfilerActivity.CPU", p.Path)
	case found == nil:
		return nil, fmt.Errorf("%s has no operator of a process, and in the time, of %s: profile the run that is recorded", p.Path, strings.Join(names, ", "))
	}
	return found, nil
}

// within returns the operators of a recording's processes during the recording, and the number of others.
func (p *Profile) within(r *format.Reader) (ops []op, outside int) {
	of, from, to := p.processes(r), r.Meta().StartWall, end(r)
	for _, o := range p.ops {
		if _, ok := of[o.pid]; ok && o.from <= to && o.to >= from {
			ops = append(ops, o)
		}
	}
	return ops, len(p.ops) - len(ops)
}

// Report describes what was added to a recording.
type Report struct {
	Operators int   // ranges added
	Threads   int   // that they are on
	Outside   int   // operators left out: of other processes, or before or after the recording
	Calls     int   // recorded calls on these threads, between their first and their last operator
	Crossing  int   // those of Calls in which an operator begins or ends
	Shift     int64 // nanoseconds added to the operators' times, the most for a profile
}

// Add writes a trace with everything in a recording, and with the operators of profiles as ranges.
func Add(r *format.Reader, m *api.Model, profiles []*Profile, output string) (*Report, error) {
	if len(r.Meta().Merged) > 0 {
		return nil, fmt.Errorf("%s is a merged trace: merge profiles with the recordings of their ranks first", r.Path())
	}
	if err := r.PayloadsReadable(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(output), ".acltrace-operators-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	rep := &Report{}
	sources := []*format.Source{{Reader: r}}
	for i, p := range profiles {
		made := filepath.Join(dir, fmt.Sprint(i, ".aclt"))
		if err := p.write(r, m, made, uint64(i), rep); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Path, err)
		}
		ranges, err := format.Open(made, nil)
		if err != nil {
			return nil, err
		}
		defer ranges.Close()
		sources = append(sources, &format.Source{Reader: ranges})
	}
	meta := *r.Meta()
	meta.Extracted = nil // it names a call by its number
	w, err := format.Create(output, &meta, withMarks(r.Schema(), m), &format.WriterOptions{Whole: true})
	if err != nil {
		return nil, err
	}
	if err := format.NewAppender(w).Append(sources...); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return rep, w.Close()
}

// The functions that mark ranges.
const createDomain, begin, finish = "mstxDomainCreateA", "mstxDomainRangeStartA", "mstxDomainRangeEnd"

// withMarks returns a recording's schema with the functions that mark ranges, which old ones may lack.
func withMarks(s *format.Schema, m *api.Model) *format.Schema {
	out := *s
	out.Functions = slices.Clone(s.Functions)
	for _, f := range schema.Of(m).Functions {
		if (f.Name == createDomain || f.Name == begin || f.Name == finish) && !slices.ContainsFunc(s.Functions, func(g format.Function) bool { return g.ID == f.ID }) {
			out.Functions = append(out.Functions, f)
		}
	}
	return &out
}

// mark is the begin or the end of an operator.
type mark struct {
	at    int64 // since the recording began
	order int8  // of marks at one moment: ends, begins, ends of operators without a duration
	op    int
}

func marks(ops []op, start int64) []mark {
	all := make([]mark, 0, 2*len(ops))
	for i, o := range ops {
		from, to := max(o.from-start, 0), max(o.to-start, 0)
		last := mark{to, 0, i}
		if to == from {
			last.order = 2
		}
		all = append(all, mark{from, 1, i}, last)
	}
	slices.SortStableFunc(all, func(a, b mark) int {
		if c := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)); c != 0 || a.order != 1 {
			return c
		}
		return cmp.Compare(ops[b.op].to, ops[a.op].to) // the outer one first
	})
	return all
}

// write makes a trace of a profile's operators. n is the number of the profile.
func (p *Profile) write(r *format.Reader, m *api.Model, output string, n uint64, rep *Report) error {
	ops, outside := p.within(r)
	rep.Operators, rep.Outside = rep.Operators+len(ops), rep.Outside+outside
	if err := rep.align(r, ops); err != nil {
		return err
	}
	was := r.Meta()
	meta := &format.Meta{Host: was.Host, API: was.API, StartWall: was.StartWall}
	fw, err := format.Create(output, meta, schema.Of(m), nil)
	if err != nil {
		return err
	}
	w := &writer{Writer: fw, m: m, first: n << 40, threads: map[thread]uint32{}}
	if err = w.people(p, r, ops); err == nil {
		err = w.ranges(p, ops, was.StartWall)
	}
	if err != nil {
		return errors.Join(err, fw.Abort())
	}
	rep.Threads += len(w.threads)
	return fw.Close()
}

// align corrects the clock of operators, and counts the calls that they cross.
func (rep *Report) align(r *format.Reader, ops []op) error {
	a, err := newAligner(r, ops)
	if err != nil {
		return err
	}
	add := a.apart()
	for i := range ops {
		ops[i].from, ops[i].to = ops[i].from+add, ops[i].to+add
	}
	if abs(add) > abs(rep.Shift) {
		rep.Shift = add
	}
	calls, crossing := a.crossing(add)
	rep.Calls, rep.Crossing = rep.Calls+calls, rep.Crossing+crossing
	return nil
}

type writer struct {
	*format.Writer
	m       *api.Model
	first   uint64 // distinguishes handles of several profiles
	threads map[thread]uint32
}

// people writes the recording's processes that have operators, and all threads with operators.
func (w *writer) people(p *Profile, r *format.Reader, ops []op) error {
	processes := map[int64]uint32{}
	for pid, i := range p.processes(r) {
		was := r.Processes()[i]
		at, err := w.Process(format.Process{PID: was.PID, Start: was.Start})
		if err != nil {
			return err
		}
		processes[pid] = at
	}
	for i := range ops {
		t := ops[i].thread
		if _, ok := w.threads[t]; ok {
			continue
		}
		at, err := w.Thread(format.Thread{Process: processes[t.pid], TID: int(t.tid), Name: p.threads[t]})
		if err != nil {
			return err
		}
		w.threads[t] = at
	}
	return nil
}

// Handles that no runtime uses.
const (
	domainHandle = 0x746f7263 << 32
	rangeHandle  = 0x746f7264 << 32
)

func (w *writer) ranges(p *Profile, ops []op, start int64) error {
	domains := map[int64]bool{} // by process
	for _, k := range marks(ops, start) {
		o := &ops[k.op]
		thread := w.threads[o.thread]
		if !domains[o.pid] {
			domains[o.pid] = true
			if err := w.call(createDomain, thread, k.at, "name", step.Framework, domainHandle+w.first, nil); err != nil {
				return err
			}
		}
		id := rangeHandle + w.first + uint64(k.op)
		var err error
		if k.order == 1 {
			err = w.call(begin, thread, k.at, "message", p.names[o.name], id, map[string]uint64{"domain": domainHandle + w.first})
		} else {
			err = w.call(finish, thread, k.at, "", "", 0, map[string]uint64{"domain": domainHandle + w.first, "id": id})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// call writes an instantaneous call with a text, and other arguments.
func (w *writer) call(name string, thread uint32, at int64, param, text string, ret uint64, values map[string]uint64) error {
	f := w.m.Lookup(name)
	c := format.Call{Func: uint16(f.ID), Thread: thread, Start: at, End: at, Flags: format.Profiled, Args: make([]uint64, f.Words), Ret: ret}
	for name, v := range values {
		c.Args[f.Params[f.Param(name)].Word] = v
	}
	if param != "" {
		n := f.Param(param)
		c.Args[f.Params[n].Word] = 1 // the text is present
		c.Data = []format.Data{{Param: uint8(n), Len: uint64(len(text)), Bytes: []byte(text), Time: at}}
	}
	_, err := w.Call(&c)
	return err
}
