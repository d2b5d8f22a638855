// Package testtrace builds small traces for tests of exporters, reports and the timeline.
//
// Small covers everything that an exporter shows: two processes, three threads, streams, kernels, copies, a failed call, a
// call that never returned, a gap, and tasks that no call waited for. Other functions build traces with one property, such as
// steps, ranks or length. A Builder belongs to one goroutine. Only tests import this package.
package testtrace

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/msprof"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/stream"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/timeline"
)

// UUIDs and start times of the traces.
const (
	UUID      = "5a1e0c9d-7b34-4f6e-9d21-0123456789ab"
	LongUUID  = "5a1e0c9d-7b34-4f6e-9d21-ba9876543210"
	StartWall = 1_790_000_000_123_456_789
)

// Addresses in the traces.
const (
	DeviceA  = 0x124000000000
	DeviceB  = 0x124000100000
	HostA    = 0x7f0000001000
	StreamA  = 0x5501
	StreamB  = 0x5502
	Function = 0x6601
	Event    = 0x7701
)

// Builder writes a trace call by call.
type Builder struct {
	tb    testing.TB
	model *api.Model
	path  string
	meta  *format.Meta
	w     *format.Writer
}

// New starts a trace. Threads 0 and 1 belong to its first process, thread 2 to the second one.
func New(tb testing.TB) *Builder {
	tb.Helper()
	return begin(tb, acl.Model, UUID)
}

// NewOf starts a trace of any runtime.
func NewOf(tb testing.TB, m *api.Model) *Builder {
	tb.Helper()
	return begin(tb, m, UUID)
}

func begin(tb testing.TB, m *api.Model, uuid string) *Builder {
	tb.Helper()
	b := &Builder{tb: tb, model: m, path: filepath.Join(tb.TempDir(), "story.aclt")}
	meta := &format.Meta{UUID: uuid, Host: "node7", Argv: []string{"/opt/app/train", "--steps", "2"}, API: m.Name, CapturedBy: "shim",
		Simulated: true, Device: format.Device{Name: "simulator"}, StartWall: StartWall, StartMono: 987654321, EndNS: 1_000_000}
	b.meta = meta
	var err error
	b.w, err = format.Create(b.path, meta, schema.Of(m), nil)
	b.check(err)
	for i, p := range []format.Process{
		{PID: 4001, Exe: "/opt/app/train", Argv: meta.Argv},
		{PID: 4002, PPID: 4001, Exe: "/opt/app/loader", Argv: []string{"loader"}},
	} {
		got, err := b.w.Process(p)
		b.check(err)
		if int(got) != i {
			tb.Fatalf("process %d became %d", i, got)
		}
	}
	for _, t := range []format.Thread{{Process: 0, TID: 4001, Name: "train"}, {Process: 0, TID: 4011}, {Process: 1, TID: 4002, Name: "loader"}} {
		_, err := b.w.Thread(t)
		b.check(err)
	}
	return b
}

func (b *Builder) check(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

// A Mod changes a call.
type Mod func(f *api.Func, c *format.Call)

// Outs makes the call store a value where the named parameter points to.
func Outs(name string, v uint64) Mod {
	return func(f *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: uint8(f.Param(name)), Value: v})
	}
}

// Text makes the call read a string from the named parameter.
func Text(name, s string) Mod {
	return func(f *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: uint8(f.Param(name)), Len: uint64(len(s)), Bytes: []byte(s), Time: c.Start})
	}
}

// Fails makes the call return an error.
func Fails(code int32) Mod { return func(_ *api.Func, c *format.Call) { c.Ret = uint64(uint32(code)) } }

// Hangs makes the call never return.
func Hangs(_ *api.Func, c *format.Call) { c.Flags, c.Ret = format.Unfinished, 0 }

