// Package msprof makes a trace of what Ascend's profiler has written, so that every viewer and the what-if of a replay in virtual time
// work on profiles that users already have. Find says which profiles a folder holds, Import makes the trace of one.
//
// A profile is what msprof and the profiler of torch_npu write: a Chrome trace (trace_view.json, msprof_*.json), a
// table of kernels (kernel_details.csv, op_summary_*.csv), or both, where the table tells the block dims; or a database
// (msprof_*.db, ascend_pytorch_profiler_*.db). Sizes of reading: a file is read once, piece by piece; 64 bytes a row
// are held until all rows are sorted by time.
//
// What becomes of it: a call of the host is a call of the same name, without arguments, which a profile does not have.
// A task of the device is a task, measured, of a call of aclrtLaunchKernelWithHostArgs, aclrtMemcpyAsync,
// aclrtRecordEvent or aclrtStreamWaitEvent that takes no time: at the beginning of the call that the profile ties to
// the task, and within it; where it is tied to none, the moment when the task began, on a thread of its own name.
// Addresses are not known and null, but for the device's side of a copy, which is the lowest address of devices. No
// payload, argument or result is made up, and nothing can be replayed but in virtual time.
package msprof

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/internal/schema"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/regular"
)

// A Profile is the files of one profile.
type Profile struct {
	Trace    string // Chrome trace, "" for none
	Kernels  string // table, "" for none
	Database string // "" for none: then there is nothing else
}

// String is how errors and traces call the profile.
func (p *Profile) String() string { return cmp.Or(p.Trace, p.Kernels, p.Database) }

var (
	traceFile = regexp.MustCompile(`^(.*)(trace_view|msprof_[0-9]+)\.json$`)
	// databaseFile may hold a whole profile. There are others beside it, of parts.
	databaseFile = regexp.MustCompile(`^(ascend_pytorch_profiler(_[0-9]+)?|ascend_mindspore_profiler(_[0-9]+)?|msprof_[0-9]+)\.db$`)
	kernelsFile  = regexp.MustCompile(`^(.*)(kernel_details|op_summary(_[0-9]+)*)\.csv$`)
)

