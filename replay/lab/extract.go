// Package lab does experiments with traces and their replays.
//
// Extract writes one launch, with everything that it needs, as a separate trace, and compiles the extract once more to prove that it can
// be replayed. Explain lists the calls that wrote a byte. Runs compares repeated runs of a plan. Bundle.Write turns a plan into
// a program. Commands call Extract, package replay calls the others; calls are independent.
//
// The package plays no plan, loads no library, and writes only the file or folder that the caller names.
package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// Extracted describes an extract.
type Extracted struct {
	format.Scope        // in the original trace
	Launch       uint64 `json:"launch"`  // launching call, by its number in the extract
	Kernel       string `json:"kernel"`  // kernel name
	Calls        uint64 `json:"calls"`   // number of calls in the extract
	Results      int    `json:"results"` // copies to the host that show the launch's results
	Failed       bool   `json:"failed"`  // the program's wait for the launch failed
	Alone        bool   `json:"alone"`   // the device is idle before the launch, and the program waits for it at once
}

// ExtractOptions are Extract's parameters. nil means the defaults.
type ExtractOptions struct {
	Limits compile.Limits // for planned replays
	// Progress is called now and then with the number of parts done and the total: calls read, copied and compiled.
	Progress func(parts string, done, total int)
}

// Extract writes one launch as a separate trace, with its closure: see type closure. After the launch come waits for it, and copies that bring
// its results to the host, until other calls can change them. A wait for the device precedes the launch and a wait for the
// launch follows it, so that it runs alone.
//
// If the closure is incomplete or can't be extracted, Extract writes nothing. It returns a compile.ErrMissing with the reasons. Extract reads the trace up to the results. Its memory grows by a few bytes a call, with the trace's objects, and with
// the extract.
func Extract(ctx context.Context, trace string, m *api.Model, launch uint64, output string, o *ExtractOptions) (*Extracted, error) {
	r, err := compile.Open(trace, m)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if format.SameFile(trace, output) {
		return nil, fmt.Errorf("%s: the extract can't replace the trace that it comes from", output)
	}
	if err := r.PayloadsReadable(); err != nil {
		return nil, err
	}
	x := &extractor{r: r, m: m}
	if o != nil {
		x.o = *o
	}
	if err := x.launchable(launch); err != nil {
		return nil, compile.InFile(trace, err)
	}
	if err := x.close(ctx); err != nil {
		return nil, compile.InFile(trace, err)
	}
	e := &Extracted{Scope: r.Completeness().Scope(), Kernel: x.kernel, Results: x.found.results, Failed: x.found.failed}
	if err := x.write(ctx, output, e); err != nil {
		return nil, err
	}
	return e, nil
}

// LaunchOf returns the call that made a task, by the runtime's numbers for stream and task. If several devices or processes used the
// numbers, the error lists the calls.
func LaunchOf(trace string, id format.TaskID) (uint64, error) {
	r, err := format.Open(trace, nil)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var calls []uint64
	for c, err := range r.Calls(&format.Filter{Task: &id, NoData: true}) {
		if err != nil {
			return 0, err
		}
		calls = append(calls, c.Index)
	}
	switch len(calls) {
	case 0:
		return 0, fmt.Errorf("%s: the trace shows no call for task %d of stream %d", trace, id.Task, id.Stream)
	case 1:
		return calls[0], nil
	}
	return 0, fmt.Errorf("%s: calls %v made task %d of stream %d, on several devices; choose one of these calls", trace, calls, id.Task, id.Stream)
}

type extractor struct {
	o      ExtractOptions
	r      *format.Reader
	m      *api.Model
	launch *format.Call
	fn     *api.Func
	kernel string
	stream *timeline.Object // that the launch is on, nil for a default stream
	slab   int              // slab size, for tests
	keep   bits
	found  *findings
	// lingering are the last calls by process, if there are several. Processes that export memory come last.
	lingering []lastCall
	open      bool // the program never waited for some copies
}

