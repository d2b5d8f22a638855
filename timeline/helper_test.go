package timeline_test

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

type sequence struct {
	t testing.TB
	*testtrace.Sequence
}

func newSequence(t testing.TB) *sequence { return &sequence{t, testtrace.NewSequence(t)} }

// on sets the thread of the following calls: 0 and 1 belong to one process, 2 to another one.
func (s *sequence) on(thread uint32) *sequence { s.Thread = thread; return s }

func (s *sequence) function(handle uint64, name string) {
	s.t.Helper()
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Outs("funcHandle", handle), testtrace.Text("kernelName", name))
}

// events applies the trace to a State and visits each call.
func (s *sequence) events(visit func(st *timeline.State, e *timeline.Event)) {
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
func (s *sequence) uses() []string {
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