// Find returns the one profile that a folder holds, or that a file belongs to.
func Find(path string) (*Profile, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		switch {
		case strings.HasSuffix(path, ".json"):
			return &Profile{Trace: path}, nil
		case strings.HasSuffix(path, ".csv"):
			return &Profile{Kernels: path}, nil
		case strings.HasSuffix(path, ".db"):
			return &Profile{Database: path}, nil
		case strings.HasSuffix(path, ".gz"):
			return nil, compressed(path)
		}
		return nil, fmt.Errorf("%s: no profile that can be read: give a trace_view.json, an msprof_*.json, a kernel_details.csv, an op_summary_*.csv, an msprof_*.db or an ascend_pytorch_profiler_*.db, or their folder", path)
	}
	found := map[string]*Profile{}
	var problem error
	databases := map[bool][]string{} // of a framework's profiler, or of msprof below it
	err = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if databaseFile.MatchString(filepath.Base(p)) {
			framework := !strings.HasPrefix(filepath.Base(p), "msprof")
			databases[framework] = append(databases[framework], p)
		}
		for i, re := range []*regexp.Regexp{traceFile, kernelsFile} {
			m := re.FindStringSubmatch(filepath.Base(p))
			if m == nil {
				continue
			}
			key := filepath.Join(filepath.Dir(p), m[1])
			if found[key] == nil {
				found[key] = &Profile{}
			}
			f := [...]*string{&found[key].Trace, &found[key].Kernels}[i]
			if *f != "" {
				problem = fmt.Errorf("%s and %s: two profiles in one folder: name the file to import", *f, p)
			}
			*f = p
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		for _, framework := range []bool{true, false} {
			for _, p := range databases[framework] {
				found[p] = &Profile{Database: p}
			}
			if len(found) > 0 {
				break
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no profile in it: the profiler of torch_npu writes trace_view.json and kernel_details.csv, or ascend_pytorch_profiler_*.db, into ASCEND_PROFILER_OUTPUT, and msprof writes msprof_*.json and op_summary_*.csv, or msprof_*.db (`msprof --export=on`)", path)
	}
	if len(found) > 1 {
		var names []string
		for _, p := range found {
			names = append(names, p.String())
		}
		slices.Sort(names)
		return nil, fmt.Errorf("%s: %d profiles: name one of %s", path, len(names), strings.Join(names, ", "))
	}
	for _, p := range found {
		return p, problem
	}
	return nil, nil
}

// Report says what was imported, and what a profile has beside it.
type Report struct {
	Calls       int            // of the host
	Kernels     int            // among the tasks
	Copies      int            // among the tasks
	Tasks       int            // of the device
	Collectives int            // among the kernels: operations of HCCL
	Steps       int            //
	Untied      int            // tasks whose call the profile does not tell
	Left        map[string]int // rows that a trace has no place for, by what they are
}

// kind is what a row is.
type kind uint8

const (
	hostCall kind = iota
	kernel
	copying
	recording
	waiting
	step
	stepEnd
)

// row is a call, a task or a step.
type row struct {
	start, dur int64 // nanoseconds since 1970 UTC, and long
	conn       int64 // ties a task to its call; -1 for none
	bytes      uint64
	name       uint32 // in importer.names
	lane       uint32 // thread of a call, stream of a task: in importer.lanes
	task       uint32
	blocks     uint32
	kind       kind
	node       bool // a call that does nothing but launch
	known      bool // task is known
	direction  uint8
}

// lane is a thread of the host or a stream of a device.
type lane struct {
	process int64 // as the profile numbers it
	id      int64
	name    string // of what has no id
}

type importer struct {
	m      *api.Model
	rep    Report
	rows   []row
	names  []string
	byName map[string]uint32
	lanes  []lane
	byLane map[lane]uint32
	pid    int // of the program, 0 where it is not known
}

func newImporter(m *api.Model) *importer {
	return &importer{m: m, rep: Report{Left: map[string]int{}}, byName: map[string]uint32{}, byLane: map[lane]uint32{}}
}

// Runtime is the name of the runtime that msprof profiles.
const Runtime = "acl"

// Import makes a trace of a profile.
func Import(p *Profile, m *api.Model, output string) (*Report, error) {
	im := newImporter(m)
	if err := reading(p.Trace, func(f io.Reader) error { return im.trace(p.Trace, f) }); err != nil {
		return nil, err
	}
	if err := reading(p.Kernels, func(f io.Reader) error { return im.kernels(p.Kernels, f, p.Trace != "") }); err != nil {
		return nil, err
	}
	if p.Database != "" {
		if err := im.database(p.Database); err != nil {
			return nil, err
		}
	}
	if len(im.rows) == 0 {
		return nil, fmt.Errorf("%s: no call and no task in it: was the profiler asked for the device's side (level1 or higher)?", p)
	}
	if err := im.write(p, output); err != nil {
		return nil, err
	}
	return &im.rep, nil
}

// reading has a file read, where there is one.
func reading(path string, read func(io.Reader) error) error {
	if path == "" {
		return nil
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}

// open opens a file of a profile. Compressed ones are refused: nothing says how much would come out.
func open(path string) (*os.File, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	head := make([]byte, 2)
	if _, err := f.ReadAt(head, 0); err == nil && string(head) == "\x1f\x8b" {
		f.Close()
		return nil, compressed(path)
	}
	return f, nil
}

func compressed(path string) error {
	return fmt.Errorf("%s:1:1: it is compressed by gzip: unpack it first, as by gunzip", path)
}

func (im *importer) name(s string) uint32 {
	i, ok := im.byName[s]
	if !ok {
		i = uint32(len(im.names))
		s = strings.Clone(s)
		im.byName[s], im.names = i, append(im.names, s)
	}
	return i
}

func (im *importer) lane(l lane) uint32 {
	i, ok := im.byLane[l]
	if !ok {
		i = uint32(len(im.lanes))
		im.byLane[l], im.lanes = i, append(im.lanes, l)
	}
	return i
}

func (im *importer) add(r *row) {
	im.rows = append(im.rows, *r)
	switch r.kind {
	case hostCall:
		im.rep.Calls++
	case step:
		im.rep.Steps++
	default:
		im.rep.Tasks++
		switch r.kind {
		case kernel:
			im.rep.Kernels++
		case copying:
			im.rep.Copies++
		}
	}
}

// firstOwn is the first number of the functions that are calls of a profile alone: those of the model are far below.
const firstOwn = 50000

// handle is that of a stream, function or range, which a profile does not tell: a number that no runtime gives.
func handle(class, i uint32) uint64 { return uint64(class)<<32 | uint64(i+1) }

const (
	streams   = 0x5354
	functions = 0x464e
	ranges    = 0x5247
)

type writer struct {
	*importer
	w       *format.Writer
	first   int64
	threads map[uint32]uint32 // by lane
	own     map[uint32]uint16 // functions of calls, by name
	process uint32
}

func (im *importer) write(p *Profile, output string) error {
	for i, r := range im.rows {
		if r.kind == step {
			r.kind, r.start, r.dur, r.lane = stepEnd, r.start+r.dur, 0, uint32(i)
			im.rows[i].lane = uint32(i) // a range is known by its number
			im.rows = append(im.rows, r)
		}
	}
	slices.SortStableFunc(im.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.dur, a.dur))
	})
	end := im.rows[0].start
	calls := map[int64]int{} // by connection
	schema := schema.Of(im.m)
	own := map[uint32]uint16{} // functions, by name
	for i := range im.rows {
		r := &im.rows[i]
		end = max(end, r.start+r.dur)
		if r.kind != hostCall {
			continue
		}
		if r.conn >= 0 {
			if was, ok := calls[r.conn]; !ok || r.node && !im.rows[was].node {
				calls[r.conn] = i
			}
		}
		if own[r.name] == 0 {
			id := firstOwn + len(own)
			if id > 0xffff {
				return fmt.Errorf("%s: more than %d names of calls", p, 0x10000-firstOwn)
			}
			own[r.name] = uint16(id)
			schema.Functions = append(schema.Functions, format.Function{ID: uint16(id), Name: im.names[r.name], Ret: "void"})
		}
	}
	first := im.rows[0].start
	meta := &format.Meta{API: im.m.Name, CapturedBy: "msprof", Argv: []string{"msprof", filepath.Base(p.String())}, StartWall: first, EndNS: end - first, Payloads: format.Payloads{PayloadLevel: "none"}}
	fw, err := format.Create(output, meta, schema, &format.WriterOptions{Whole: true})
	if err != nil {
		return err
	}
	w := &writer{importer: im, w: fw, first: first, threads: map[uint32]uint32{}, own: own}
	if w.process, err = fw.Process(format.Process{PID: im.pid}); err == nil {
		err = w.all(calls)
	}
	if err == nil {
		err = fw.SetMeta(meta)
	}
	if err != nil {
		return errors.Join(err, fw.Abort())
	}
	return fw.Close()
}

