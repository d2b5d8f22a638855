package access_test

import (
	"encoding/binary"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

const (
	devA = 0x124000000000
	devB = 0x124000100000
	host = 0x7f0000001000
	strA = 0x5501
	strB = 0x5502
	fn   = 0x6601
	ev   = 0x7701
)

// teller writes calls in sequence, each 10 ns long, 10 ns apart.
type teller struct {
	t testing.TB
	*testtrace.Builder
	now    int64
	thread uint32
}

func tell(t testing.TB) *teller { return &teller{t: t, Builder: testtrace.New(t)} }

// on sets the thread of the following calls: 0 and 1 belong to one process, 2 to another one.
func (s *teller) on(thread uint32) *teller { s.thread = thread; return s }

func (s *teller) call(name string, args []uint64, mods ...testtrace.Mod) {
	s.t.Helper()
	s.now += 20
	s.Call(s.thread, s.now, s.now+10, name, args, mods...)
}

func (s *teller) malloc(addr, size uint64) {
	s.t.Helper()
	s.call("aclrtMalloc", testtrace.A(0x7ffe0000, size, 0), testtrace.Outs("devPtr", addr))
}

func (s *teller) stream(handle uint64) {
	s.t.Helper()
	s.call("aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", handle))
}

// reads adds input data to a parameter of the call.
func reads(name string, item uint32, b []byte) testtrace.Mod {
	return func(f *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: uint8(f.Param(name)), Item: item, Len: uint64(len(b)), Bytes: b, Time: c.Start})
	}
}

func words(v ...uint64) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// events applies the trace to a Tracker and visits each call. follow calls Tracker.Follow first.
func (s *teller) events(follow bool, visit func(tr *access.Tracker, e *timeline.Event)) {
	s.t.Helper()
	r := s.Load().Reader
	tr := access.New(timeline.NewState(acl.Model), r)
	if follow {
		if err := tr.Follow(); err != nil {
			s.t.Fatal(err)
		}
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			s.t.Fatal(err)
		}
		visit(tr, tr.Apply(r.Threads()[c.Thread].Process, c))
	}
}
