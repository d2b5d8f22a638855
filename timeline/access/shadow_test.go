package access_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline/access"
)

const (
	args = devA // an allocation with arguments
	data = 0x124000200000
)

// in copies words to the arguments: on a stream, or with a synchronous copy if stream is negative.
func (s *sequence) in(addr uint64, stream int64, b []byte) {
	s.t.Helper()
	n := uint64(len(b))
	if stream < 0 {
		s.Then("aclrtMemcpy", testtrace.A(addr, n, host, n, 1), testtrace.Reads("src", 0, b))
		return
	}
	s.Then("aclrtMemcpyAsync", testtrace.A(addr, n, host, n, 1, uint64(stream)), testtrace.Reads("src", 0, b))
}

func (s *sequence) run(addr, n, stream uint64) {
	s.t.Helper()
	s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, addr, n, stream))
}

// withArgs launches a kernel with arguments from the host.
func (s *sequence) withArgs(stream uint64, v ...uint64) {
	s.t.Helper()
	s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(fn, 1, stream, 0, host, uint64(8*len(v)), 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(v...)))
}

func (s *sequence) event(name string, stream uint64) {
	s.t.Helper()
	if name == "record" {
		s.Then("aclrtRecordEvent", testtrace.A(ev, stream))
	} else {
		s.Then("aclrtStreamWaitEvent", testtrace.A(stream, ev))
	}
}

const list = 0x8801 // an argument list

func (s *sequence) list() {
	s.t.Helper()
	s.Then("aclrtKernelArgsInit", testtrace.A(fn, 0x10), testtrace.Outs("argsHandle", list))
}

func (s *sequence) append(b []byte) {
	s.t.Helper()
	s.Then("aclrtKernelArgsAppend", testtrace.A(list, host, uint64(len(b)), 0), testtrace.Reads("param", 0, b))
}

func (s *sequence) sync(stream uint64) {
	s.t.Helper()
	s.Then("aclrtSynchronizeStream", testtrace.A(stream))
}