func (x *extractor) progress(parts string, done, total int) {
	if x.o.Progress != nil {
		x.o.Progress(parts, done, total)
	}
}

// launchable finds the launch.
func (x *extractor) launchable(launch uint64) error {
	counts, err := x.r.Counts()
	if err != nil {
		return err
	}
	if launch >= counts.Calls {
		return fmt.Errorf("no call %d: the trace has %d", launch, counts.Calls)
	}
	if x.launch, err = x.r.Call(launch); err != nil {
		if d := x.r.Damage(); len(d) > 0 {
			return &d[0]
		}
		return err
	}
	x.fn = x.m.Func(api.ID(x.launch.Func))
	switch f := x.fn; {
	case f == nil || len(x.launch.Args) != int(f.Words):
		return fmt.Errorf("call %d is not in the model", launch)
	case f.Task != api.Kernel:
		return fmt.Errorf("call %d is %s, not a kernel launch", launch, f.Name)
	case f.Failed(x.launch.Ret):
		return fmt.Errorf("call %d %s failed: there is nothing to run", launch, f.Name)
	}
	return nil
}

// close finds the calls for the extract.
func (x *extractor) close(ctx context.Context) error {
	j, err := newJournal(x.m, cmp.Or(x.slab, slabSize))
	if err != nil {
		return err
	}
	defer j.close()
	v := newSurvey(x.m, j)
	var found *findings
	counts, err := x.r.Counts()
	if err != nil {
		return err
	}
	read := 0
	err = access.Each(x.r, x.m, func(q *access.Call) error {
		if read++; read&0x3fff == 0 {
			x.progress("calls read", read, int(counts.Calls))
		}
		s := v.step(q)
		switch {
		case s == nil:
			return ctx.Err()
		case found != nil:
			if found.ends(s) {
				return access.ErrStop
			}
		case s.index == x.launch.Index:
			if s.graph != 0 {
				return fmt.Errorf("call %d %s adds a kernel to a graph: it runs with the graph, not alone", s.index, s.fn.Name)
			}
			found = newFindings(v, s)
			x.kernel, x.stream = q.Event.Kernel, q.Event.Stream
		}
		j.add(s)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	x.progress("calls read", int(counts.Calls), int(counts.Calls))
	if found == nil {
		return fmt.Errorf("call %d %s can't be replayed", x.launch.Index, x.fn.Name)
	}
	x.found = found
	if found.open[found.launch.lane] == found.task {
		delete(found.open, found.launch.lane) // the extract waits for the launch
	}
	x.open = len(found.open) > 0
	c := newClosure(v, found.roots, found.end)
	if err := c.complete(ctx.Err); err != nil {
		return err
	}
	for _, run := range v.captures.loose {
		if c.keep.has(run) {
			return fmt.Errorf("call %d runs a graph whose update the host has not waited for: the launch can't be cut out of its order; replay the whole trace", run)
		}
	}
	for _, g := range v.captures.ended {
		if g.meets && c.need[g.graph] {
			return fmt.Errorf("call %d orders a graph and other work by an event: the launch can't be cut out of that order; replay the whole trace", g.call)
		}
	}
	lacks, err := c.lacks(x.launch.Start)
	if err != nil {
		return err
	}
	for _, g := range x.r.Gaps() {
		if g.From < x.launch.End {
			lacks = append(lacks, fmt.Sprintf("calls lost while recording (%s), %s to %s", g.Reason, human.Moment(g.From), human.Moment(g.To)))
		}
	}
	x.keep = c.keep
	if len(c.last) > 1 {
		x.lingering = slices.SortedFunc(maps.Values(c.last), func(a, b lastCall) int { return cmp.Compare(a.thread, b.thread) })
		x.lingering = slices.DeleteFunc(x.lingering, func(l lastCall) bool { return l.over })
		slices.SortStableFunc(x.lingering, func(a, b lastCall) int { return cmp.Compare(v.exporter[a.process], v.exporter[b.process]) })
	}
	return lacking(lacks, x.r)
}
