package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
)

// Handles and addresses in the traces.
const (
	deviceAt = 0x124000000000
	hostAt   = 0x7f0000000000
	streamAt = 0x1000
	eventAt  = 0x3000
	binaryAt = 0x5000
	kernelAt = 0x6000
	graphAt  = 0x7000
	outAt    = 0x7ffd00000000 // on the program's stack, for stored values
)

// nasty contains characters that must not reach a terminal, a shell, HTML or JSON unescaped.
const nasty = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07<script>alert(1)</script>\n\rfake line\x00\xff\xfe\u202e\"'`${x}"

// A hostileTrace is a well-formed trace.
type hostileTrace struct {
	Name  string
	model *api.Model
	meta  format.Meta
	fill  func(*hostileWriter)
}

// Write makes the trace in a folder. It returns the path and the number of calls.
func (t *hostileTrace) Write(dir string) (path string, calls uint64, err error) {
	meta := t.meta
	meta.API, meta.Simulated, meta.Replayable, meta.PayloadLevel, meta.Policy = t.model.Name, true, true, "full", "block"
	if meta.Argv == nil {
		meta.Argv = []string{"program"}
	}
	if meta.CapturedBy == "" {
		meta.CapturedBy = "shim"
	}
	path = filepath.Join(dir, t.Name+".aclt")
	f, err := format.Create(path, &meta, schema.Of(t.model), nil)
	if err != nil {
		return "", 0, err
	}
	w := &hostileWriter{Writer: f, model: t.model, now: 1000}
	w.thread(w.process(100, 0), 100)
	t.fill(w)
	if w.err != nil {
		_ = f.Abort()
		return "", 0, fmt.Errorf("%s: %w", t.Name, w.err)
	}
	return path, w.calls, f.Close()
}

// hostileWriter adds a call every 200 ns, each 100 ns long. After an error it does nothing.
type hostileWriter struct {
	*format.Writer
	model *api.Model
	now   int64
	on    uint32 // thread
	calls uint64
	err   error
}

func (w *hostileWriter) note(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *hostileWriter) process(pid, parent int) uint32 {
	p, err := w.Process(format.Process{PID: pid, PPID: parent, Exe: "/x", Argv: []string{"x"}})
	w.note(err)
	return p
}

// thread starts a new thread for the following calls.
func (w *hostileWriter) thread(process uint32, tid int) {
	var err error
	w.on, err = w.Thread(format.Thread{Process: process, TID: tid})
	w.note(err)
}

func (w *hostileWriter) add(c *format.Call) {
	if w.err != nil {
		return
	}
	c.Thread = w.on
	_, err := w.Call(c)
	w.note(err)
	w.calls++
}

// call adds a call to a function. Missing words are 0.
func (w *hostileWriter) call(name string, args []uint64, outs []format.Out, data ...format.Data) {
	f := w.model.Lookup(name)
	if f == nil {
		w.note(fmt.Errorf("%s is not in the model", name))
		return
	}
	hostileWords := make([]uint64, f.Words)
	copy(hostileWords, args)
	w.add(&format.Call{Func: uint16(f.ID), Start: w.now, End: w.now + 100, Args: hostileWords, Outs: outs, Data: data})
	w.now += 200
}

func in(param uint8, content string) format.Data {
	return format.Data{Param: param, Dir: format.DirIn, Addr: outAt, Len: uint64(len(content)), Bytes: []byte(content)}
}

func made(param uint8, handle uint64) []format.Out {
	return []format.Out{{Param: param, Value: handle}}
}

func (w *hostileWriter) begin() {
	w.call("aclInit", nil, nil)
	w.call("aclrtSetDevice", nil, nil)
}

func (w *hostileWriter) malloc(at, size uint64) {
	w.call("aclrtMalloc", []uint64{outAt, size}, made(0, at))
}

func (w *hostileWriter) stream(handle uint64) {
	w.call("aclrtCreateStream", []uint64{outAt}, made(0, handle))
}

func (w *hostileWriter) synchronize() { w.call("aclrtSynchronizeStream", []uint64{streamAt}, nil) }