func TestDevArgs(t *testing.T) {
	one, two := testtrace.Words(0x11, data), testtrace.Words(0x22, data+64)
	for _, c := range []struct {
		name string
		add  func(s *sequence)
		want []byte // arguments for the last launch, nil if unknown
		why  string
	}{
		{"a synchronous copy", func(s *sequence) { s.in(args, -1, one); s.run(args, 16, strA) }, one, ""},
		{"another thread's, before", func(s *sequence) { s.on(1).in(args, -1, one); s.on(0).run(args, 16, strA) }, one, ""},
		{"on the launch's stream", func(s *sequence) { s.in(args, strA, one); s.run(args, 16, strA) }, one, ""},
		{"the latest", func(s *sequence) { s.in(args, strA, one); s.in(args, strA, two); s.run(args, 16, strA) }, two, ""},
		{"the second half changed", func(s *sequence) {
			s.in(args, strA, one)
			s.in(args+8, strA, testtrace.Words(5))
			s.run(args, 16, strA)
		}, testtrace.Words(0x11, 5), ""},
		{"part of a longer copy", func(s *sequence) { s.in(args, strA, testtrace.Words(1, 2, 3, 4)); s.run(args+8, 16, strA) }, testtrace.Words(2, 3), ""},
		{"a long copy, kept as a blob", func(s *sequence) { s.in(args, strA, bytes.Repeat(one, 1024)); s.run(args+32, 16, strA) }, one, ""},
		{"filled", func(s *sequence) {
			s.Then("aclrtMemset", testtrace.A(args, 64, 0x5a, 64))
			s.in(args+8, strA, testtrace.Words(7))
			s.run(args, 24, strA)
		}, testtrace.Words(0x5a5a5a5a5a5a5a5a, 7, 0x5a5a5a5a5a5a5a5a), ""},
		{"copied on the device", func(s *sequence) {
			s.in(data, strA, one)
			s.Then("aclrtMemcpyAsync", testtrace.A(args, 16, data, 16, 3, strA))
			s.run(args, 16, strA)
		}, one, ""},
		{"a batch", func(s *sequence) {
			s.Then("aclrtMemcpyBatch", testtrace.A(1, 2, 3, 4, 2, 0, 0, 0, 0), testtrace.Reads("dsts", 0, testtrace.Words(args+8, args)), testtrace.Reads("srcs", 0, testtrace.Words(host, host+64)),
				testtrace.Reads("sizes", 0, testtrace.Words(8, 8)), testtrace.Reads("srcs", 1, testtrace.Words(8)), testtrace.Reads("srcs", 2, testtrace.Words(9)))
			s.run(args, 16, strA)
		}, testtrace.Words(9, 8), ""},
		{"a failed copy before", func(s *sequence) {
			s.in(args, strA, one)
			s.Then("aclrtMemcpyAsync", testtrace.A(args+64, 8, host, 8, 1, strA), testtrace.Fails(107000))
			s.run(args, 16, strA)
		}, one, ""},
		{"another stream's, waited for by the host", func(s *sequence) { s.in(args, strB, one); s.sync(strB); s.run(args, 16, strA) }, one, ""},
		{"another stream's, by the device's synchronization", func(s *sequence) {
			s.in(args, strB, one)
			s.Then("aclrtSynchronizeDevice", nil)
			s.run(args, 16, strA)
		}, one, ""},
		{"another stream's, by an event", func(s *sequence) {
			s.in(args, strB, one)
			s.event("record", strB)
			s.event("wait", strA)
			s.run(args, 16, strA)
		}, one, ""},
		{"beside another stream's", func(s *sequence) {
			s.in(args+64, strA, one)
			s.in(args+56, strB, testtrace.Words(7))
			s.in(args+80, strB, testtrace.Words(7))
			s.run(args+64, 16, strA)
		}, one, ""},
		{"over two streams", func(s *sequence) {
			s.in(args, strB, one)
			s.event("record", strB)
			s.event("wait", strA)
			s.sync(strA) // so the copy on strB has ended
			s.run(args, 16, 0)
		}, one, ""},
		{"polled", func(s *sequence) {
			s.in(args, strB, one)
			s.Then("aclrtStreamQuery", testtrace.A(strB, 0), testtrace.Outs("status", 0))
			s.run(args, 16, strA)
		}, one, ""},
		{"another kernel's data", func(s *sequence) { s.in(args, strA, one); s.withArgs(strA, data, 0x7); s.run(args, 16, strA) }, one, ""},
		{"written after a kernel had it", func(s *sequence) { s.withArgs(strA, args); s.in(args, strA, one); s.run(args, 16, strA) }, one, ""},
		{"reused in order", func(s *sequence) {
			s.in(args, strA, two)
			s.run(args, 16, strA)
			s.in(args, strA, one)
			s.run(args, 16, strA)
			s.sync(strA)
			s.in(args, -1, testtrace.Words(9, 9))
		}, one, ""},

		{"never written", func(s *sequence) { s.run(args, 16, strA) }, nil, "nothing in the trace has written byte 0"},
		{"in part", func(s *sequence) { s.in(args, strA, testtrace.Words(1)); s.run(args, 16, strA) }, nil, "written byte 8"},
		{"another stream's", func(s *sequence) { s.in(args, strB, one); s.run(args, 16, strA) }, nil, "call 5 may write them, in no certain order"},
		{"another stream's, waited for too late", func(s *sequence) { s.in(args, strB, one); s.run(args, 16, strA); s.sync(strB) }, nil, "call 5 may write them"},
		{"another stream's, after the event", func(s *sequence) {
			s.event("record", strB)
			s.in(args, strB, one)
			s.event("wait", strA)
			s.run(args, 16, strA)
		}, nil, "call 6 may write them"},
		{"the wrong stream", func(s *sequence) { s.in(args, strB, one); s.sync(strA); s.run(args, 16, strA) }, nil, "call 5 may write"},
		{"polled and not complete", func(s *sequence) {
			s.in(args, strB, one)
			s.Then("aclrtStreamQuery", testtrace.A(strB, 0), testtrace.Outs("status", 1))
			s.run(args, 16, strA)
		}, nil, "call 5 may write them"},
		{"the default stream of another device", func(s *sequence) {
			s.Then("aclrtSetDevice", testtrace.A(0))
			s.in(args, 0, one)
			s.Then("aclrtSetDevice", testtrace.A(1))
			s.run(args, 16, 0)
		}, nil, "call 6 may write them"},
		{"two copies in no order", func(s *sequence) {
			s.in(args, strB, one)
			s.in(args, strA, two)
			s.Then("aclrtSynchronizeDevice", nil)
			s.run(args, 16, strA)
		}, nil, "call 5 and call 6 may write them"},
		{"two calls at once", func(s *sequence) {
			s.in(args, strA, one)
			s.Call(1, s.Now+5, s.Now+40, "aclrtMemcpyAsync", testtrace.A(args, 16, host, 16, 1, strA), testtrace.Reads("src", 0, two))
			s.run(args, 16, strA)
		}, nil, "in no certain order"},
		{"a kernel that had the address", func(s *sequence) { s.in(args, strA, one); s.withArgs(strA, args); s.run(args, 16, strA) }, nil, "call 6 may have written them"},
		{"a kernel that had the allocation", func(s *sequence) { s.in(args, strA, one); s.withArgs(strA, 3, args+0x800); s.run(args, 16, strA) }, nil, "call 6 may have written them"},
		{"a kernel that had it by device arguments", func(s *sequence) {
			s.in(data, -1, testtrace.Words(args+0x100))
			s.run(data, 8, strA)
			s.in(args, strB, one) // may be first
			s.Then("aclrtSynchronizeDevice", nil)
			s.run(args, 16, strA)
		}, nil, "call 6 and call 7 may write them"},
		{"a kernel with unknown arguments", func(s *sequence) {
			s.in(args, strA, one)
			s.run(data, 16, strA)
			s.run(args, 16, strA)
		}, nil, "call 6 may have written them"},
		{"a kernel whose arguments were not kept", func(s *sequence) {
			s.in(args, strA, one)
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(fn, 1, strA, 0, host, 16, 0, 0))
			s.run(args, 16, strA)
		}, nil, "call 6 may have written them"},
		{"unknown bytes of the device", func(s *sequence) {
			s.in(args, strA, one)
			s.Then("aclrtMemcpyAsync", testtrace.A(args+8, 8, data, 8, 3, strA))
			s.run(args, 16, strA)
		}, nil, "call 6 may have written them"},
		{"bytes that were not kept", func(s *sequence) {
			s.in(args, strA, one)
			s.Then("aclrtMemcpyAsync", testtrace.A(args, 16, host, 16, 1, strA))
			s.run(args, 16, strA)
		}, nil, "call 6 may have written them"},
		{"a failed copy to them", func(s *sequence) {
			s.in(args, strA, one)
			s.Then("aclrtMemcpy", testtrace.A(args, 16, host, 16, 1), testtrace.Reads("src", 0, two), testtrace.Fails(507899))
			s.run(args, 16, strA)
		}, nil, "call 5 and call 6"},
		{"rows", func(s *sequence) {
			s.in(args, -1, one)
			s.Then("aclrtMemcpy2d", testtrace.A(args, 64, host, 64, 8, 2, 1))
			s.run(args, 16, strA)
		}, nil, "call 6 may have written them"},
		{"freed", func(s *sequence) {
			s.in(args, -1, one)
			s.Then("aclrtFree", testtrace.A(args))
			s.Malloc(args, 0x1000)
			s.run(args, 16, strA)
		}, nil, "nothing in the trace"},
		{"overwritten before it has run", func(s *sequence) { s.in(args, -1, one); s.run(args, 16, strA); s.in(args, -1, two) }, nil, "call 7 may overwrite them"},
		{"overwritten by another stream", func(s *sequence) { s.in(args, -1, one); s.run(args, 16, strA); s.in(args, strB, two) }, nil, "call 7 may overwrite them"},
		{"overwritten by another stream, through a wait", func(s *sequence) {
			s.in(args, -1, one)
			s.run(args, 16, strA)
			s.event("record", strA)
			s.event("wait", strB)
			s.in(args+64, strB, two)
			s.in(args, 0, two) // on a third stream, which waits for nothing
		}, nil, "call 10 may overwrite them"},
		{"overwritten by a launch that is unknown because it was overwritten", func(s *sequence) {
			s.in(data, -1, one)
			s.run(data, 16, strB) // its arguments are unknown, so it may write anything
			s.in(args, -1, one)
			s.run(args, 16, strA)
			s.in(data, -1, two)
		}, nil, "call 6 may write them, in no certain order"},
		{"a longer copy over them", func(s *sequence) {
			s.in(args, strA, one)
			s.in(args, strA, make([]byte, 65<<10))
			s.run(args, 16, strA)
		}, nil, "call 6 may have written them"},
		{"a kernel that had it by an argument list", func(s *sequence) {
			s.in(args, strA, one)
			s.list()
			s.append(testtrace.Words(args + 8))
			s.Then("aclrtLaunchKernelWithConfig", testtrace.A(fn, 1, strA, 0, list, 0))
			s.run(args, 16, strA)
		}, nil, "call 8 may have written them"},
		{"an argument list with other addresses", func(s *sequence) {
			s.in(args, strA, one)
			s.list()
			s.append(testtrace.Words(data))
			s.Then("aclrtLaunchKernelWithConfig", testtrace.A(fn, 1, strA, 0, list, 0))
			s.run(args, 16, strA)
		}, one, ""},
		{"an argument list that is older than the trace", func(s *sequence) {
			s.in(args, strA, one)
			s.append(testtrace.Words(data))
			s.Then("aclrtLaunchKernelWithConfig", testtrace.A(fn, 1, strA, 0, list, 0))
			s.run(args, 16, strA)
		}, nil, "call 7 may have written them"},
		{"a buffer of an argument list that was not kept", func(s *sequence) {
			s.in(args, strA, one)
			s.list()
			s.Then("aclrtKernelArgsGetPlaceHolderBuffer", testtrace.A(list, 1, 8, 0), testtrace.Outs("bufferAddr", host))
			s.Then("aclrtLaunchKernelWithConfig", testtrace.A(fn, 1, strA, 0, list, 0))
			s.run(args, 16, strA)
		}, nil, "call 8 may have written them"},
		{"a buffer of an argument list with their address", func(s *sequence) {
			s.in(args, strA, one)
			s.list()
			s.Then("aclrtKernelArgsGetPlaceHolderBuffer", testtrace.A(list, 1, 8, 0), testtrace.Outs("bufferAddr", host))
			s.Then("aclrtLaunchKernelWithConfig", testtrace.A(fn, 1, strA, 0, list, 0), testtrace.Reads("argsHandle", 1, testtrace.Words(args)))
			s.run(args, 16, strA)
		}, nil, "call 8 may have written them"},
		{"an array of arguments that was kept in part", func(s *sequence) {
			s.in(args, strA, one)
			s.Then("aclrtLaunchKernelWithArgsArray", testtrace.A(fn, 1, strA, 0, host), testtrace.Reads("args", 1, testtrace.Words(1)), func(f *api.Func, c *format.Call) {
				c.Data = append(c.Data, format.Data{Param: uint8(f.Param("args")), Item: 2, Status: format.Missing, Len: 8, Time: c.Start})
			})
			s.run(args, 16, strA)
		}, nil, "call 6 may have written them"},
		{"an array of other arguments", func(s *sequence) {
			s.in(args, strA, one)
			s.Then("aclrtLaunchKernelWithArgsArray", testtrace.A(fn, 1, strA, 0, host), testtrace.Reads("args", 1, testtrace.Words(1)), testtrace.Reads("args", 2, testtrace.Words(data)))
			s.run(args, 16, strA)
		}, one, ""},
		{"an event that was recorded while it was waited for", func(s *sequence) {
			s.in(args, strB, one)
			s.Call(1, s.Now+20, s.Now+60, "aclrtRecordEvent", testtrace.A(ev, strB))
			s.Now += 10
			s.event("wait", strA)
			s.Now += 40
			s.run(args, 16, strA)
		}, nil, "call 5 may write them"},
		{"a wait that may have come after what was waited for", func(s *sequence) {
			s.in(args, strB, one)
			s.event("record", strB)
			s.Now += 20
			// The host synchronizes strA while another thread makes strB wait for strA.
			s.Call(1, s.Now, s.Now+60, "aclrtStreamWaitEvent", testtrace.A(strA, ev))
			s.sync(strA)
			s.run(args, 16, 0)
		}, nil, "call 5 may write them"},
		{"a gap", func(s *sequence) {
			s.in(args, -1, one)
			s.Gap(format.Gap{Thread: 0, From: s.Now + 11, To: s.Now + 12, Calls: 1, Reason: format.Dropped})
			s.run(args, 16, strA)
		}, nil, "a call that was lost may write them"},
		{"elsewhere", func(s *sequence) { s.run(devB, 16, strA) }, nil, "in no allocation"},
		{"beyond the end", func(s *sequence) { s.in(args, -1, one); s.run(args+0x1fff8, 16, strA) }, nil, "beyond the allocation"},
		{"failed", func(s *sequence) {
			s.in(args, -1, one)
			s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, args, 16, strA), testtrace.Fails(107000))
		}, nil, "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSequence(t)
			s.Malloc(args, 0x20000)
			s.Malloc(data, 0x1000)
			s.Stream(strA)
			s.Stream(strB)
			s.Then("aclrtCreateEvent", testtrace.A(0), testtrace.Outs("event", ev))
			c.add(s) // from call 5 on
			var got []byte
			var known bool
			why := "no launch"
			s.calls(func(q *access.Call) {
				e := q.Event
				if e.Fn.Name == "aclrtLaunchKernel" {
					b, k, w := q.DevArgs()
					got, known, why = bytes.Clone(b), k, w
				}
			})
			if known != (c.want != nil) || known && !bytes.Equal(got, c.want) || !known && !strings.Contains(why, c.why) {
				t.Errorf("arguments %x, known %v: %s; want %x: %s", got, known, why, c.want, c.why)
			}
		})
	}
}

