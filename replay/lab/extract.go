// Package lab does experiments with traces and their replays.
//
// Extract writes one launch, with everything that it needs, as a separate trace, and compiles the extract once more to prove that it can
// be replayed. Explain lists the calls that wrote a byte. Runs compares repeated runs of a plan. Bundle.Write makes a plan a program of
// its own. Commands call Extract, package replay calls the others; calls are independent.
//
// The package plays no plan, loads no library, and writes only the file or folder that the caller names.
package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// Extracted describes an extract.
type Extracted struct {
	format.Scope        // of the original trace
	Launch       uint64 `json:"launch"` // number of the launch in the extract
	Kernel       string `json:"kernel"`
	Calls        uint64 `json:"calls"`   // in the extract
	Results      int    `json:"results"` // copies to the host that show the launch's results
	// Alone says that the device is idle before the launch and the program waits for it at once, so that its time can be measured.
	Alone bool `json:"alone"`
}

// known has the properties of a call that matter for extracts.
type known struct {
	index   uint64
	fn      *api.Func
	uses    []*timeline.Object // objects that it names
	made    []*timeline.Object
	regions []access.Region
	stream  *timeline.Object
	kernel  string
	thread  uint32
	ok      bool
	graph   bool // it was captured into a graph
}

// Extract writes one launch, with everything that it needs, as a separate trace: the calls that choose devices and contexts, those that
// made its binary, function and memory, and earlier copies, fills and kernels that may have written memory within its reach. The launch
// follows, then the waits for it, and the copies of its results to the host before other calls can change them. A wait for the device
// precedes the launch and a wait for the launch follows it, so that it runs alone. If the trace lacks something, Extract fails with an
// compile.ErrMissing that lists it.
func Extract(ctx context.Context, trace string, m *api.Model, launch uint64, output string, limits *compile.Limits) (*Extracted, error) {
	r, err := compile.Open(trace, m)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if a, err := os.Stat(trace); err == nil {
		if b, err := os.Stat(output); err == nil && os.SameFile(a, b) {
			return nil, fmt.Errorf("%s: the extract can't replace the trace that it comes from", output)
		}
	}
	x := &extractor{r: r, m: m, byCall: map[uint64]int{}}
	if limits != nil {
		x.limits = *limits
	}
	if err := x.load(ctx); err != nil {
		return nil, compile.InFile(trace, err)
	}
	n, ok := x.byCall[launch]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: no call %d that the model knows", trace, launch)
	case x.calls[n].fn.Task != api.Kernel:
		return nil, fmt.Errorf("%s: call %d is %s, no launch of a kernel: acltrace cat shows the numbers of calls", trace, launch, x.calls[n].fn.Name)
	case !x.calls[n].ok:
		return nil, fmt.Errorf("%s: call %d %s had failed: there is nothing to run", trace, launch, x.calls[n].fn.Name)
	case x.calls[n].graph:
		return nil, fmt.Errorf("%s: call %d %s puts a kernel into a graph: it runs when the graph does, not by itself", trace, launch, x.calls[n].fn.Name)
	}
	x.launch = n
	x.before()
	results := x.after()
	e := &Extracted{Scope: r.Completeness().Scope(), Kernel: x.calls[n].kernel, Results: results}
	if err := x.missing(); err != nil {
		return nil, compile.InFile(trace, err)
	}
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
		return 0, fmt.Errorf("%s: no call is known to have made task %d of stream %d", trace, id.Task, id.Stream)
	case 1:
		return calls[0], nil
	}
	return 0, fmt.Errorf("%s: calls %v have all made a task %d of a stream %d, on devices of their own; name one of them", trace, calls, id.Task, id.Stream)
}

type extractor struct {
	limits compile.Limits // for planned replays
	r      *format.Reader
	m      *api.Model
	calls  []known
	byCall map[uint64]int // index into calls
	late   map[uint64][]format.Data
	start  int64 // of the launch
	end    int64
	launch int
	keep   []bool
}

func (x *extractor) load(ctx context.Context) error {
	err := x.limits.Check(x.r, x.m)
	if err != nil {
		return err
	}
	x.late, err = access.Each(x.r, x.m, func(q *access.Call) error {
		e := q.Event
		k := known{
			index: e.Call.Index, fn: e.Fn, stream: e.Stream, kernel: e.Kernel, thread: e.Call.Thread, ok: q.OK,
			graph: e.Captured != nil, regions: slices.Clone(q.Regions),
		}
		for _, u := range e.Uses {
			k.uses = append(k.uses, u.Object)
			if u.Object.Created == k.index {
				k.made = append(k.made, u.Object)
			}
		}
		k.uses = append(k.uses, q.Named...)
		k.made = append(k.made, q.Made...)
		x.byCall[k.index] = len(x.calls)
		x.calls = append(x.calls, k)
		return ctx.Err()
	})
	return err
}