// Call adds a call to the named function, with its argument words.
func (b *Builder) Call(thread uint32, start, end int64, name string, args []uint64, mods ...Mod) {
	b.tb.Helper()
	f := b.model.Lookup(name)
	if f == nil || int(f.Words) != len(args) {
		b.tb.Fatalf("%s with %d argument words is not in the model", name, len(args))
	}
	c := &format.Call{Func: uint16(f.ID), Thread: thread, Start: start, End: end, Args: args}
	for _, m := range mods {
		m(f, c)
	}
	_, err := b.w.Call(c)
	b.check(err)
}

// Meta changes the trace's meta data.
func (b *Builder) Meta(change func(*format.Meta)) {
	b.tb.Helper()
	change(b.meta)
	b.check(b.w.SetMeta(b.meta))
}

// Process replaces a process.
func (b *Builder) Process(i uint32, p format.Process) {
	b.tb.Helper()
	b.check(b.w.UpdateProcess(i, p))
}

// Thread adds a thread of the first process and returns its index.
func (b *Builder) Thread(tid int) uint32 {
	b.tb.Helper()
	i, err := b.w.Thread(format.Thread{Process: 0, TID: tid})
	b.check(err)
	return i
}

// Gap adds a gap.
func (b *Builder) Gap(g format.Gap) {
	b.tb.Helper()
	b.check(b.w.Gap(g))
}

// Load ends the trace and reads it.
func (b *Builder) Load() *timeline.Timeline {
	b.tb.Helper()
	b.check(b.w.Close())
	return b.read()
}

// Cut reads the trace as a killed recorder leaves it.
func (b *Builder) Cut() *timeline.Timeline {
	b.tb.Helper()
	b.check(b.w.Flush())
	b.tb.Cleanup(func() { b.w.Close() })
	return b.read()
}

func (b *Builder) open() *format.Reader {
	b.tb.Helper()
	r, err := format.Open(b.path, nil)
	b.check(err)
	b.tb.Cleanup(func() { r.Close() })
	return r
}

func (b *Builder) read() *timeline.Timeline {
	b.tb.Helper()
	t, err := timeline.Load(b.open(), b.model)
	b.check(err)
	return t
}

// A builds a list of argument words.
func A(words ...uint64) []uint64 { return words }

// Small returns a trace with everything that an exporter shows.
func Small(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	b := New(tb)
	b.prologue()
	b.Call(0, 10_001, 10_457, "aclrtMemcpyAsync", A(DeviceA, 65536, HostA, 65536, 1, StreamA))
	b.Call(0, 11_000, 11_300, "aclrtLaunchKernel", A(Function, 8, DeviceB, 64, StreamA))
	b.Call(1, 11_100, 11_900, "aclrtLaunchKernel", A(Function, 4, DeviceB, 64, StreamB))
	b.Call(0, 11_400, 11_650, "aclrtRecordEvent", A(Event, StreamA))
	b.Call(1, 12_000, 12_200, "aclrtStreamWaitEvent", A(StreamB, Event))
	b.Call(0, 12_100, 12_350, "aclrtMemsetAsync", A(DeviceB, 4096, 0, 1024, 0))
	b.Call(0, 13_000, 13_111, "aclrtLaunchKernel", A(Function, 0, DeviceB, 64, StreamA), Fails(100000))
	b.Call(2, 13_500, 14_700, "aclrtMemcpy", A(HostA, 4096, DeviceA+512, 4096, 2))
	b.Call(0, 15_000, 19_003, "aclrtSynchronizeStream", A(StreamA))
	b.Call(1, 15_100, 15_300, "aclrtMemcpyAsync", A(DeviceB, 2048, DeviceA, 2048, 3, StreamB))
	b.Gap(format.Gap{Thread: 1, From: 20_000, To: 21_500, Calls: 17, Reason: format.Dropped})
	b.Gap(format.Gap{Thread: format.NoThread, From: 22_000, To: 22_800, Reason: format.RecorderLost})
	b.Call(0, 30_000, 30_007, "aclrtSynchronizeStream", A(StreamB), Hangs)
	b.Call(1, 40_000, 40_400, "aclrtFree", A(DeviceB))
	return b.Load()
}

