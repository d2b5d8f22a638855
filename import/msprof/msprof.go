// Package msprof converts a profile from Ascend's profilers to a trace, so that viewers and virtual-time replay
// (what-if) work on existing profiles. Command import calls Find to locate the profile in a folder, then Import.
//
// A profile from msprof or torch_npu is one database (msprof_*.db, ascend_pytorch_profiler_*.db), or a Chrome trace
// (trace_view.json, msprof_*.json), a kernel table (kernel_details.csv, op_summary_*.csv), or both. With both, the
// table adds block counts and shapes. Each file is read once, in pieces. Memory holds 64 bytes per row until all rows are sorted
// by time.
//
// A host call becomes a call with that name and no arguments, because profiles have none. One that is a phase of an operator (aclnnAdd) also gets
// the marks that a recorder puts around it. A framework's operator or Python frame becomes an mstx range on its thread. A device task becomes a
// measured task. Its call is an instantaneous aclrtLaunchKernelWithHostArgs, aclrtMemcpyAsync, aclrtRecordEvent or
// aclrtStreamWaitEvent at the start of the connected host call and inside it. A task without a connection gets its call
// when it begins, on a thread named after its stream. Addresses are null, except a copy's device address, which is the
// lowest device address. The package never invents payloads, arguments or results. Imported traces replay only in
// virtual time.
package msprof

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/internal/events"
	"github.com/acltrace/acltrace/internal/schema"
	steps "github.com/acltrace/acltrace/timeline/step"
)

// A Profile is one profile's files.
type Profile struct {
	Trace    string // Chrome trace, "" if none
	Kernels  string // kernel table, "" if none
	Database string // "" if none; excludes the others
}

// String names the profile in errors and traces.
func (p *Profile) String() string { return cmp.Or(p.Trace, p.Kernels, p.Database) }

var (
	traceFile = regexp.MustCompile(`^(.*)(trace_view|msprof_[0-9]+)\.json$`)
	// databaseFile matches databases with a whole profile. Others beside them hold parts.
	databaseFile = regexp.MustCompile(`^(ascend_pytorch_profiler(_[0-9]+)?|ascend_mindspore_profiler(_[0-9]+)?|msprof_[0-9]+)\.db$`)
	kernelsFile  = regexp.MustCompile(`^(.*)(kernel_details|op_summary(_[0-9]+)*)\.csv$`)
)

// Find returns the only profile in a folder, or the profile that a file belongs to.
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
			return nil, events.Compressed(path)
		}
		return nil, fmt.Errorf("%s: no profile that can be read: give a trace_view.json, an msprof_*.json, a kernel_details.csv, an op_summary_*.csv, an msprof_*.db or an ascend_pytorch_profiler_*.db, or their folder", path)
	}
	found := map[string]*Profile{}
	var problem error
	databases := map[bool][]string{} // true: from a framework's profiler; false: from msprof below it
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

// Report counts the imported rows and the rows left out.
type Report struct {
	Calls       int // host calls
	Kernels     int // among the tasks
	Copies      int // among the tasks
	Tasks       int // device tasks
	Collectives int // among the kernels: HCCL operations
	Steps       int
	Operators   int            // of the framework, with frames of Python
	Marks       int            // ranges and moments of mstx
	Shapes      int            // kernels with the shapes of their tensors
	Untied      int            // tasks without a connected call
	Left        map[string]int // rows without a place in a trace, by kind: "row of Python"
}

// kind is a row's kind.
type kind uint8

const (
	hostCall kind = iota
	kernel
	copying
	recording
	waiting
	step
	ranged // by a framework
	marked // by the program, with mstx
	stepEnd
	rangedEnd
	markedEnd
	operatorEnd
)

// ends reports whether rows of a kind are the end of another row.
func (k kind) ends() bool { return k >= stepEnd }

// row is a call, a task or a step.
type row struct {
	start, dur int64 // nanoseconds since 1970 UTC, and duration
	conn       int64 // connects a task to its call, or the end of a range to its begin; -1 if none
	bytes      uint64
	name       uint32 // index in importer.names
	lane       uint32 // index in importer.lanes: a call's thread or a task's stream
	task       uint32
	blocks     uint32
	shape      uint32 // index in importer.shapes, 0 if unknown
	kind       kind
	node       bool // a call that only launches
	known      bool // task is set
	instant    bool // the end of a row without a duration
	direction  uint8
}

// lane is a host thread or a device stream.
type lane struct {
	process int64 // number in the profile
	id      int64
	name    string // if there is no id
}

type importer struct {
	m       *api.Model
	rep     Report
	rows    []row
	names   []string
	byName  map[string]uint32
	lanes   []lane
	byLane  map[lane]uint32
	shapes  []opinfo.Info
	kinds   []string // by shape: type of the kernel if it is in no release
	byShape map[string]uint32
	pid     int // program's pid, 0 if unknown
}

