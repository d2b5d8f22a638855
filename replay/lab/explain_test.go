package lab

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// A call that failed wrote nothing: it is not in the history of a byte, and hides no earlier write.
func TestExplainSkipsFailedCalls(t *testing.T) {
	const memory, size, host = 0x124000000000, 64, 0x7f0000000000
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Malloc(memory, size)
	s.Then("aclrtMemset", testtrace.A(memory, size, 1, size))
	s.Then("aclrtMemcpy", testtrace.A(memory, size, host, size, 1), testtrace.Reads("src", 0, make([]byte, size)), testtrace.Fails(507015))
	s.Then("aclrtMemset", testtrace.A(memory, size/2, 2, size/2), testtrace.Fails(507015))
	s.Then("aclrtMemcpy", testtrace.A(host, size, memory, size, 2))
	r := s.Load().Reader
	histories, err := Explain(t.Context(), r, acl.Model, []Byte{{Call: 5}})
	if err != nil {
		t.Fatal(err)
	}
	h := histories[0]
	if len(h.Chain) != 1 || h.Chain[0].Call != 2 || h.ChainTotal != 1 {
		t.Errorf("%+v, want call 2 alone", h)
	}
}
