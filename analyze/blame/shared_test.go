package blame_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// sharers is a trace of two processes. One writes memory and records a notify, the other imports both.
type sharers struct {
	*testtrace.Sequence
	at int64
}

const (
	keys, imported, private = 0x1240_0000_0000, 0x1241_0000_0000, 0x1242_0000_0000
	notify, importedNotify  = 0x7700, 0x8800
	reader, writer          = 0, 2 // threads
)

func newSharers(t *testing.T) *sharers {
	s := &sharers{testtrace.NewSequence(t), 1000}
	key := func(text string) testtrace.Mod {
		return func(f *api.Func, c *format.Call) {
			c.Data = append(c.Data, format.Data{Param: uint8(f.Param("key")), Dir: format.DirOut, Len: uint64(len(text)), Bytes: []byte(text)})
		}
	}
	s.call(writer, "aclrtMalloc", testtrace.A(0x7ffe0000, 4096, 0), testtrace.Outs("devPtr", keys))
	s.call(writer, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamB))
	s.call(writer, "aclrtIpcMemGetExportKey", testtrace.A(keys, 4096, 0x7ffe0020, 65, 0), key("memory"))
	s.call(writer, "aclrtCreateNotify", testtrace.A(0x7ffe0000, 0), testtrace.Outs("notify", notify))
	s.call(writer, "aclrtNotifyGetExportKey", testtrace.A(notify, 0x7ffe0020, 65, 0), key("notify"))
	s.call(reader, "aclrtMalloc", testtrace.A(0x7ffe0000, 4096, 0), testtrace.Outs("devPtr", private))
	s.call(reader, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	s.call(reader, "aclrtIpcMemImportByKey", testtrace.A(0x7ffe0000, 0x7ffe0020, 0), testtrace.Text("key", "memory"), testtrace.Outs("devPtr", imported))
	s.call(reader, "aclrtNotifyImportByKey", testtrace.A(0x7ffe0000, 0x7ffe0020, 0), testtrace.Text("key", "notify"), testtrace.Outs("notify", importedNotify))
	return s
}

func (s *sharers) call(thread uint32, name string, args []uint64, mods ...testtrace.Mod) {
	s.Call(thread, s.at, s.at+50, name, args, mods...)
	s.at += 100
}