// A kernel reaches the memory whose addresses are among its arguments in device memory.
func TestDevArgsLeadToMemory(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Malloc(args, 0x1000)
	s.Malloc(devB, 4096)
	s.in(args, strA, testtrace.Words(7, devB+8))
	s.run(args, 16, strA)
	all := s.each()
	if got := all[len(all)-1]; !strings.Contains(got+",", "0x124000100000 names,") { // by an argument, not only by what memory holds
		t.Errorf("%q", all)
	}
}

func TestDevArgsOfACapture(t *testing.T) {
	s := newSequence(t)
	s.Malloc(args, 0x1000)
	s.in(args, strA, testtrace.Words(1))
	s.run(args, 8, strA)
	begin := acl.Model.Lookup("aclmdlRICaptureBegin")
	s.calls(func(q *access.Call) {
		e := q.Event
		if e.Fn.Name != "aclrtLaunchKernel" {
			return
		}
		if _, known, why := q.DevArgs(); !known {
			t.Error(why)
		}
		launch := *e.Call
		q.Apply(0, &format.Call{Func: uint16(begin.ID), Args: make([]uint64, begin.Words), Start: launch.End, End: launch.End})
		q.Apply(0, &launch)
		if _, known, why := q.DevArgs(); known || !strings.Contains(why, "graph") {
			t.Errorf("known %v, %q", known, why)
		}
	})
}

