// Package perfetto writes a trace as one that the Perfetto UI (ui.perfetto.dev) and its trace processor open: TrackEvent
// protobuf, which all of their releases since 2021 read.
//
// # What is shown
//
// A process has a track for each thread, with its calls and the ranges that the program has named, and below it a group
// for each device ("npu:0") with a track for each stream, arrows from each call to its task (or back, where the
// device's clock has it begin earlier: no arrow goes back in time), and counters: memory in use, the depth of each
// stream's queue, the rate of copies. Arguments are typed debug annotations; those that the runtime declares are named
// "arg.NAME", what acltrace knows has the names of package otelexport ("acl.stream"). In SQL a dot of a name is an
// underscore: 'debug.acl_stream'. A call that never returned lasts until the end of the recording and says
// acl.unfinished; calls that are missing are slices "calls lost".
//
// Tasks whose times were measured are on the track of their stream. The others are on a track of their own, named
// "stream 1 (bracketed)", in the category bracketed: such a slice is the time in which the task can have run, not how
// long it took. Since brackets of one stream overlap and Perfetto takes no overlapping slices on a track, they take
// several tracks of that one name, which the UI shows as one, at most scene.MaxRows; what overlaps deeper is a moment
// on "stream 1 (bracketed), earliest begin" with the end of its bracket as acl.not_after_ns.
//
// With Options.GPU tasks are what Perfetto v55 and newer know as the stages of a GPU, in queues instead of tracks ("GPU
// > Hardware Queues"), so that their own pages and tables for GPUs (gpu_slice in SQL) have them. Rows, names and
// arguments are the same; older releases draw no arrows to them.
//
// # Time
//
// Times are nanoseconds since the beginning of the recording, tied to the wall clock (and CLOCK_MONOTONIC) by a clock
// snapshot, so that the UI's ruler begins at 0 and its absolute times are right.
//
// # Size
//
// Packets are compressed with deflate, which every release reads. Zstd makes smaller files faster, which Perfetto reads
// from v58 on; an older one opens such a file without a word and shows nothing, so it has to be asked for. With
// Options.MaxSize the trace becomes several files, each whole in itself. A task is in the file that was begun when its
// end became known: where its call is in the one before, it has no arrow.
//
// Write only reads the trace and may be called from several goroutines. Its memory does not grow with the length of the
// trace (see timeline.Walk); compression runs on other cores.
package perfetto

import (
	"fmt"
	"io"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/format"
)

// MinSize is the least MaxSize, in bytes: room for the tracks of an ordinary recording.
const MinSize = 64 << 10

// Options change what is written; nil stands for the zero value.
type Options struct {
	// From and To are a window in nanoseconds since the beginning of the recording: what is not within is left out, what
	// begins or ends outside is drawn whole. To is 0 for no end.
	From, To int64
	// MaxSize bounds each file, in bytes; 0 for no bound.
	MaxSize  int64
	NoArgs   bool // leave out the arguments of calls
	Zstd     bool // compress by zstd instead of deflate
	GPU      bool // tasks as a GPU's render stages, for Perfetto v55 or newer
	Progress func(done, total int)
}

// Result says what was written.
type Result struct {
	scene.Drawn
	Files int
	Bytes int64 // of all files
}

// Write writes a trace as one file, whatever MaxSize says.
func Write(w io.Writer, r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	var one Options
	if o != nil {
		one = *o
	}
	one.MaxSize = 0
	return Files(func(int) (io.WriteCloser, error) { return nopCloser{w}, nil }, r, m, &one)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Files writes a trace as files of at most MaxSize, each of which create makes by its number, from 1. Behind an error the
// last file is not whole.
func Files(create func(part int) (io.WriteCloser, error), r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	w := &writer{meta: r.Meta(), create: create}
	if o != nil {
		w.o = *o
	}
	if w.o.MaxSize != 0 && w.o.MaxSize < MinSize {
		return nil, fmt.Errorf("files of %d bytes are too small for a trace: at least %d are needed", w.o.MaxSize, MinSize)
	}
	var err error
	if w.scene, err = scene.New(r, m, &scene.Options{From: w.o.From, To: w.o.To, NoArgs: w.o.NoArgs, Progress: w.o.Progress}); err != nil {
		return nil, err
	}
	err = w.begin()
	if err == nil {
		err = w.scene.Walk(w)
	}
	if err2 := w.end(); err == nil {
		err = err2
	}
	w.res.Drawn = w.scene.Drawn
	if err != nil {
		return &w.res, fmt.Errorf("write Perfetto trace: %w", err)
	}
	return &w.res, nil
}