func newImporter(m *api.Model) *importer {
	return &importer{m: m, rep: Report{Left: map[string]int{}}, byName: map[string]uint32{}, byLane: map[lane]uint32{}, shapes: make([]opinfo.Info, 1), kinds: make([]string, 1), byShape: map[string]uint32{}}
}

// Runtime is the runtime that msprof profiles.
const Runtime = "acl"

// Import writes a profile as a trace to output.
func Import(p *Profile, m *api.Model, output string) (*Report, error) {
	im := newImporter(m)
	if err := reading(p.Trace, func(f io.Reader) error { return im.trace(p.Trace, f) }); err != nil {
		return nil, err
	}
	if err := reading(p.Kernels, func(f io.Reader) error { return im.kernels(p.Kernels, f, im.rep.Tasks > 0) }); err != nil {
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

// reading opens a file for read, unless path is "".
func reading(path string, read func(io.Reader) error) error {
	if path == "" {
		return nil
	}
	f, err := events.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
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
	case ranged:
		im.rep.Operators++
	case marked:
		im.rep.Marks++
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

// ends adds the ends of ranges and of operators.
func (im *importer) ends() {
	for i := range im.rows {
		r := &im.rows[i]
		end := *r
		switch {
		case r.kind == step:
			r.lane = im.lane(lane{name: "steps"})
			end.kind, end.lane = stepEnd, r.lane
		case r.kind == ranged:
			end.kind = rangedEnd
		case r.kind == marked:
			end.kind = markedEnd
		case r.kind == hostCall && im.operator(r) != "":
			end.kind = operatorEnd
		default:
			continue
		}
		if r.kind != hostCall {
			r.conn = int64(i) // a range is identified by its row's index
		}
		end.conn, end.start, end.dur, end.instant = int64(i), r.start+r.dur, 0, r.dur == 0
		im.rows = append(im.rows, end)
	}
}

// rank orders rows at one moment: ends, begins, ends of what had no duration.
func (r *row) rank() int {
	switch {
	case !r.kind.ends():
		return 1
	case r.instant:
		return 2
	}
	return 0
}

// operator returns the operator of which a call is a phase, "" for none.
func (im *importer) operator(r *row) string {
	_, name, _ := strings.Cut(im.names[r.name], "@")
	if !strings.HasPrefix(name, "aclnn") {
		return ""
	}
	return name
}

// firstOwn is the first function id for calls that only the profile has. The model's ids are far below.
const firstOwn = 50000

// handle returns a made-up handle for a stream, function or range. No runtime uses these values.
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
	own     map[uint32]uint16 // ids for profile-only functions, by name
	open    map[uint32]int    // by lane: phases of operators that it is in
	domain  bool              // of the framework's ranges has been made
	process uint32
}

func (im *importer) write(p *Profile, output string) error {
	im.ends()
	slices.SortStableFunc(im.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.dur, a.dur))
	})
	end := im.rows[0].start
	calls := map[int64]int{} // by connection
	schema := schema.Of(im.m)
	own := map[uint32]uint16{} // ids by function name
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
	w := &writer{importer: im, w: fw, first: first, threads: map[uint32]uint32{}, own: own, open: map[uint32]int{}}
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