func (b *Builder) prologue() {
	b.Call(0, 1_000, 2_500, "aclrtSetDevice", A(3))
	b.Call(0, 3_000, 3_700, "aclrtMalloc", A(0x7ffe0000, 1<<20, 0), Outs("devPtr", DeviceA))
	b.Call(0, 3_800, 4_100, "aclrtMalloc", A(0x7ffe0000, 1<<20, 0), Outs("devPtr", DeviceB))
	b.Call(0, 4_200, 4_300, "aclrtCreateStream", A(0x7ffe0008), Outs("stream", StreamA))
	b.Call(0, 4_400, 4_500, "aclrtCreateStream", A(0x7ffe0008), Outs("stream", StreamB))
	b.Call(0, 4_600, 4_700, "aclrtCreateEvent", A(0x7ffe0010), Outs("event", Event))
	b.Call(0, 5_000, 5_900, "aclrtBinaryGetFunction", A(0x6600, 0x7ffe0020, 0x7ffe0018), Text("kernelName", "MatMul \"é\"\n"), Outs("funcHandle", Function))
}

// Ranks returns the trace of a job with two ranks in containers. Their processes and threads have the same numbers, and their
// calls overlap.
func Ranks(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	b := &Builder{tb: tb, model: acl.Model, path: filepath.Join(tb.TempDir(), "ranks.aclt")}
	var err error
	b.w, err = format.Create(b.path, &format.Meta{UUID: UUID, Host: "node7", API: acl.Model.Name, StartWall: StartWall, EndNS: 100_000}, schema.Of(acl.Model), nil)
	b.check(err)
	for rank := range 2 {
		p, err := b.w.Process(format.Process{PID: 7, Exe: "/opt/app/train", Rank: rank, Host: []string{"node7", "node8"}[rank]})
		b.check(err)
		_, err = b.w.Thread(format.Thread{Process: p, TID: 7, Name: "train"})
		b.check(err)
	}
	for rank := range uint32(2) {
		at := 1_000 + int64(rank)*150
		b.Call(rank, at, at+200, "aclrtSetDevice", A(0))
		b.Call(rank, at+300, at+500, "aclrtMalloc", A(0x7ffe0000, 1<<20, 0), Outs("devPtr", DeviceA))
		b.Call(rank, at+600, at+800, "aclrtCreateStream", A(0x7ffe0008), Outs("stream", StreamA))
		b.Call(rank, at+900, at+1_100, "aclrtMemcpyAsync", A(DeviceA, 65536, HostA, 65536, 1, StreamA))
		b.Call(rank, at+1_200, at+1_900, "aclrtSynchronizeStream", A(StreamA))
	}
	return b.Load()
}

// JobSteps is the number of steps in Job.
const JobSteps = 10