// sets reports whether a call selects a device or context for later calls.
func (k *known) sets() bool {
	return k.fn.Initializes || k.fn.Selects >= 0
}

// writes reports whether a call may write one of the allocations.
func (k *known) writes(need map[*timeline.Object]bool) bool {
	mayWrite := k.fn.Task == api.Kernel || k.fn.Task == api.GraphRun
	return slices.ContainsFunc(k.regions, func(t access.Region) bool {
		return need[t.Object] && (t.Kind == access.Writes || t.Kind == access.Names && mayWrite)
	})
}

// before chooses the calls that the launch needs, from the last to the first: those that may have written needed memory at that point,
// and transitively those that made or prepared the objects of chosen calls.
func (x *extractor) before() {
	x.keep = make([]bool, len(x.calls))
	need := map[*timeline.Object]bool{}
	live := map[*timeline.Object]bool{} // allocations with needed content
	choose := func(i int) {
		x.keep[i] = true
		for _, o := range x.calls[i].uses {
			need[o] = true
			for ; o.Parent != nil; o = o.Parent {
				need[o.Parent] = true
			}
		}
		for _, t := range x.calls[i].regions {
			need[t.Object] = true
			if t.Kind == access.Writes && t.Lo == 0 && t.Hi >= t.Object.Size {
				delete(live, t.Object) // the call overwrites all of it
			}
		}
		for _, t := range x.calls[i].regions {
			if t.Kind == access.Reads || t.Kind == access.Names || t.Kind == access.Points {
				live[t.Object] = true
			}
		}
	}
	choose(x.launch)
	for i := x.launch - 1; i >= 0; i-- {
		if k := &x.calls[i]; k.ok && (k.sets() || k.writes(live)) {
			choose(i)
		}
	}
	for again := true; again; {
		again = false
		for i := x.launch - 1; i >= 0; i-- {
			if k := &x.calls[i]; !x.keep[i] && k.ok && x.prepares(k, need) {
				choose(i)
				again = true
			}
		}
	}
}

// prepares reports whether a call makes a needed object, changes it other than by writing memory, or orders needed streams and events.
func (x *extractor) prepares(k *known, need map[*timeline.Object]bool) bool {
	for _, o := range k.made {
		if need[o] {
			return true
		}
	}
	if k.fn.Task == api.Kernel || k.fn.Task == api.Copy || k.fn.Task == api.Fill || k.fn.Task == api.Reduce || k.fn.Task == api.GraphRun {
		return false
	}
	if k.fn.Sync == api.SyncDevice {
		return true
	}
	for _, o := range k.uses {
		if !need[o] {
			continue
		}
		switch o.Kind {
		case api.Device, api.Host, api.Registered, api.Mapped, api.Owned, api.Context:
			if o.Ended == k.index {
				return true // its address may be reused
			}
		default:
			return true
		}
	}
	return false
}

// after chooses the calls after the launch: the program's waits, and the copies of memory that the launch may have written, until other
// calls may write it. It returns the number of those copies.
func (x *extractor) after() (results int) {
	l := &x.calls[x.launch]
	need := map[*timeline.Object]bool{}
	for _, t := range l.regions {
		need[t.Object] = true
	}
	have := map[*timeline.Object]bool{}
	for i := range x.launch {
		if x.keep[i] {
			for _, o := range x.calls[i].made {
				have[o] = true
			}
		}
	}
	waited := false
	for i := x.launch + 1; i < len(x.calls); i++ {
		k := &x.calls[i]
		if k.writes(need) || len(k.made) > 0 && k.thread == l.thread && k.sets() || slices.ContainsFunc(k.uses, func(o *timeline.Object) bool { return need[o] && o.Ended == k.index }) {
			break
		}
		if !k.ok {
			continue
		}
		known := !slices.ContainsFunc(k.uses, func(o *timeline.Object) bool { return !have[o] && x.hostMaker(o) < 0 })
		switch {
		case k.fn.Sync == api.SyncDevice, k.fn.Sync == api.SyncStream && k.stream == l.stream && known:
			x.keep[i], waited = true, true
		case k.fn.Task == api.Copy && known && !k.graph && k.reads(need) && (waited || k.sameStream(l) || x.onDefault(k) && !apart(l)):
			x.keep[i] = true
			results++
			for _, o := range k.uses {
				if !have[o] {
					x.keep[x.hostMaker(o)], have[o] = true, true
				}
			}
		}
	}
	return results
}

// sameStream reports whether a call is on the stream of an earlier one. The default stream belongs to the thread's context.
func (k *known) sameStream(l *known) bool {
	return k.fn.Stream >= 0 && l.fn.Stream >= 0 && k.stream == l.stream && (k.stream != nil || k.thread == l.thread)
}