// load adds the calls that load a kernel.
func (w *hostileWriter) load(file, name string) {
	w.call("aclrtBinaryLoadFromFile", []uint64{1, 0, outAt}, made(2, binaryAt), in(0, file))
	w.call("aclrtBinaryGetFunction", []uint64{binaryAt, 1, outAt}, made(2, kernelAt), in(1, name))
}

// capture captures the calls that fill adds into a graph.
func (w *hostileWriter) capture(handle uint64, fill func()) {
	w.call("aclmdlRICaptureBegin", []uint64{streamAt, 2}, nil)
	fill()
	w.call("aclmdlRICaptureEnd", []uint64{streamAt, outAt}, made(1, handle))
}

func (w *hostileWriter) fillAsync() {
	w.call("aclrtMemsetAsync", []uint64{deviceAt, 4096, 0, 4096, streamAt}, nil)
}

func (w *hostileWriter) execute(handle uint64) {
	w.call("aclmdlRIExecuteAsync", []uint64{handle, streamAt}, nil)
}

// hostileTraces lists the traces. Traces about many objects have many of them: a million once took hours.
func hostileTraces(many int) []hostileTrace {
	var ts []hostileTrace
	add := func(name string, fill func(*hostileWriter)) {
		ts = append(ts, hostileTrace{name, acl.Model, format.Meta{}, fill})
	}
	with := func(name string, meta format.Meta, fill func(*hostileWriter)) {
		ts = append(ts, hostileTrace{name, acl.Model, meta, fill})
	}
	hostileSizes(add)
	hostileWaits(add)
	hostileCrowds(add, many)
	hostileGraphs(add, many)
	hostileTexts(with)
	hostileTimes(with)
	for _, m := range []*api.Model{acl.Model, cuda.Model} {
		for v, word := range []uint64{0, 1, deviceAt, math.MaxUint64} {
			ts = append(ts, hostileTrace{fmt.Sprintf("functions_%s_%d", m.Name, v), m, format.Meta{}, func(w *hostileWriter) { w.functions(word) }})
		}
	}
	return ts
}