// Job returns the merged trace of two ranks on two hosts. Rank 0 makes steps, and its memory stays the same. Rank 1 launches during these steps and after them,
// and allocates in each, on another device.
func Job(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	b := New(tb)
	b.Meta(func(m *format.Meta) {
		m.Merged = []format.Merged{{UUID: UUID, Host: "node7", Rank: 0}, {UUID: LongUUID, Host: "node8", Rank: 1}}
		m.Tracer.Copies = &format.RecordedCopies{Count: JobSteps, Bytes: JobSteps << 16, RecordingNS: 200, CallsNS: JobSteps * 200}
	})
	b.Process(1, format.Process{PID: 5001, Exe: "/opt/app/train", Host: "node8", Rank: 1})
	const mib, other = 1 << 20, 2 // a thread of rank 1
	for rank, thread := range []uint32{0, other} {
		at := int64(1_000 + 5_000*rank)
		b.Call(thread, at, at+100, "aclrtSetDevice", A(uint64(rank)))
		b.Call(thread, at+200, at+300, "aclrtMalloc", A(0x7ffe0000, 8*mib, 0), Outs("devPtr", DeviceA))
		b.Call(thread, at+400, at+500, "aclrtCreateStream", A(0x7ffe0008), Outs("stream", StreamA))
		b.Call(thread, at+600, at+700, "aclrtBinaryGetFunction", A(0x6600, 0x7ffe0020, 0x7ffe0018), Text("kernelName", "train"), Outs("funcHandle", Function))
	}
	recorded := func(ns uint64) Mod {
		return func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.RecordingParam, Value: ns})
		}
	}
	work := func(at int64, i uint64) {
		b.Call(other, at, at+200, "aclrtMalloc", A(0x7ffe0000, mib, 0), Outs("devPtr", DeviceA+(16+i)*mib))
		b.Call(other, at+300, at+400, "aclrtLaunchKernel", A(Function, 1, DeviceA, 0, StreamA), recorded(50))
	}
	at := int64(20_000)
	for i := range uint64(JobSteps) {
		b.Call(0, at, at+200, "aclrtMemcpyAsync", A(DeviceA, 1<<16, HostA, 1<<16, 1, StreamA))
		b.Call(0, at+300, at+400, "aclrtLaunchKernel", A(Function, 1, DeviceA, 0, StreamA), recorded(20))
		work(at+450, i)
		b.Call(0, at+500, at+600, "aclrtLaunchKernel", A(Function, 2, DeviceA, 0, StreamA))
		b.Call(0, at+700, at+900, "aclrtSynchronizeStream", A(StreamA))
		at += 1_000
	}
	b.Call(other, at, at+200, "aclrtSynchronizeStream", A(StreamA))
	work(at+40_000, JobSteps)
	b.Call(other, at+41_000, at+41_200, "aclrtSynchronizeStream", A(StreamA))
	return b.Load()
}

// Long returns a trace with a number of calls: launches on two streams and a synchronization after about 50 of them, at
// random. It has no steps.
func Long(tb testing.TB, calls int) *timeline.Timeline {
	tb.Helper()
	b := begin(tb, acl.Model, LongUUID)
	b.prologue()
	r := rand.New(rand.NewPCG(1, 2))
	at := int64(10_000)
	for i := 7; i < calls; i++ {
		at += 1_000
		stream, thread := uint64(StreamA), uint32(0)
		if i%2 == 1 {
			stream, thread = StreamB, 1
		}
		if r.IntN(50) == 0 {
			b.Call(thread, at, at+900, "aclrtSynchronizeDevice", nil)
			continue
		}
		b.Call(thread, at, at+300+int64(i%7), "aclrtLaunchKernel", A(Function, uint64(i%32), DeviceB, 64, stream))
	}
	return b.Load()
}

// Unbroken is so many launches on one stream before its only wait, so all tasks have brackets that overlap.
func Unbroken(tb testing.TB, launches int) *timeline.Timeline {
	tb.Helper()
	b := begin(tb, acl.Model, LongUUID)
	b.prologue()
	at := int64(10_000)
	for range launches {
		at += 1_000
		b.Call(0, at, at+300, "aclrtLaunchKernel", A(Function, 1, DeviceB, 64, StreamA))
	}
	b.Call(0, at+1_000, at+9_000, "aclrtSynchronizeStream", A(StreamA))
	return b.Load()
}

