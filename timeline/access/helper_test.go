package access_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
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

type sequence struct {
	t testing.TB
	*testtrace.Sequence
}

func newSequence(t testing.TB) *sequence { return &sequence{t, testtrace.NewSequence(t)} }

// on sets the thread of the following calls: 0 and 1 belong to one process, 2 to another one.
func (s *sequence) on(thread uint32) *sequence { s.Thread = thread; return s }

// calls visits each call of the trace.
func (s *sequence) calls(visit func(q *access.Call)) {
	s.t.Helper()
	r := s.Load().Reader
	x, err := access.New(r, acl.Model, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			s.t.Fatal(err)
		}
		visit(x.Apply(r.Threads()[c.Thread].Process, c))
	}
}