// hostileSizes adds allocations, copies and payloads larger than any machine.
func hostileSizes(add func(string, func(*hostileWriter))) {
	for _, n := range []uint64{1 << 32, 1 << 40, 1 << 46, 1 << 48, 1 << 62, 1 << 63, math.MaxUint64} {
		add(fmt.Sprintf("alloc_%x", n), func(w *hostileWriter) {
			w.begin()
			w.malloc(deviceAt, n)
			w.call("aclrtFree", []uint64{deviceAt}, nil)
		})
	}
	for _, at := range []uint64{0x400000, math.MaxUint64 - 4096} {
		add(fmt.Sprintf("alloc_at_%x", at), func(w *hostileWriter) {
			w.begin()
			w.malloc(at, 1<<20)
			w.call("aclrtMemset", []uint64{at, 1 << 20, 0, 1 << 20}, nil)
		})
	}
	add("alloc_overlapping", func(w *hostileWriter) {
		w.begin()
		for i := range uint64(50) {
			w.malloc(deviceAt+i, 4096)
		}
	})
	add("alloc_same", func(w *hostileWriter) {
		w.begin()
		for range 1000 {
			w.malloc(deviceAt, 4096)
		}
	})
	add("host_1TiB", func(w *hostileWriter) {
		w.begin()
		w.call("aclrtMallocHost", []uint64{outAt, 1 << 40}, made(0, hostAt))
		w.call("aclrtMemcpy", []uint64{hostAt, 1 << 40, deviceAt, 1 << 40, 2}, nil)
	})
	add("copy_null", func(w *hostileWriter) {
		w.begin()
		w.malloc(deviceAt, 4096)
		w.call("aclrtMemcpy", []uint64{0, 4096, deviceAt, 4096, 2}, nil)
	})
	add("copy_over_code", func(w *hostileWriter) {
		w.begin()
		w.malloc(deviceAt, 4096)
		code := strings.Repeat("\xcc", 4096)
		w.call("aclrtMemcpy", []uint64{0x401000, 4096, deviceAt, 4096, 2}, nil, format.Data{Param: 0, Dir: format.DirOut, Addr: 0x401000, Len: 4096, Bytes: []byte(code)})
		w.call("aclrtMemcpy", []uint64{deviceAt, 4096, 0x401000, 4096, 1}, nil)
		w.call("aclrtMemcpy", []uint64{0x401000, 4096, 0x402000, 4096, 0}, nil)
	})
	for _, n := range []uint64{1 << 20, 1 << 32, 1 << 40, 1 << 62, math.MaxUint64} {
		for _, size := range []uint64{4096, n} {
			add(fmt.Sprintf("copy_%x_of_%x", n, size), func(w *hostileWriter) {
				w.begin()
				w.malloc(deviceAt, size)
				w.call("aclrtMemcpy", []uint64{hostAt, n, deviceAt, n, 2}, nil)
				w.call("aclrtMemcpy", []uint64{deviceAt, n, hostAt, n, 1}, nil)
				w.call("aclrtMemset", []uint64{deviceAt, n, 1, n}, nil)
				w.call("aclrtMemcpy2d", []uint64{hostAt, n, deviceAt, n, n, n, 2}, nil)
			})
		}
		add(fmt.Sprintf("payload_%x", n), func(w *hostileWriter) {
			w.begin()
			w.malloc(deviceAt, 4096)
			for s := range 4 {
				missing := format.Data{Addr: hostAt, Len: n, Status: format.Status(s), Reason: format.Reason(s)}
				if s == int(format.Whole) && n > 1<<20 {
					continue
				}
				if s == int(format.Whole) {
					missing.Bytes = make([]byte, n)
				}
				missing.Param, missing.Dir = 2, format.DirIn
				w.call("aclrtMemcpy", []uint64{deviceAt, n, hostAt, n, 1}, nil, missing)
				missing.Param, missing.Dir = 0, format.DirOut
				w.call("aclrtMemcpy", []uint64{hostAt, n, deviceAt, n, 2}, nil, missing)
			}
		})
		add(fmt.Sprintf("arguments_%x", n), func(w *hostileWriter) {
			w.begin()
			w.stream(streamAt)
			w.load("abc\x00", "abc\x00")
			w.malloc(deviceAt, 4096)
			w.call("aclrtLaunchKernel", []uint64{kernelAt, uint64(uint32(n)), deviceAt, n, streamAt}, nil)
			w.call("aclrtLaunchKernelWithHostArgs", []uint64{kernelAt, 8, streamAt, 0, hostAt, n}, nil, format.Data{Param: 4, Dir: format.DirIn, Addr: hostAt, Len: n, Status: 1})
			w.synchronize()
		})
	}
}

// hostileWaits adds waits that never end, or that wait for each other.
func hostileWaits(add func(string, func(*hostileWriter))) {
	add("wait_cycle", func(w *hostileWriter) {
		w.begin()
		w.stream(streamAt)
		w.stream(2 * streamAt)
		for _, e := range []uint64{eventAt, 2 * eventAt} {
			w.call("aclrtCreateEvent", []uint64{outAt}, made(0, e))
		}
		w.call("aclrtRecordEvent", []uint64{eventAt, streamAt}, nil)
		w.call("aclrtRecordEvent", []uint64{2 * eventAt, 2 * streamAt}, nil)
		w.call("aclrtStreamWaitEvent", []uint64{streamAt, 2 * eventAt}, nil)
		w.call("aclrtStreamWaitEvent", []uint64{2 * streamAt, eventAt}, nil)
		w.synchronize()
	})
	add("wait_notify", func(w *hostileWriter) {
		w.begin()
		w.stream(streamAt)
		w.call("aclrtCreateNotify", []uint64{outAt, 0}, made(0, eventAt))
		w.call("aclrtWaitAndResetNotify", []uint64{eventAt, streamAt}, nil)
		w.synchronize()
	})
	add("wait_value", func(w *hostileWriter) {
		w.begin()
		w.stream(streamAt)
		w.malloc(deviceAt, 4096)
		w.call("aclrtValueWait", []uint64{deviceAt, 12345, 0, streamAt}, nil)
		w.synchronize()
	})
}