// onDefault reports whether a copy without a stream is on the default stream of the context, which waits for other streams.
func (x *extractor) onDefault(k *known) bool {
	return x.m.NonBlocking != 0 && k.fn.Stream < 0 && !k.fn.OwnStream
}

// apart reports whether a call is on a stream that default streams do not wait for.
func apart(k *known) bool { return k.stream != nil && k.stream.NonBlocking }

// hostMaker returns the call before the launch that made host memory, -1 if there is none.
func (x *extractor) hostMaker(o *timeline.Object) int {
	if i, ok := x.byCall[o.Created]; ok && o.Kind.OnHost() && i < x.launch && slices.Contains(x.calls[i].made, o) {
		return i
	}
	return -1
}

// reads reports whether a copy brings needed memory to the host.
func (k *known) reads(need map[*timeline.Object]bool) bool {
	if slices.ContainsFunc(k.regions, func(t access.Region) bool { return t.Kind == access.Writes && !t.Object.Kind.OnHost() }) {
		return false
	}
	return slices.ContainsFunc(k.regions, func(t access.Region) bool { return t.Kind == access.Reads && need[t.Object] })
}

// missing lists the objects of chosen calls that no chosen call makes, and the calls lost before the launch.
func (x *extractor) missing() error {
	var lacks []string
	have := map[*timeline.Object]bool{}
	for i := range x.calls {
		if !x.keep[i] {
			continue
		}
		k := &x.calls[i]
		for _, o := range k.made {
			have[o] = true
		}
		for _, o := range k.uses {
			if !have[o] {
				have[o] = true
				lacks = append(lacks, fmt.Sprintf("call %d %s: its %s %#x is older than the trace", k.index, k.fn.Name, o.Kind, o.Handle))
			}
		}
	}
	c, err := x.r.Call(x.calls[x.launch].index)
	if err != nil {
		return err
	}
	x.start, x.end = c.Start, c.End
	for _, g := range x.r.Gaps() {
		if g.From < c.End {
			lacks = append(lacks, fmt.Sprintf("calls lost while recording (%s), %d to %d ns", g.Reason, g.From, g.To))
		}
	}
	return lacking(lacks)
}

func lacking(lacks []string) error {
	if len(lacks) == 0 {
		return nil
	}
	if n := len(lacks) - 20; n > 0 {
		lacks = append(lacks[:20], fmt.Sprintf("%d more", n))
	}
	return fmt.Errorf("%w:\n  %s", compile.ErrMissing, strings.Join(lacks, "\n  "))
}

// writeThreads copies processes and threads.
func (x *extractor) writeThreads(w *format.Writer) error {
	for _, p := range x.r.Processes() {
		if _, err := w.Process(p); err != nil {
			return err
		}
	}
	for _, t := range x.r.Threads() {
		if _, err := w.Thread(t); err != nil {
			return err
		}
	}
	return nil
}

// writeCall writes a call. It returns the number, and the data that was recorded later or, for calls after the launch, seen later.
func (x *extractor) writeCall(w *format.Writer, k *format.Call, after bool, recordedLater []format.Data, blobs map[format.BlobID]format.BlobID) (uint64, []format.Data, error) {
	var late []format.Data
	if after {
		k.Data = slices.DeleteFunc(k.Data, func(d format.Data) bool {
			if d.Dir == format.DirOut && d.Time > k.End {
				late = append(late, d)
				return true
			}
			return false
		})
	}
	at, err := w.Call(k)
	if err != nil {
		return 0, nil, err
	}
	seen := len(late)
	late = append(late, recordedLater...)
	for n := range late {
		late[n].Call = at
		if n >= seen {
			if err := x.blob(w, &late[n], blobs); err != nil {
				return 0, nil, err
			}
		}
	}
	return at, late, nil
}

