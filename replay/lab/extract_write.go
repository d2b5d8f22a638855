package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/compile"
)

// A LackError lists what an extract needs and the trace lacks. It wraps compile.ErrMissing.
type LackError struct {
	Lacks      []string // each once, with its number
	Replayable bool     // the trace was recorded with --replayable
}

func (e *LackError) Error() string {
	return compile.ErrMissing.Error() + ": " + strings.Join(e.Lacks, "; ")
}

func (e *LackError) Unwrap() error { return compile.ErrMissing }

// lacking returns a LackError, nil if nothing is missing.
func lacking(lacks []string, r *format.Reader) error {
	if len(lacks) == 0 {
		return nil
	}
	e := &LackError{Replayable: r.Meta().Replayable}
	times := map[string]int{}
	for _, l := range lacks {
		if times[l]++; times[l] == 1 {
			e.Lacks = append(e.Lacks, l)
		}
	}
	for i, l := range e.Lacks {
		if n := times[l]; n > 1 {
			e.Lacks[i] = fmt.Sprintf("%s (%s times)", l, human.Count(n))
		}
	}
	if n := len(e.Lacks) - 20; n > 0 {
		e.Lacks = append(e.Lacks[:20], fmt.Sprintf("%s more", human.Count(n)))
	}
	return e
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

// write writes the extract.
func (x *extractor) write(ctx context.Context, output string, e *Extracted) (err error) {
	late, err := x.r.DataByCall(&format.DataFilter{Late: true, To: x.keep.last() + 1}, func(d *format.Data) bool { return x.keep.has(d.Call) })
	if err != nil {
		return err
	}
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
	if err := w.TablesOf(x.r); err != nil {
		return err
	}
	o := &out{x: x, w: w, late: late, blobs: map[format.BlobID]format.BlobID{}}
	kept := &format.Filter{To: x.found.end + 1, Chunk: func(c *format.ChunkInfo) bool { return !c.Known || x.keep.any(c.First, c.First+c.Calls) }}
	for c, err := range x.r.CallsByStart(kept) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Index&0x3fff == 0 {
			x.progress("calls copied", int(c.Index), int(x.keep.last())+1)
		}
		if !x.keep.has(c.Index) {
			continue
		}
		if err := o.call(c.Clone(), e); err != nil {
			return err
		}
	}
	if err := o.finish(e); err != nil {
		return err
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

// linger makes each of several processes wait for its device, those that export memory last: the memory ends with its process.
func (o *out) linger() error {
	f := o.x.m.Waiter(api.SyncDevice)
	if f == nil || f.Words > 0 || o.x.r.Schema().Func(uint16(f.ID)) == nil {
		return nil
	}
	for _, l := range o.x.lingering {
		if _, err := o.w.Call(&format.Call{Func: uint16(f.ID), Thread: l.thread, Start: o.last + 1, End: o.last + 1 + waitTime}); err != nil {
			return err
		}
		o.last += 2 + waitTime
	}
	return nil
}

// out is an extract that is being written.
type out struct {
	x        *extractor
	w        *format.Writer
	late     map[uint64][]format.Data // by call of the trace
	blobs    map[format.BlobID]format.BlobID
	after    []format.Data // to be written after all calls
	last     int64         // end of the calls so far
	waited   bool          // a wait follows the launch
	launched bool
}

// call writes a recorded call, and the waits before and after the launch.
func (o *out) call(k *format.Call, e *Extracted) (err error) {
	x, launch := o.x, k.Index == o.x.launch.Index
	recordedLater := o.late[k.Index]
	if launch {
		if e.Alone, err = x.wait(o.w, api.SyncDevice, x.launch.Start); err != nil {
			return err
		}
	}
	after := o.launched
	k.Start, k.End = x.shifted(k.Start), x.shifted(k.End)
	o.last = max(o.last, k.End)
	for n := range k.Data {
		if err := x.blob(o.w, &k.Data[n], o.blobs); err != nil {
			return err
		}
	}
	at, more, err := x.writeCall(o.w, k, after, recordedLater, o.blobs)
	if err != nil {
		return err
	}
	o.after = append(o.after, more...)
	if !launch {
		return nil
	}
	e.Launch, o.launched = at, true
	how := api.SyncStream
	if x.stream == nil {
		how = api.SyncDevice
	}
	if x.found.failed {
		e.Alone = false // the program's own wait is to report the error
		return nil
	}
	if o.waited, err = x.wait(o.w, how, k.End+1); err != nil {
		return err
	}
	e.Alone = e.Alone && o.waited
	o.last = max(o.last, k.End+1+waitTime)
	return nil
}

// finish waits for tasks that the program has not waited for, and writes the data that was recorded later.
func (o *out) finish(e *Extracted) error {
	if o.x.open || !o.x.found.waited && !o.waited {
		if waits, err := o.x.wait(o.w, api.SyncDevice, o.last+1); err != nil {
			return err
		} else if !waits {
			return fmt.Errorf("%w: the program never waited for the launch", compile.ErrMissing)
		}
		for i := range o.after {
			if d := &o.after[i]; d.Call > e.Launch {
				d.Time = max(d.Time, o.last+2+waitTime) // seen after that wait
			}
		}
		o.last += 2 + waitTime
	}
	if err := o.linger(); err != nil {
		return err
	}
	for i := range o.after {
		if err := o.w.Data(&o.after[i]); err != nil {
			return err
		}
	}
	return nil
}

// waitTime is how long waits take that the program did not make.
const waitTime = 1000

// shifted returns a time in the extract, which has room for a wait before and after the launch.
func (x *extractor) shifted(t int64) int64 {
	if t >= x.launch.Start {
		t += waitTime + 1
	}
	if t > x.launch.End+waitTime+1 {
		t += waitTime + 1
	}
	return t
}

// wait adds a wait for the device or the launch's stream. It returns false if the model lacks such a call.
func (x *extractor) wait(w *format.Writer, how api.Sync, start int64) (bool, error) {
	args := []uint64{}
	if how == api.SyncStream {
		args = []uint64{x.m.StreamHandle(x.stream.Handle)}
	}
	f := x.m.Waiter(how)
	if f == nil || len(args) != int(f.Words) || x.r.Schema().Func(uint16(f.ID)) == nil {
		return false, nil
	}
	_, err := w.Call(&format.Call{Func: uint16(f.ID), Thread: x.launch.Thread, Start: start, End: start + waitTime, Args: args})
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
		} else if id, err = w.NamedLike(x.r, d.Blob); err != nil {
			return err
		}
		blobs[d.Blob] = id
	}
	d.Blob = id
	return nil
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
	p, err := compile.Trace(r, x.m, dir, &compile.Options{Backend: backend.New("", x.m), Limits: x.o.Limits, Progress: func(done, total int) { x.progress("calls compiled", done, total) }})
	if err != nil {
		return err
	}
	defer p.Close()
	var lacks []string
	for _, u := range p.Found.Unsupported {
		lacks = append(lacks, fmt.Sprintf("%s (%s): %s", u.Func, human.Plural(u.Calls, "call"), u.Reason))
	}
	for _, s := range p.Found.Substituted {
		lacks = append(lacks, fmt.Sprintf("%s, %s: %s: %s", s.Func, s.Param, human.Bytes(s.Bytes), s.Reason))
	}
	return lacking(lacks, x.r)
}