// all writes the rows: kernel names at the profile's start, then events by time.
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
		c.Args[f.Params[n].Word] = 1 // the name is present
		c.Data = []format.Data{{Param: uint8(n), Len: uint64(len(w.names[r.name])), Bytes: []byte(w.names[r.name])}}
		c.Outs = []format.Out{{Param: uint8(f.Param("funcHandle")), Value: handle(functions, r.name)}}
		if _, err := w.w.Call(&c); err != nil {
			return err
		}
	}
	// A connected task is written with its call.
	tied := map[int][]int{}
	var untied uint32
	for i := range w.rows {
		r := &w.rows[i]
		if r.kind == hostCall || r.kind >= step {
			continue // no task
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
			if err := w.phase(r); err != nil {
				return err
			}
			c := format.Call{Func: w.own[r.name], Thread: t, Start: r.start - w.first, End: r.start - w.first + r.dur}
			if _, err := w.w.Call(&c); err != nil {
				return err
			}
			for _, k := range tied[i] {
				if err := w.made(r.lane, r.start, &w.rows[k]); err != nil {
					return err
				}
			}
		case r.kind == operatorEnd:
			w.open[r.lane]--
			if err := w.mark(endMark, r.lane, r.start, "", "", 0, nil); err != nil {
				return err
			}
		case r.kind >= step:
			if err := w.ranged(r); err != nil {
				return err
			}
		case r.conn < 0 || !has(calls, r.conn):
			if err := w.made(untied, r.start, r); err != nil {
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

// made writes a device task with its call, and what belongs to it.
func (w *writer) made(on uint32, at int64, r *row) error {
	if r.kind == kernel {
		return w.launched(on, at, r)
	}
	return w.task(on, at, r)
}

// task writes a device task and the call that made it.
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
		if r.direction&1 != 0 { // host to device, or device to device
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

// aclrtMemcpyKind values. An odd one copies to the device; 2 and 3 copy from it.
const (
	hostToHost     = 0
	hostToDevice   = 1
	deviceToHost   = 2
	deviceToDevice = 3
)

// ranged writes the begin or the end of a range, as a program would mark it. Those of the framework have a domain of their own.
func (w *writer) ranged(r *row) error {
	id, at := handle(ranges, uint32(r.conn)), r.start
	switch r.kind {
	case step, marked:
		return w.mark("mstxRangeStartA", r.lane, at, "message", w.names[r.name], id, nil)
	case stepEnd, markedEnd:
		return w.mark("mstxRangeEnd", r.lane, at, "", "", 0, map[string]uint64{"id": id})
	case rangedEnd:
		return w.mark("mstxDomainRangeEnd", r.lane, at, "", "", 0, map[string]uint64{"domain": frameworkDomain, "id": id})
	}
	if !w.domain {
		w.domain = true
		if err := w.mark("mstxDomainCreateA", r.lane, at, "name", frameworkName, frameworkDomain, nil); err != nil {
			return err
		}
	}
	return w.mark("mstxDomainRangeStartA", r.lane, at, "message", w.names[r.name], id, map[string]uint64{"domain": frameworkDomain})
}

// frameworkDomain is the domain of the framework's ranges, and frameworkName its name.
const (
	frameworkDomain = 0x746f7263 << 32
	frameworkName   = steps.Framework
)

// endMark ends the phase of an operator.
const endMark = "OpDfxGuardEnd"

// phase writes the mark that begins the phase of an operator, if the call is one.
func (w *writer) phase(r *row) error {
	name := w.operator(r)
	if name == "" {
		return nil
	}
	w.open[r.lane]++
	mark := "InitL2Phase2Context"
	if operator, one := strings.CutSuffix(name, "GetWorkspaceSize"); one {
		mark, name = "InitL2Phase1Context", operator
	}
	return w.mark(mark, r.lane, r.start, "name", name, 0, nil)
}

// launched writes a kernel's launch with what the profile says about it: its operator, if no call is a phase of it, and its tensors.
func (w *writer) launched(on uint32, at int64, r *row) error {
	operator, _, _ := strings.Cut(w.names[r.name], "_")
	alone := w.open[on] == 0 && strings.HasPrefix(operator, "aclnn")
	if alone {
		if err := w.mark("InitL2Phase2Context", on, at, "name", operator, 0, nil); err != nil {
			return err
		}
	}
	if kind := w.kinds[r.shape]; kind != "" { // else nobody knows the type from its hash
		if err := w.mark("InitL0Context", on, at, "name", kind, 0, nil); err != nil {
			return err
		}
	}
	if err := w.task(on, at, r); err != nil {
		return err
	}
	if r.shape > 0 {
		b := w.shapes[r.shape].Encode()
		if err := w.mark("aclrtCacheLastTaskOpInfo", on, at, "infoPtr", string(b), 0, map[string]uint64{"infoSize": uint64(len(b))}); err != nil {
			return err
		}
	}
	ends := 0
	if w.kinds[r.shape] != "" {
		ends++
	}
	if alone {
		ends++
	}
	for range ends {
		if err := w.mark(endMark, on, at, "", "", 0, nil); err != nil {
			return err
		}
	}
	return nil
}

// mark writes an instantaneous call that the program did not make, with a text or other memory, and further arguments.
func (w *writer) mark(name string, on uint32, at int64, param, content string, ret uint64, values map[string]uint64) error {
	t, err := w.thread(on)
	if err != nil {
		return err
	}
	f := w.m.Lookup(name)
	c := format.Call{Func: uint16(f.ID), Thread: t, Start: at - w.first, End: at - w.first, Flags: format.Profiled, Args: make([]uint64, f.Words), Ret: ret}
	for name, v := range values {
		c.Args[f.Params[f.Param(name)].Word] = v
	}
	if param != "" {
		n := f.Param(param)
		c.Args[f.Params[n].Word] = 1 // the memory is present
		c.Data = []format.Data{{Param: uint8(n), Len: uint64(len(content)), Bytes: []byte(content), Time: c.Start}}
	}
	_, err = w.w.Call(&c)
	return err
}