func (w *writer) thread(l uint32) (uint32, error) {
	t, ok := w.threads[l]
	if !ok {
		var err error
		if t, err = w.w.Thread(format.Thread{Process: w.process, TID: int(w.lanes[l].id), Name: w.lanes[l].name}); err != nil {
			return 0, err
		}
		w.threads[l] = t
	}
	return t, nil
}

// all writes the rows: first the names of the kernels, at the moment when the profile begins, then what happened.
func (w *writer) all(calls map[int64]int) error {
	names, err := w.thread(w.lane(lane{name: "names of kernels"}))
	if err != nil {
		return err
	}
	f := w.m.Lookup("aclrtBinaryGetFunction")
	named := make([]bool, len(w.names))
	for i := range w.rows {
		r := &w.rows[i]
		if r.kind != kernel || named[r.name] {
			continue
		}
		named[r.name] = true
		c := format.Call{Func: uint16(f.ID), Thread: names, Args: make([]uint64, f.Words)}
		n := f.Param("kernelName")
		c.Args[f.Params[n].Word] = 1 // there is a name
		c.Data = []format.Data{{Param: uint8(n), Len: uint64(len(w.names[r.name])), Bytes: []byte(w.names[r.name])}}
		c.Outs = []format.Out{{Param: uint8(f.Param("funcHandle")), Value: handle(functions, r.name)}}
		if _, err := w.w.Call(&c); err != nil {
			return err
		}
	}
	// A task is written with the call that the profile ties to it.
	tied := map[int][]int{}
	var untied uint32
	for i := range w.rows {
		r := &w.rows[i]
		if r.kind == hostCall || r.kind >= step {
			continue
		}
		if at, ok := calls[r.conn]; ok && r.conn >= 0 {
			tied[at] = append(tied[at], i)
		} else {
			w.rep.Untied++
			untied = w.lane(lane{name: "calls that the profile does not tell"})
		}
	}
	for i := range w.rows {
		r := &w.rows[i]
		switch {
		case r.kind == hostCall:
			t, err := w.thread(r.lane)
			if err != nil {
				return err
			}
			c := format.Call{Func: w.own[r.name], Thread: t, Start: r.start - w.first, End: r.start - w.first + r.dur}
			if _, err := w.w.Call(&c); err != nil {
				return err
			}
			for _, k := range tied[i] {
				if err := w.task(r.lane, r.start, &w.rows[k]); err != nil {
					return err
				}
			}
		case r.kind >= step:
			if err := w.step(r); err != nil {
				return err
			}
		case r.conn < 0 || !has(calls, r.conn):
			if err := w.task(untied, r.start, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func has(m map[int64]int, k int64) bool {
	_, ok := m[k]
	return ok
}

// task writes a task of the device with the call that made it.
func (w *writer) task(thread uint32, at int64, r *row) error {
	t, err := w.thread(thread)
	if err != nil {
		return err
	}
	f := w.m.Lookup([...]string{kernel: "aclrtLaunchKernelWithHostArgs", copying: "aclrtMemcpyAsync", recording: "aclrtRecordEvent", waiting: "aclrtStreamWaitEvent"}[r.kind])
	c := format.Call{Func: uint16(f.ID), Thread: t, Start: at - w.first, End: at - w.first, Args: make([]uint64, f.Words)}
	set := func(param string, v uint64) { c.Args[f.Params[f.Param(param)].Word] = v }
	c.Args[f.Params[f.Stream].Word] = handle(streams, r.lane)
	switch r.kind {
	case kernel:
		set("funcHandle", handle(functions, r.name))
		set("numBlocks", uint64(r.blocks))
	case copying:
		set("destMax", r.bytes)
		set("count", r.bytes)
		set("kind", uint64(r.direction))
		if r.direction&1 != 0 { // to the device
			set("dst", w.m.Device.From)
		}
		if r.direction >= deviceToHost {
			set("src", w.m.Device.From)
		}
	}
	c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(r.start - w.first)}, format.Out{Param: api.TaskEndParam, Value: uint64(r.start - w.first + r.dur)})
	if r.known {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskParam, Value: uint64(w.lanes[r.lane].id)<<32 | uint64(r.task)})
	}
	_, err = w.w.Call(&c)
	return err
}

// Values of aclrtMemcpyKind: an odd one goes to the device, 2 and 3 come from it.
const (
	hostToHost     = 0
	hostToDevice   = 1
	deviceToHost   = 2
	deviceToDevice = 3
)

// step writes the beginning or the end of a step, as the program would have marked it.
func (w *writer) step(r *row) error {
	t, err := w.thread(w.importer.lane(lane{name: "steps"}))
	if err != nil {
		return err
	}
	f := w.m.Lookup("mstxRangeEnd")
	if r.kind == step {
		f = w.m.Lookup("mstxRangeStartA")
	}
	c := format.Call{Func: uint16(f.ID), Thread: t, Start: r.start - w.first, End: r.start - w.first, Args: make([]uint64, f.Words)}
	if r.kind == step {
		name, n := w.names[r.name], f.Param("message")
		c.Ret = handle(ranges, r.lane)
		c.Args[f.Params[n].Word] = 1
		c.Data = []format.Data{{Param: uint8(n), Len: uint64(len(name)), Bytes: []byte(name)}}
	} else {
		c.Args[0] = handle(ranges, r.lane)
	}
	_, err = w.w.Call(&c)
	return err
}