// hostileCrowds adds many objects, threads and processes.
func hostileCrowds(add func(string, func(*hostileWriter)), many int) {
	each := func(name string, n int, f func(w *hostileWriter, i uint64)) {
		add(fmt.Sprintf("%s_%d", name, n), func(w *hostileWriter) {
			w.begin()
			w.stream(streamAt)
			w.call("aclrtCreateEvent", []uint64{outAt}, made(0, eventAt))
			for i := range n {
				f(w, uint64(i))
			}
		})
	}
	each("allocs", many, func(w *hostileWriter, i uint64) { w.malloc(deviceAt+i*512, 64) })
	each("streams", many, func(w *hostileWriter, i uint64) { w.stream(0x10000 + i*16) })
	each("events", many, func(w *hostileWriter, i uint64) { w.call("aclrtCreateEvent", []uint64{outAt}, made(0, 0x10000+i*16)) })
	each("records", many, func(w *hostileWriter, i uint64) { w.call("aclrtRecordEvent", []uint64{eventAt, streamAt}, nil) })
	each("same_stream", 3, func(w *hostileWriter, i uint64) {
		w.stream(streamAt)
		w.call("aclrtDestroyStream", []uint64{streamAt}, nil)
		w.call("aclrtDestroyStream", []uint64{streamAt}, nil)
		w.synchronize()
	})
	each("threads", min(20_000, many), func(w *hostileWriter, i uint64) {
		w.thread(0, 200+int(i))
		w.call("aclrtSetDevice", nil, nil)
	})
	each("processes", min(2000, many), func(w *hostileWriter, i uint64) {
		w.thread(w.process(1000+int(i), 100), 1000+int(i))
		w.call("aclrtSetDevice", nil, nil)
	})
	add("idle_threads", func(w *hostileWriter) {
		for i := range many {
			w.thread(0, 200+i)
		}
		w.begin()
	})
	add("process_cycle", func(w *hostileWriter) {
		p, q := w.process(200, 201), w.process(201, 200)
		w.thread(p, 200)
		w.begin()
		w.thread(q, 200)
		w.begin()
	})
	add("ranges", func(w *hostileWriter) {
		w.begin()
		start, end := uint16(w.model.Lookup("mstxRangeStartA").ID), uint16(w.model.Lookup("mstxRangeEnd").ID)
		for i := range many {
			w.add(&format.Call{Func: start, Start: w.now, End: w.now + 1, Ret: uint64(i + 1), Args: []uint64{1, 0}, Data: []format.Data{in(0, "step\x00")}})
			w.now += 10
		}
		for i := range many {
			w.add(&format.Call{Func: end, Start: w.now, End: w.now + 1, Args: []uint64{uint64(many - i)}})
			w.now += 10
		}
	})
	add("gaps", func(w *hostileWriter) {
		w.begin()
		for range 1000 {
			w.note(w.Gap(format.Gap{Thread: format.NoThread, From: math.MinInt64, To: math.MaxInt64, Calls: math.MaxUint64, Reason: 3}))
			w.note(w.Gap(format.Gap{Thread: 77777777, From: 1, Calls: math.MaxUint64 / 2, Reason: 250}))
		}
	})
}

// hostileGraphs adds graphs that run other graphs or themselves.
func hostileGraphs(add func(string, func(*hostileWriter)), many int) {
	add("graph_recursive", func(w *hostileWriter) {
		w.begin()
		w.stream(streamAt)
		for range 500 {
			w.capture(graphAt, func() { w.execute(graphAt) })
		}
		w.execute(graphAt)
	})
	for _, n := range []uint64{10, 25, 40} {
		add(fmt.Sprintf("graph_2^%d", n), func(w *hostileWriter) { // each runs the previous one twice
			w.begin()
			w.stream(streamAt)
			w.malloc(deviceAt, 4096)
			w.capture(graphAt, w.fillAsync)
			for i := range n {
				w.capture(graphAt+i+1, func() {
					w.execute(graphAt + i)
					w.execute(graphAt + i)
				})
			}
			w.execute(graphAt + n)
			w.synchronize()
		})
	}
	n := min(many, 100_000)
	add(fmt.Sprintf("graph_%dx%d", n, n), func(w *hostileWriter) {
		w.begin()
		w.stream(streamAt)
		w.malloc(deviceAt, 4096)
		w.capture(graphAt, func() {
			for range n {
				w.fillAsync()
			}
		})
		for range n {
			w.execute(graphAt)
		}
		w.synchronize()
	})
}