// pass writes the memory and reads it, with or without a wait. The writer has waited for its work before the read, or it does later.
func (s *sharers) pass(waits, early bool) {
	s.call(writer, "aclrtMemsetAsync", testtrace.A(keys, 4096, 1, 4096, testtrace.StreamB))
	s.call(writer, "aclrtRecordNotify", testtrace.A(notify, testtrace.StreamB))
	if early {
		s.call(writer, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
	}
	if waits {
		s.call(reader, "aclrtWaitAndResetNotify", testtrace.A(importedNotify, testtrace.StreamA, 0))
	}
	s.call(reader, "aclrtMemcpyAsync", testtrace.A(private, 1024, imported, 1024, 3, testtrace.StreamA))
	s.call(writer, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
	s.call(reader, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
}

func TestUnorderedAccessesToSharedMemoryAreAHint(t *testing.T) {
	for _, c := range []struct {
		name         string
		waits, early []bool // by pass
		races, bare  int
	}{
		{"each read waits", []bool{true, true, true}, make([]bool, 3), 0, 0},
		{"no read waits", []bool{false, false, false}, make([]bool, 3), 1, 0},
		{"the writer has waited", []bool{false, false, false}, []bool{true, true, true}, 0, 0},
		{"one read of eight does not wait", []bool{true, true, true, true, true, true, false, true}, []bool{6: true, 7: true}, 0, 1},
	} {
		s := newSharers(t)
		for i := range c.waits {
			s.pass(c.waits[i], c.early[i])
		}
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if c.races+c.bare == 0 {
			if !errors.Is(err, blame.ErrNothingFailed) {
				t.Errorf("%s: %+v, %v", c.name, rep, err)
			}
			continue
		}
		if err != nil || len(rep.Races) != c.races || len(rep.BareReads) != c.bare {
			t.Fatalf("%s: %+v, %v", c.name, rep, err)
		}
		for _, x := range rep.Races {
			if x.Func != "aclrtMemcpyAsync" || x.Writes || x.Other.Func != "aclrtMemsetAsync" || !x.Wrote || x.Bytes != 1024 || x.Races != 3 || x.Place.Addr != keys {
				t.Errorf("%s: %+v", c.name, x)
			}
		}
		for _, x := range rep.BareReads {
			if x.Func != "aclrtMemcpyAsync" || x.PID != 4001 || x.Owner != 4002 || x.Waited != 6 || x.Reads != 7 || x.Place.Addr != keys {
				t.Errorf("%s: %+v", c.name, x)
			}
		}
	}
}

// Kernels of two processes had the address of shared memory, one of them wrote there, and nothing was said.
func TestUnorderedKernelsOnSharedMemoryAreAHint(t *testing.T) {
	for _, c := range []struct {
		name         string
		waits, copy  bool // the reader waits for a notify; it copies instead of launching a kernel
		races        int
		names, named bool
	}{
		{"two kernels", false, false, 1, true, true},
		{"a kernel and a copy", false, true, 1, false, true},
		{"a wait between them", true, false, 0, false, false},
	} {
		s := newSharers(t)
		launch := func(thread uint32, stream, at uint64) {
			s.call(thread, "aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 1, stream, 0, 0x7ffe0100, 16, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(at, 7)))
		}
		for range 2 {
			launch(writer, testtrace.StreamB, keys)
			s.call(writer, "aclrtRecordNotify", testtrace.A(notify, testtrace.StreamB))
			if c.waits {
				s.call(reader, "aclrtWaitAndResetNotify", testtrace.A(importedNotify, testtrace.StreamA, 0))
			}
			if c.copy {
				s.call(reader, "aclrtMemcpyAsync", testtrace.A(private, 1024, imported, 1024, 3, testtrace.StreamA))
			} else {
				launch(reader, testtrace.StreamA, imported)
			}
			launch(reader, testtrace.StreamA, imported+512) // another address: the memory may be a pool
			s.call(writer, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
			s.call(reader, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		if c.races == 0 {
			if rep, err := blame.Blame(s.Load().Reader, acl.Model, nil); !errors.Is(err, blame.ErrNothingFailed) {
				t.Errorf("%s: %+v, %v", c.name, rep, err)
			}
			continue
		}
		rep, text := judged(t, s.Sequence)
		if len(rep.Races) != c.races || !strings.Contains(text, " may access memory that two processes share") || !strings.Contains(text, "if one of the two writes there, this is a race") {
			t.Fatalf("%s: %+v\n%s", c.name, rep, text)
		}
		if x := rep.Races[0]; x.Names != c.names || x.Named != c.named || x.Bytes != 0 || x.Races != 2 || x.Place.Addr != keys || x.Writes || x.Wrote {
			t.Errorf("%s: %+v", c.name, x)
		}
	}
}

// The process that should have recorded the notify was killed, and the call that returned the error was named instead of the wait.
func TestBlameOfALostPeerNamesTheWait(t *testing.T) {
	s := newSharers(t)
	s.call(reader, "aclrtWaitAndResetNotify", testtrace.A(importedNotify, testtrace.StreamA, 0))
	s.call(reader, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Fails(507022))
	rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Suspects) == 0 || rep.Suspects[0].Func != "aclrtWaitAndResetNotify" || rep.Suspects[0].Reasons[0].Kind != blame.Waiting {
		t.Errorf("%+v", rep.Suspects)
	}
}

// A wait that another process had released was blamed for the failure of a later task, as if the stream still stood there.
func TestBlameOfAFaultNamesNoWait(t *testing.T) {
	s := newSharers(t)
	s.call(reader, "aclrtWaitAndResetNotify", testtrace.A(importedNotify, testtrace.StreamA, 0))
	s.call(reader, "aclrtMemcpyAsync", testtrace.A(private, 1024, imported, 1024, 3, testtrace.StreamA))
	s.call(reader, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Fails(507013))
	rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rep.Suspects {
		for _, r := range x.Reasons {
			if r.Kind == blame.Waiting {
				t.Errorf("%s: %+v", x.Func, r)
			}
		}
	}
}
