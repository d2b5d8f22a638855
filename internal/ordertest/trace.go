package ordertest

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// Memory that a trace allocates before the program, and the kernel that it launches.
const (
	Memory   = testtrace.DeviceA
	Size     = 0x1000
	Function = testtrace.Function
)

// A Task is a call for an operation "run".
type Task struct {
	Func string
	Args func(stream uint64) []uint64
	Mods []testtrace.Mod
}

// A Trace is a program as a trace of AscendCL.
type Trace struct {
	*timeline.Timeline
	Calls map[string]uint64 // by name
	Names map[uint64]string
	calls []Call
}

type builder struct {
	*testtrace.Sequence
	first int64 // start of the program
	keys  map[string]bool
	trace Trace
	task  func(c *Call) Task
}

// Each runs a test with the trace of each program that is one of AscendCL. Tasks are launches and fills.
func Each(t *testing.T, f func(t *testing.T, p *Program, tr *Trace)) {
	for _, p := range Programs {
		t.Run(p.Name, func(t *testing.T) {
			if why := p.Skipped(); why != "" {
				t.Skip(why)
			}
			f(t, &p, p.Trace(t, work))
		})
	}
}

// work is a launch, or a fill by the call itself.
func work(c *Call) Task {
	if c.Stream == "now" {
		return Fill(c, Memory)
	}
	return Task{"aclrtLaunchKernelWithHostArgs", func(s uint64) []uint64 { return testtrace.A(Function, 1, s, 0, 0x7f0000001000, 8, 0, 0) },
		[]testtrace.Mod{testtrace.Reads("hostArgs", 0, testtrace.Words(7))}}
}

// Skipped returns why a program is no trace of AscendCL, "" if it is.
func (p *Program) Skipped() string {
	if p.uses("def") {
		return "default streams of AscendCL wait for no other stream"
	}
	return ""
}

func (p *Program) uses(stream string) bool {
	return slices.ContainsFunc(p.Calls(), func(c Call) bool { return c.Stream == stream })
}