// hostileTexts adds names that are long or contain control characters.
func hostileTexts(with func(string, format.Meta, func(*hostileWriter))) {
	with("nasty", format.Meta{
		Host: nasty, Argv: []string{nasty, nasty}, Env: map[string]string{nasty: nasty, "ACLSIM_" + nasty: nasty}, Derivation: format.Derivation{Sealed: nasty, Recovered: nasty}, Ended: nasty,
		CapturedBy: nasty,
	}, func(w *hostileWriter) {
		p, err := w.Process(format.Process{PID: 200, Exe: nasty, Argv: []string{nasty}})
		w.note(err)
		w.on, err = w.Thread(format.Thread{Process: p, TID: 200, Name: nasty})
		w.note(err)
		w.begin()
		w.stream(streamAt)
		w.call("mstxMarkA", []uint64{1, streamAt}, nil, in(0, nasty))
		w.load(nasty, nasty)
		w.malloc(deviceAt, 4096)
		w.call("aclrtLaunchKernel", []uint64{kernelAt, 8, deviceAt, 32, streamAt}, nil)
		w.synchronize()
	})
	for _, n := range []int{1 << 20, 16 << 20} {
		with(fmt.Sprintf("name_%d", n), format.Meta{}, func(w *hostileWriter) {
			name := strings.Repeat("A", n)
			w.begin()
			w.stream(streamAt)
			w.load(name, name)
			w.malloc(deviceAt, 4096)
			for range 100 {
				w.call("aclrtLaunchKernel", []uint64{kernelAt, 8, deviceAt, 32, streamAt}, nil)
			}
			w.synchronize()
		})
	}
}

// hostileTimes adds extreme times.
func hostileTimes(with func(string, format.Meta, func(*hostileWriter))) {
	for i, t := range [][2]int64{{math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MaxInt64}, {0, math.MaxInt64}, {math.MinInt64, -1}, {-1 << 62, 1<<62 - 1}} {
		with(fmt.Sprintf("time_%d", i), format.Meta{StartWall: math.MaxInt64, StartMono: math.MinInt64, EndNS: math.MinInt64}, func(w *hostileWriter) {
			id := uint16(w.model.Lookup("aclrtSynchronizeStream").ID)
			w.begin()
			w.stream(streamAt)
			w.add(&format.Call{Func: id, Start: t[0], End: t[1], Args: []uint64{streamAt}})
			w.begin()
			w.add(&format.Call{Func: id, Start: t[0], End: t[1], Args: []uint64{streamAt}, Flags: format.Unfinished})
		})
	}
}

// functions adds every function in the model, with the same word for each argument: without payloads, with text payloads, and
// with missing ones.
func (w *hostileWriter) functions(word uint64) {
	for _, f := range schema.Of(w.model).Functions {
		args := make([]uint64, f.Words)
		for i := range args {
			args[i] = word
		}
		var outs []format.Out
		var text, missing []format.Data
		for i, p := range f.Params {
			if i > math.MaxUint8 {
				break
			}
			if p.Role == api.New.String() || p.Role == api.Find.String() {
				outs = append(outs, format.Out{Param: uint8(i), Value: deviceAt + word})
			}
			if strings.HasSuffix(p.Type, "*") {
				text = append(text, in(uint8(i), nasty))
				missing = append(missing, format.Data{Param: uint8(i), Dir: format.DirIn, Addr: word, Len: word, Status: 1})
			}
		}
		for _, c := range []format.Call{{Outs: outs}, {Outs: outs, Data: text}, {Data: missing}, {Ret: 1}, {Flags: format.Unfinished}} {
			c.Func, c.Args, c.Start, c.End = f.ID, args, w.now, w.now+100
			w.add(&c)
			w.now += 200
		}
	}
}
