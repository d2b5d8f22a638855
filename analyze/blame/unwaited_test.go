package blame_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// decoding makes steps that copy a result to the host and wait before the next work. In one of them, wait returns false.
func decoding(t *testing.T, steps int, wait func(s *testtrace.Sequence, step int) bool) *testtrace.Sequence {
	return copying(t, steps, func(s *testtrace.Sequence, host uint64) {
		s.Then("aclrtMemcpyAsync", testtrace.A(host, 32, testtrace.DeviceB, 32, 2, testtrace.StreamA))
	}, wait)
}

// copying makes steps with any copy.
func copying(t *testing.T, steps int, makeCopy func(s *testtrace.Sequence, host uint64), wait func(s *testtrace.Sequence, step int) bool) *testtrace.Sequence {
	const host = 0x7f0000001000
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA)
	s.Malloc(testtrace.DeviceB, 4096)
	s.Then("aclrtMallocHost", testtrace.A(0x7ffe0000, 4096), testtrace.Outs("hostPtr", host))
	for step := range steps {
		s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceB, 64, testtrace.StreamA))
		makeCopy(s, host)
		if wait(s, step) {
			s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
		s.Then("aclrtMemsetAsync", testtrace.A(testtrace.DeviceB, 64, 0, 64, testtrace.StreamA))
	}
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	return s
}

// A program that read a copy's destination before it waited got no hint: a host's read leaves no call.
func TestCopyWithoutTheUsualWait(t *testing.T) {
	hints := func(s *testtrace.Sequence) []blame.Unwaited {
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if errors.Is(err, blame.ErrNothingFailed) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := report.BlameText(&text, rep, nil); err != nil {
			t.Fatal(err)
		}
		for _, u := range rep.Unwaited {
			want := fmt.Sprintf("call %d aclrtMemcpyAsync copies to the host at 0x7f0000001000, and the program did not wait for it before call %d aclrtMemsetAsync", u.Index, u.Next.Index)
			if got := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(got, want) || !strings.Contains(got, fmt.Sprintf("in %d of %d such copies", u.Waited, u.Waited+u.Times)) {
				t.Errorf("want %q:\n%s", want, &text)
			}
		}
		return rep.Unwaited
	}
	usual := func(_ *testtrace.Sequence, step int) bool { return step != 4 }
	breach := decoding(t, 6, func(_ *testtrace.Sequence, step int) bool { return step != 4 })
	if got := hints(breach); len(got) != 1 || got[0].Waited != 5 || got[0].Times != 1 || got[0].Index != 3+4*4+1 {
		t.Errorf("one of six copies without a wait: %+v", got)
	}
	failed := decoding(t, 6, func(_ *testtrace.Sequence, step int) bool { return step != 4 })
	failed.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Fails(507015))
	if got := hints(failed); len(got) != 1 {
		t.Errorf("the program fails later: %+v", got)
	}
	for name, s := range map[string]*testtrace.Sequence{
		"all wait":  decoding(t, 8, func(*testtrace.Sequence, int) bool { return true }),
		"no habit":  decoding(t, 20, func(_ *testtrace.Sequence, step int) bool { return step%3 != 0 }),
		"pipelined": decoding(t, 20, func(_ *testtrace.Sequence, step int) bool { return step%10 == 0 }),
		"few steps": decoding(t, 5, func(_ *testtrace.Sequence, step int) bool { return step != 2 }),
		// An output thread waits, before or after the next launch, as chance has it.
		"another thread": decoding(t, 8, func(s *testtrace.Sequence, step int) bool {
			if step != 4 {
				s.Call(1, s.Now+10, s.Now+15, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			}
			return false
		}),
		// The program needs no wait for these.
		"to the device": copying(t, 8, func(s *testtrace.Sequence, host uint64) {
			s.Then("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceB, 32, host, 32, 1, testtrace.StreamA))
		}, usual),
		"synchronous": copying(t, 8, func(s *testtrace.Sequence, host uint64) {
			s.Then("aclrtMemcpy", testtrace.A(host, 32, testtrace.DeviceB, 32, 2))
		}, usual),
		"pageable": copying(t, 8, func(s *testtrace.Sequence, host uint64) {
			s.Then("aclrtMemcpyAsync", testtrace.A(host+1<<20, 32, testtrace.DeviceB, 32, 2, testtrace.StreamA))
		}, usual),
	} {
		if got := hints(s); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