// Steps returns a trace with equal steps: a copy to the device, launches, a copy to the host and a synchronization. The
// launches alternate between kernels. Each takes time(step, launch) nanoseconds, while the device runs the previous launch.
func Steps(tb testing.TB, steps, launches int, time func(step, launch int) int64) *timeline.Timeline {
	tb.Helper()
	b := New(tb)
	b.prologue()
	kernels := []string{"norm", "matmul", "add"}
	for i, k := range kernels {
		b.Call(0, 6_000+int64(i)*100, 6_050+int64(i)*100, "aclrtBinaryGetFunction", A(0x6600, 0x7ffe0020, 0x7ffe0018), Text("kernelName", k), Outs("funcHandle", Function+1+uint64(i)))
	}
	at := int64(10_000)
	for s := range steps {
		b.Call(0, at, at+100, "aclrtMemcpyAsync", A(DeviceA, 1<<16, HostA, 1<<16, 1, StreamA))
		at += 200
		for l := range launches {
			d := time(s, l)
			start, end := uint64(at), uint64(at+d-10)
			b.Call(0, at, at+50, "aclrtLaunchKernel", A(Function+1+uint64(l%len(kernels)), 8, DeviceB, 64, StreamA), func(_ *api.Func, c *format.Call) {
				c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: start}, format.Out{Param: api.TaskEndParam, Value: end})
			})
			at += d
		}
		b.Call(0, at, at+100, "aclrtMemcpyAsync", A(HostA, 64, DeviceA, 64, 2, StreamA))
		b.Call(0, at+150, at+400, "aclrtSynchronizeStream", A(StreamA))
		at += 500
	}
	return b.Load()
}

// Decoding returns a trace, not loaded, with a number of calls that resemble LLM decoding, in steps of 422 calls. If no call
// waits, no task ever has a known end.
func Decoding(tb testing.TB, calls int, waits bool) *format.Reader {
	tb.Helper()
	b := begin(tb, acl.Model, LongUUID)
	sync := uint16(acl.Model.Lookup("aclrtSynchronizeStream").ID)
	s := stream.New(schema.Of(acl.Model))
	var c format.Call
	for range calls {
		if s.Next(&c); c.Func == sync && !waits {
			continue
		}
		_, err := b.w.Call(&c)
		b.check(err)
	}
	b.check(b.w.Close())
	return b.open()
}

// Profiles returns traces imported from msprof profiles: the sample in import/msprof/testdata, and the real ones in the
// folder ACLTRACE_PROFILES if that is set.
func Profiles(tb testing.TB) map[string]*format.Reader {
	tb.Helper()
	sample := filepath.Join(testenv.Root(tb), "import", "msprof", "testdata")
	all := map[string]*msprof.Profile{"sample": {Trace: filepath.Join(sample, "trace_view.json"), Kernels: filepath.Join(sample, "kernel_details.csv")}}
	if dir := os.Getenv("ACLTRACE_PROFILES"); dir != "" {
		traces, _ := filepath.Glob(filepath.Join(dir, "*trace_view.json"))
		tables, _ := filepath.Glob(filepath.Join(dir, "*kernel_details.csv"))
		for _, path := range traces {
			all[filepath.Base(path)] = &msprof.Profile{Trace: path}
		}
		for _, path := range tables {
			all[filepath.Base(path)] = &msprof.Profile{Kernels: path}
		}
		databases, _ := filepath.Glob(filepath.Join(dir, "*.db"))
		for _, path := range databases {
			all[filepath.Base(path)] = &msprof.Profile{Database: path}
		}
	}
	out := map[string]*format.Reader{}
	for name, p := range all {
		b := &Builder{tb: tb, path: filepath.Join(tb.TempDir(), "profile.aclt")}
		_, err := msprof.Import(p, acl.Model, b.path)
		b.check(err)
		out[name] = b.open()
	}
	return out
}

// Stack gives the call a stack, with its return addresses if it is the first one with that hash.
func Stack(hash uint64, addrs ...uint64) Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.StackParam, Value: hash})
		var b []byte
		for _, a := range addrs {
			b = binary.LittleEndian.AppendUint64(b, a)
		}
		if len(b) > 0 {
			c.Data = append(c.Data, format.Data{Param: api.StackParam, Len: uint64(len(b)), Bytes: b, Time: c.Start})
		}
	}
}
