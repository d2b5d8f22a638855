package compile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/replay/backend"
)

// BenchmarkCompile compiles a trace like that of tiny_decoder: steps of 400 launches with 48 bytes of arguments, of which three or four words
// are addresses, a copy to the device, a copy to the host, and a wait. ACLTRACE_BENCH_CALLS is the number of calls, by default a million.
func BenchmarkCompile(b *testing.B) {
	n := 1_000_000
	if s := os.Getenv("ACLTRACE_BENCH_CALLS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	path := filepath.Join(b.TempDir(), "t.aclt")
	decoderTrace(b, path, n)
	dir := b.TempDir()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew
	before := processorTime(b)
	for b.Loop() {
		r, err := format.Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		p, err := Trace(r, acl.Model, dir, &Options{Backend: backend.New("", acl.Model), Place: PlaceAuto, Compare: true})
		if err != nil {
			b.Fatal(err)
		}
		if len(p.Found.Unsupported) > 0 || p.Found.Calls != uint64(n) {
			b.Fatalf("%d calls, unsupported: %v", p.Found.Calls, p.Found.Unsupported)
		}
		p.Close()
		r.Close()
	}
	b.ReportMetric(float64(n)*float64(b.N)/(processorTime(b)-before).Seconds()/1e6, "cpu-Mcalls/s")
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mcalls/s")
	b.ReportMetric(peakMiB(b), "peak-MiB")
}

// processorTime returns the processor time of this process. Unlike elapsed time it does not depend on other processes.
func processorTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// peakMiB returns the peak of the anonymous and mapped memory of this process.
func peakMiB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, line, _ := bytes.Cut(text, []byte("VmHWM:"))
	var kib float64
	if _, err := fmt.Sscan(string(line), &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

// decoderTrace writes a trace of n calls.
func decoderTrace(b *testing.B, path string, n int) {
	const (
		heap, block, blocks = 0x124000000000, 1 << 16, 120
		stream, pinned      = 0x584000000010, 0x7f0000000000
		function, stack     = 0x58c000000000, 0x7ffdaea70000
	)
	w, err := format.Create(path, &format.Meta{API: acl.Model.Name}, schema.Of(acl.Model), nil)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = w.Process(format.Process{PID: 1})
	_, _ = w.Thread(format.Thread{TID: 1})
	now, made := int64(1000), 0
	call := func(name string, outs []format.Out, data []format.Data, args ...uint64) uint64 {
		if made == n {
			return 0
		}
		made++
		f := acl.Model.Lookup(name)
		c := format.Call{Func: uint16(f.ID), Start: now, End: now + 300, Args: make([]uint64, f.Words), Outs: outs, Data: data}
		copy(c.Args, args)
		for i := range c.Data {
			c.Data[i].Len = uint64(len(c.Data[i].Bytes))
		}
		now += 350
		i, err := w.Call(&c)
		if err != nil {
			b.Fatal(err)
		}
		return i
	}
	out := func(param uint8, v uint64) []format.Out { return []format.Out{{Param: param, Value: v}} }
	in := func(param uint8, bytes []byte) format.Data { return format.Data{Param: param, Bytes: bytes} }
	call("aclrtSetDevice", nil, nil, 0)
	call("aclrtCreateStream", out(0, stream), nil, stack)
	call("aclrtBinaryLoadFromData", out(3, 0x58a000000000), []format.Data{in(0, make([]byte, 64))}, stack, 64, 0, stack)
	for k := range uint64(10) {
		call("aclrtBinaryGetFunction", out(2, function+16*k), []format.Data{in(1, fmt.Append(nil, "kernel", k))}, 0x58a000000000, stack, stack)
	}
	for k := range uint64(blocks) {
		call("aclrtMalloc", out(0, heap+k*block), nil, stack, block, 0)
	}
	call("aclrtMallocHost", out(0, pinned), nil, stack, 1<<16)
	args := make([]byte, 48)
	holder := []byte{24, 0, 0, 0, 32, 0, 0, 0}
	for step := uint64(0); made < n; step++ {
		call("aclrtMemcpyAsync", nil, []format.Data{in(2, binary.LittleEndian.AppendUint64(nil, step))}, heap, 8, pinned, 8, 1, stream)
		for k := range uint64(400) {
			for i, v := range []uint64{heap + k%100*block, heap + (k+7)%100*block + 256, heap + (k+13)%100*block, 0, 1<<36 | step, 0x3e800000} {
				binary.LittleEndian.PutUint64(args[8*i:], v)
			}
			call("aclrtLaunchKernelWithHostArgs", nil, []format.Data{in(4, args), in(6, holder)}, function+16*(k%10), 1, stream, 0, stack+k%32*64, 48, stack, 1)
		}
		if made+2 > n {
			call("aclrtSynchronizeStream", nil, nil, stream)
			break
		}
		i := call("aclrtMemcpyAsync", nil, nil, pinned+4096, 1024, heap+110*block, 1024, 2, stream)
		call("aclrtSynchronizeStream", nil, nil, stream)
		d := format.Data{Call: i, Param: 0, Dir: format.DirOut, Len: 1024, Bytes: bytes.Repeat(args[:8], 128), Time: now - 20}
		if err := w.Data(&d); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