func (x *extractor) write(ctx context.Context, output string, e *Extracted) (err error) {
	meta := *x.r.Meta()
	meta.UUID = ""
	w, err := format.Create(output, &meta, x.r.Schema(), &format.WriterOptions{Compression: format.Zstd, Whole: true, Proof: x.prove})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort() // it fails only if Close failed
		}
	}()
	if err := x.writeThreads(w); err != nil {
		return err
	}
	blobs := map[format.BlobID]format.BlobID{}
	var late []format.Data
	l := &x.calls[x.launch]
	last, open := int64(0), false // some task has not been waited for
	for c, err := range x.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		i, ok := x.byCall[c.Index]
		if !ok || !x.keep[i] {
			continue
		}
		if i == x.launch {
			if e.Alone, err = x.wait(w, api.SyncDevice, x.start); err != nil {
				return err
			}
		}
		k := c.Clone()
		k.Start, k.End = x.shifted(k.Start), x.shifted(k.End)
		last = max(last, k.End)
		for n := range k.Data {
			if err := x.blob(w, &k.Data[n], blobs); err != nil {
				return err
			}
		}
		at, more, err := x.writeCall(w, k, i > x.launch, x.late[c.Index], blobs)
		if err != nil {
			return err
		}
		late = append(late, more...)
		if i == x.launch {
			e.Launch = at
			how := api.SyncStream
			if l.stream == nil {
				how = api.SyncDevice
			}
			waits, err := x.wait(w, how, k.End+1)
			if err != nil {
				return err
			}
			e.Alone = e.Alone && waits
			last, open = max(last, k.End+1+waitTime), !waits
		} else if i > x.launch {
			open = x.calls[i].fn.Sync == api.NoSync && (open || x.calls[i].stream != nil)
		}
	}
	if open {
		if waits, err := x.wait(w, api.SyncDevice, last+1); err != nil {
			return err
		} else if !waits {
			return fmt.Errorf("%w: the program never waited for the launch", compile.ErrMissing)
		}
		for i := range late {
			if d := &late[i]; d.Call > e.Launch {
				d.Time = max(d.Time, last+2+waitTime) // seen after that wait
			}
		}
	}
	for i := range late {
		if err := w.Data(&late[i]); err != nil {
			return err
		}
	}
	e.Calls = w.Calls()
	meta.Window = format.WindowExtracted
	meta.Extracted = &format.Extracted{Launch: e.Launch, Alone: e.Alone, Results: e.Results}
	meta.EndNS = x.shifted(meta.EndNS)
	if err := w.SetMeta(&meta); err != nil {
		return err
	}
	return w.Close()
}

// waitTime is the duration of waits that the program did not make.
const waitTime = 1000

// shifted returns a time in the extract, which has room for a wait before and after the launch.
func (x *extractor) shifted(t int64) int64 {
	if t >= x.start {
		t += waitTime + 1
	}
	if t > x.end+waitTime+1 {
		t += waitTime + 1
	}
	return t
}

// wait adds a wait for the device or the launch's stream. It returns false if the model lacks such a call.
func (x *extractor) wait(w *format.Writer, how api.Sync, start int64) (bool, error) {
	l := &x.calls[x.launch]
	args := []uint64{}
	if how == api.SyncStream {
		args = []uint64{x.m.StreamHandle(l.stream.Handle)}
	}
	f := x.m.Waiter(how)
	if f == nil || len(args) != int(f.Words) || x.r.Schema().Func(uint16(f.ID)) == nil {
		return false, nil
	}
	_, err := w.Call(&format.Call{Func: uint16(f.ID), Thread: l.thread, Start: start, End: start + waitTime, Args: args})
	return err == nil, err
}

// blob copies a payload into another trace.
func (x *extractor) blob(w *format.Writer, d *format.Data, blobs map[format.BlobID]format.BlobID) (err error) {
	d.Time = x.shifted(d.Time)
	if d.Blob == 0 {
		return nil
	}
	id, ok := blobs[d.Blob]
	if !ok {
		if d.Status == format.Whole {
			r, err := x.r.BlobReader(d.Blob)
			if err != nil {
				return err
			}
			b := w.Blobber()
			if _, err := io.Copy(b, r); err != nil {
				b.Abort()
				return err
			}
			if id, err = b.Close(); err != nil {
				return err
			}
		} else {
			hash, size, _, err := x.r.BlobInfo(d.Blob)
			if err != nil {
				return err
			}
			if id, err = w.Named(le64(hash[:8]), le64(hash[8:]), size); err != nil {
				return err
			}
		}
		blobs[d.Blob] = id
	}
	d.Blob = id
	return nil
}

func le64(b []byte) uint64 {
	var v uint64
	for i := range 8 {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

// prove plans the extract. Calls that can't be replayed, and substituted data, are missing.
func (x *extractor) prove(path string) error {
	r, err := format.Open(path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	dir, err := os.MkdirTemp("", "acltrace-extract-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := compile.Trace(r, x.m, dir, &compile.Options{Backend: backend.New("", x.m), Limits: x.limits})
	if err != nil {
		return err
	}
	defer p.Close()
	var lacks []string
	for _, u := range p.Found.Unsupported {
		lacks = append(lacks, fmt.Sprintf("%s (%d calls): %s", u.Func, u.Calls, u.Reason))
	}
	for _, s := range p.Found.Substituted {
		lacks = append(lacks, fmt.Sprintf("%s, %s: %d bytes: %s", s.Func, s.Param, s.Bytes, s.Reason))
	}
	return lacking(lacks)
}
