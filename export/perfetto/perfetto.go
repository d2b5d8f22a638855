// Package perfetto writes a trace for the Perfetto UI (ui.perfetto.dev) and its trace processor, as TrackEvent protobuf that
// all releases since 2021 read. Command export perfetto calls Write, or Files if there is a MaxSize.
//
// # Contents
//
// Each process has a track per thread with calls and the program's ranges. Below is a group per device ("npu:0") with a
// track per stream. Arrows lead from calls to tasks, or back if the device clock has the task begin first: no arrow goes
// back in time. Counters show memory in use, queue depth per stream and copy rates. Arguments are typed debug annotations:
// "arg.NAME" for declared parameters, else package otelexport's names ("acl.stream"). SQL replaces dots by underscores:
// 'debug.acl_stream'. A call that never returned lasts until the recording ends and has acl.unfinished. Lost calls are
// slices "calls lost".
//
// Measured tasks are on their stream's track. Other tasks are on a track named "stream 1 (bracketed)", in category
// bracketed: a slice is no duration. It begins at the earliest possible begin, and ends at that of the next task, or at its
// own latest possible end, which is acl.not_after_ns.
//
// With Options.GPU, tasks are GPU render stages for Perfetto v55 or newer, in queues instead of tracks ("GPU > Hardware
// Queues"). They then appear on the GPU pages and in table gpu_slice. Rows, names and arguments are the same. Older releases
// draw no arrows to them.
//
// # Time
//
// Times are nanoseconds since the recording began. A clock snapshot ties them to the wall clock and CLOCK_MONOTONIC, so the
// UI's ruler begins at 0 and its absolute times are right.
//
// # Size
//
// Packets are compressed with deflate, which every release reads. Options.Zstd makes smaller files faster, for Perfetto v58
// or newer; older releases silently show nothing. Options.MaxSize splits the trace into files that are complete in
// themselves. A task is in the file that was current when its end became known. If its call is in the previous file, it has
// no arrow.
//
// Write and Files only read the trace and may run concurrently with separate readers. Their memory does not grow with the
// trace (see timeline.Walk). Compression runs on other cores.
package perfetto

import (
	"fmt"
	"io"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// MinSize is the smallest MaxSize, in bytes. It fits the tracks of an ordinary recording.
const MinSize = 64 << 10

// Options configure Write and Files; nil means the zero value.
type Options struct {
	// Select chooses the calls, and their tasks. From and To apply to tasks by their own times. Events that overlap the
	// window are drawn whole.
	Select *timeline.Selection
	// MaxSize limits each file, in bytes; 0 for no limit.
	MaxSize  int64
	NoArgs   bool // leave out call arguments
	Zstd     bool // compress with zstd instead of deflate
	GPU      bool // tasks as GPU render stages, for Perfetto v55 or newer
	Progress func(done, total int)
}

// Result reports the events and files written.
type Result struct {
	scene.Drawn
	Files int
	Bytes int64 // in all files
}

// Write writes a trace as one file. It ignores MaxSize.
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

// Files writes a trace as files of at most MaxSize. create opens each by number, from 1. After an error the last file is
// incomplete.
func Files(create func(part int) (io.WriteCloser, error), r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	w := &writer{meta: r.Meta(), create: create}
	if o != nil {
		w.o = *o
	}
	if w.o.MaxSize != 0 && w.o.MaxSize < MinSize {
		return nil, fmt.Errorf("files of %d bytes are too small for a trace: at least %d are needed", w.o.MaxSize, MinSize)
	}
	var err error
	if w.scene, err = scene.New(r, m, &scene.Options{Select: w.o.Select, NoArgs: w.o.NoArgs, Progress: w.o.Progress}); err != nil {
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