// TestDevArgsLate stores a copy's payload after its call, as recorders do.
func TestDevArgsLate(t *testing.T) {
	t.Run("whole", func(t *testing.T) { testLate(t, format.Coverage{}, "") })
	t.Run("harmless calls passed by", func(t *testing.T) {
		testLate(t, format.Coverage{PassedBy: map[string]uint64{"aclrtGetVersion": 3, "unheardOf": 1}}, "")
	})
	t.Run("work passed by", func(t *testing.T) {
		testLate(t, format.Coverage{PassedBy: map[string]uint64{"aclrtReduceAsync": 1}}, "aclrtReduceAsync")
	})
	t.Run("threads not recorded", func(t *testing.T) { testLate(t, format.Coverage{Refused: 2}, "2 threads were not recorded") })
}

func testLate(t *testing.T, coverage format.Coverage, unseen string) {
	model := acl.Model
	path := filepath.Join(t.TempDir(), "late.aclt")
	schema := &format.Schema{API: model.Name}
	for _, name := range []string{"aclrtMalloc", "aclrtMemcpy", "aclrtLaunchKernel"} {
		f := model.Lookup(name)
		schema.Functions = append(schema.Functions, format.Function{ID: uint16(f.ID), Name: name, Ret: f.Return, Words: int(f.Words)})
	}
	w, err := format.Create(path, &format.Meta{API: model.Name, Coverage: coverage}, schema, nil)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	_, err = w.Process(format.Process{PID: 1})
	check(err)
	_, err = w.Thread(format.Thread{TID: 1})
	check(err)
	now := int64(0)
	call := func(name string, args ...uint64) uint64 {
		now += 20
		c := &format.Call{Func: uint16(model.Lookup(name).ID), Start: now, End: now + 10, Args: args}
		if name == "aclrtMalloc" {
			c.Outs = []format.Out{{Param: 0, Value: devA}}
		}
		i, err := w.Call(c)
		check(err)
		return i
	}
	call("aclrtMalloc", 0, 0x1000, 0)
	i := call("aclrtMemcpy", args, 16, host, 16, 1)
	check(w.Flush())
	want := testtrace.Words(3, 4)
	check(w.Data(&format.Data{Call: i, Param: uint8(model.Lookup("aclrtMemcpy").Param("src")), Bytes: want}))
	call("aclrtLaunchKernel", fn, 1, args, 16, strA)
	check(w.Close())
	r, err := format.Open(path, nil)
	check(err)
	defer r.Close()
	s, err := access.New(r, model, nil)
	check(err)
	found := false
	for c, err := range r.CallsByStart(nil) {
		check(err)
		s.Apply(0, c)
		b, known, why := s.DevArgs()
		if c.Index == 2 {
			if found = true; known != (unseen == "") || known && !bytes.Equal(b, want) || !known && !strings.Contains(why, unseen) {
				t.Errorf("%x %v %s", b, known, why)
			}
		}
	}
	if !found {
		t.Error("no launch")
	}
}

// TestShadowIsBounded writes more small pieces than the shadow follows.
func TestShadowIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 64 MiB")
	}
	s := newSequence(t)
	const size = 4096
	s.Malloc(args, 1<<40)
	for i := range uint64(17000) {
		b := make([]byte, size)
		copy(b, fmt.Sprint(i))
		s.in(args+i*size, -1, b)
	}
	s.run(args, 16, strA)
	s.calls(func(q *access.Call) {
		e := q.Event
		if e.Fn.Name != "aclrtLaunchKernel" {
			return
		}
		if _, known, why := q.DevArgs(); known || !strings.Contains(why, "more small pieces") {
			t.Errorf("known %v, %q", known, why)
		}
	})
}
