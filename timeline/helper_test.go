package timeline_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
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

func (s *teller) function(handle uint64, name string) {
	s.t.Helper()
	s.call("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Outs("funcHandle", handle), testtrace.Text("kernelName", name))
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

// events applies the trace to a State and visits each call.
func (s *teller) events(visit func(st *timeline.State, e *timeline.Event)) {
	s.t.Helper()
	r := s.Load().Reader
	st := timeline.NewState(acl.Model)
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			s.t.Fatal(err)
		}
		visit(st, st.Apply(r.Threads()[c.Thread].Process, c))
	}
}

// uses lists the objects that each call names, as "stream#1 device#2+0x10".
func (s *teller) uses() []string {
	s.t.Helper()
	var out []string
	s.events(func(_ *timeline.State, e *timeline.Event) {
		var parts []string
		for _, u := range e.Uses {
			parts = append(parts, timeline.Place(u))
		}
		out = append(out, strings.Join(parts, " "))
	})
	return out
}