// Trace writes the program as a trace. task returns the call for an operation "run".
func (p *Program) Trace(t testing.TB, task func(c *Call) Task) *Trace {
	t.Helper()
	b := &builder{Sequence: testtrace.NewSequence(t), keys: map[string]bool{}, trace: Trace{Calls: map[string]uint64{}, Names: map[uint64]string{}}, task: task}
	calls := p.Calls()
	if p.uses("h1") {
		b.Process(1, format.Process{PID: 4002, Host: "node8"})
	}
	n := uint64(0)
	then := func(thread uint32, name string, args []uint64, mods ...testtrace.Mod) {
		b.Thread = thread
		b.Then(name, args, mods...)
		n++
	}
	if p.uses("t1") {
		then(0, "aclrtSetDevice", testtrace.A(1))
		then(0, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", stream("t1")))
	}
	then(1, "aclrtSetDevice", testtrace.A(0))
	then(2, "aclrtSetDevice", testtrace.A(0))
	then(0, "aclrtSetDevice", testtrace.A(0))
	then(0, "aclrtMalloc", testtrace.A(0x7ffe0000, Size, 0), testtrace.Outs("devPtr", Memory))
	for _, s := range Streams {
		switch s {
		case "t1", "def", "now":
		case "p1", "h1":
			then(2, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", stream(s)))
		default:
			then(0, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", stream(s)))
		}
	}
	b.first = b.Now + 20
	for i := range calls {
		c := &calls[i]
		if c.Op == "lost" {
			b.Gap(format.Gap{Thread: 0, From: b.first + c.Start - 4, To: b.first + c.Start - 1, Calls: 1, Reason: format.Dropped})
			continue
		}
		if c.Name != "" {
			b.trace.Calls[c.Name], b.trace.Names[n] = n, c.Name
		}
		n += b.call(c)
	}
	b.trace.Timeline, b.trace.calls = b.Load(), calls
	return &b.trace
}

func stream(name string) uint64 {
	i := slices.Index(Streams, name)
	if i < 0 {
		i = 0
	}
	return 0x5501 + uint64(i)
}

// object returns the handle of an event or a notify. Processes have one handle for a shared one.
func object(name string) uint64 { return 0x7700 + uint64(name[0]) }

// call writes a call, or several, and returns their number.
func (b *builder) call(c *Call) uint64 {
	thread := uint32(0)
	switch {
	case c.Stream == "p1" || c.Stream == "h1":
		thread = 2
	case c.Second:
		thread = 1
	}
	var mods []testtrace.Mod
	if c.Failed {
		mods = append(mods, testtrace.Fails(507000))
	}
	if c.Unfinished {
		mods = append(mods, testtrace.Hangs)
	}
	call := func(name string, args []uint64, more ...testtrace.Mod) {
		b.Call(thread, b.first+c.Start, b.first+c.End, name, args, append(more, mods...)...)
	}
	s, A := stream(c.Stream), testtrace.A
	var e uint64
	if c.Object != "" {
		e = object(c.Object)
	}
	switch c.Op {
	case "run":
		t := b.task(c)
		call(t.Func, t.Args(s), t.Mods...)
	case "rec":
		call("aclrtRecordEvent", A(e, s))
	case "wait":
		call("aclrtStreamWaitEvent", A(s, e))
	case "reset":
		call("aclrtResetEvent", A(e, s))
	case "end":
		call("aclrtDestroyEvent", A(e))
	case "esync":
		call("aclrtSynchronizeEvent", A(e))
	case "epoll":
		call("aclrtQueryEventStatus", A(e, 0x7ffe0010), testtrace.Outs("status", status(c.Complete, 1, 0)))
	case "poll":
		call("aclrtStreamQuery", A(s, 0x7ffe0010), testtrace.Outs("status", status(c.Complete, 0, 1)))
	case "sync":
		call("aclrtSynchronizeStream", A(s))
	case "device":
		call("aclrtSynchronizeDevice", nil)
	case "new":
		b.keys[c.Object] = true
		call("aclrtCreateNotify", A(0x7ffe0018, 0), testtrace.Outs("notify", e))
	case "set":
		call("aclrtRecordNotify", A(e, s))
	case "take":
		call("aclrtWaitAndResetNotify", A(e, s, 0))
	case "clear":
		call("aclrtNotifyBatchReset", A(0x7ffe0020, 1), testtrace.Reads("notifies", 0, testtrace.Words(e)))
	case "add":
		call("aclrtCntNotifyRecord", A(e, s, 0))
	case "atleast":
		call("aclrtCntNotifyWaitWithTimeout", A(e, s, 0))
	case "put":
		call("aclrtValueWrite", A(Memory+0x800, c.Word, 0, s))
	case "get":
		call("aclrtValueWait", A(Memory+0x800, c.Word, 4, s)) // a condition that is not known: any value may end it
	case "graph":
		call("aclmdlRIExecuteAsync", A(0x6701, s))
	case "capture":
		call("aclmdlRICaptureBegin", A(s, 0))
		call("aclrtRecordEvent", A(e, s))
		call("aclmdlRICaptureEnd", A(s, 0x7ffe0028), testtrace.Outs("modelRI", 0x6701))
		return 3
	case "export":
		if b.keys[c.Object] {
			call("aclrtNotifyGetExportKey", A(e, 0x7ffe0030, 65, 0), key("key", testtrace.Words(e)))
		} else {
			call("aclrtIpcGetEventHandle", A(e, 0x7ffe0030), key("handle", testtrace.Words(e, 0, 0, 0, 0, 0, 0, 0)))
		}
	case "import":
		thread = 2
		if b.keys[c.Object] {
			call("aclrtNotifyImportByKey", A(0x7ffe0018, 0x7ffe0030, 0), testtrace.Reads("key", 0, testtrace.Words(e)), testtrace.Outs("notify", e))
		} else {
			call("aclrtIpcOpenEventHandle", A(e, 0, 0, 0, 0, 0, 0, 0, 0x7ffe0018), testtrace.Outs("event", e))
		}
	}
	return 1
}

// key makes a call store a key.
func key(param string, b []byte) testtrace.Mod {
	return func(f *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: uint8(f.Param(param)), Dir: format.DirOut, Len: uint64(len(b)), Bytes: b, Time: c.End})
	}
}

// status returns the result of a poll.
func status(complete bool, yes, no uint64) uint64 {
	if complete {
		return yes
	}
	return no
}

// Fill fills memory: on a stream, or by the call itself.
func Fill(c *Call, addr uint64) Task {
	if c.Stream == "now" {
		return Task{"aclrtMemset", func(uint64) []uint64 { return testtrace.A(addr, 16, 0x5a, 16) }, nil}
	}
	return Task{"aclrtMemsetAsync", func(s uint64) []uint64 { return testtrace.A(addr, 16, 0x5a, 16, s) }, nil}
}

// Call returns a call of the program.
func (t *Trace) Call(name string) *Call {
	return &t.calls[slices.IndexFunc(t.calls, func(c Call) bool { return c.Name == name })]
}
