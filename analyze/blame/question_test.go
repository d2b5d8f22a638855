package blame_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// imports adds the questions that a framework asks before its work: for packages that are absent, for a device before one is set, and for a second
// initialization.
func imports(s *testtrace.Sequence) {
	a, fails := testtrace.A, testtrace.Fails
	s.Then("aclInit", a(0))
	s.Then("aclsysGetCANNVersion", a(4, 0x7ffe0000), fails(100003))
	for range 5 {
		s.Then("aclsysGetVersionStr", a(0x10, 0x7ffe0000), testtrace.Text("pkgName", "ops_nn"), fails(100003))
	}
	s.Then("aclrtGetDevice", a(0x7ffe0000), fails(107002))
	s.Then("aclInit", a(0), fails(100002))
	s.Then("aclrtSetDevice", a(0))
}

func exit(s *testtrace.Sequence, code int) {
	s.Process(0, format.Process{PID: 4001, Exe: "/opt/app/train", Argv: []string{"train"}, ExitCode: code, End: 1 << 40})
}

// Healthy runs of a framework ended with "next: acltrace blame", and blame found a version query guilty.
func TestQuestionsAreNotFailures(t *testing.T) {
	s := testtrace.NewSequence(t)
	imports(s)
	s.Then("aclrtCacheLastTaskOpInfo", testtrace.A(0x7ffe0000, 92), testtrace.Fails(107000)) // of a task that is not captured
	s.Malloc(testtrace.DeviceA, 1<<20)
	exit(s, 0)
	tl := s.Load()
	sum, err := stats.New(tl.Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Failed != 0 || sum.Answered != 9 || slices.ContainsFunc(sum.Findings, func(f stats.Finding) bool { return f.Kind == stats.FailedCalls }) {
		t.Errorf("%d failed, %d answered, %+v", sum.Failed, sum.Answered, sum.Findings)
	}
	in, err := report.NewInfo("run.aclt", tl.Reader, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	if in.Calls.Failed != 0 || in.Calls.Answered != 9 {
		t.Errorf("%+v", in.Calls)
	}
	var text strings.Builder
	if err := in.Text(&text, &report.TextOptions{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "0 failed (9 questions answered no)") || !strings.Contains(text.String(), "next: acltrace stats") {
		t.Error(text.String())
	}
	if _, err := blame.Blame(tl.Reader, acl.Model, nil); !errors.Is(err, blame.ErrNothingFailed) {
		t.Errorf("blame: %v", err)
	}
	sel, err := timeline.NewSelector(tl.Reader, acl.Model, &timeline.Selection{Failed: true})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := timeline.NewWalk(tl.Reader, acl.Model, &timeline.WalkOptions{Select: sel}).Run(&timeline.Visitor{Call: func(*timeline.HostCall, *timeline.Task) error { n++; return nil }}); err != nil || n != 0 {
		t.Errorf("--failed selects %d calls, %v", n, err)
	}
}

// A fault that a question reports is a failure all the same.
func TestQuestionReportsFault(t *testing.T) {
	s := testtrace.NewSequence(t)
	imports(s)
	s.Then("aclrtGetLastError", testtrace.A(0), testtrace.Fails(507015))
	rep, text := judged(t, s)
	if rep.Failure == nil || rep.Failure.Func != "aclrtGetLastError" || rep.Answered != 8 {
		t.Error(text)
	}
}

// Out of memory was blamed on a version query. The failure is the allocation that the program did not survive, with the memory in use.
func TestBlameNamesTheFatalFailure(t *testing.T) {
	const small, large = 1 << 20, 1 << 30
	malloc := func(s *testtrace.Sequence, size uint64) {
		s.Then("aclrtMalloc", testtrace.A(0x7ffe0000, size, 0), testtrace.Fails(207001))
	}
	for name, c := range map[string]struct {
		calls func(s *testtrace.Sequence)
		code  int
		want  []string
	}{
		"out of memory": {func(s *testtrace.Sequence) {
			for i := range uint64(3) {
				s.Malloc(testtrace.DeviceA+i*large, large)
			}
			s.Malloc(testtrace.DeviceA+8*large, small)
			malloc(s, 2*large)
			malloc(s, 2*large) // again, after the framework has emptied its caches
			s.Malloc(testtrace.DeviceA+9*large, small)
			s.Then("aclrtDestroyStream", testtrace.A(testtrace.StreamA), testtrace.Fails(107003)) // on the way out
		}, 1, []string{"failed call 15 aclrtMalloc: ACL_ERROR_RT_MEMORY_ALLOCATION (207001)", "3 GiB in 4 allocations; 2 GiB more did not fit",
			"3 of 1 GiB, made by call 10 aclrtMalloc", "asked 8 questions answered no, which is no failure"}},
		"out of memory on one device of two": {func(s *testtrace.Sequence) {
			s.Malloc(testtrace.DeviceA, large)
			s.Then("aclrtSetDevice", testtrace.A(1))
			s.Malloc(testtrace.DeviceA+large, small)
			malloc(s, 2*large)
		}, 1, []string{fmt.Sprintf("%s in 1 allocation; 2 GiB more did not fit; 1 GiB on other devices", human.Bytes(small)), "1 of " + human.Bytes(small) + ", made by call 12"}},
		"memory after all": {func(s *testtrace.Sequence) {
			malloc(s, large)
			s.Malloc(testtrace.DeviceA, large) // the caches were emptied
			s.Then("aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, 0x5000, 128, 1), testtrace.Fails(107000))
			s.Then("aclrtFree", testtrace.A(testtrace.DeviceA))
		}, 1, []string{"failed call 12 aclrtMemcpy: ACL_ERROR_RT_PARAM_INVALID (107000)"}},
		"all survived": {func(s *testtrace.Sequence) {
			malloc(s, large)
			s.Malloc(testtrace.DeviceA, large)
		}, 1, []string{"failed call 10 aclrtMalloc", "the program went on after this call"}},
		"outlived": {func(s *testtrace.Sequence) {
			malloc(s, large)
			malloc(s, large)
			s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 4, testtrace.DeviceA, 64, testtrace.StreamA))
			malloc(s, small) // nothing is launched after this one
		}, 0, []string{"failed call 13 aclrtMalloc"}},
		"outlived well": {func(s *testtrace.Sequence) {
			malloc(s, large)
			malloc(s, large)
			s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 4, testtrace.DeviceA, 64, testtrace.StreamA))
		}, 0, []string{"failed call 10 aclrtMalloc", "survived the program went on after this call, and ended with exit code 0"}},
		"outlived, then another failure": {func(s *testtrace.Sequence) {
			malloc(s, large)
			malloc(s, large)
			s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 4, testtrace.DeviceA, 64, testtrace.StreamA))
			s.Then("aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, 0x5000, 128, 1), testtrace.Fails(107000))
		}, 0, []string{"failed call 13 aclrtMemcpy"}},
		"an answer that the program took for a failure": {func(s *testtrace.Sequence) { // and asked for its text before it ended
			s.Then("aclInit", testtrace.A(0), testtrace.Fails(100002))
			s.Then("aclGetRecentErrMsg", nil)
		}, 1, []string{"failed call 10 aclInit: ACL_ERROR_REPEAT_INITIALIZE (100002)"}},
		"no error at the end": {func(s *testtrace.Sequence) {
			s.Then("aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, 0x5000, 128, 1), testtrace.Fails(107000))
			malloc(s, large)
		}, 0, []string{"failed call 10 aclrtMemcpy"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := testtrace.NewSequence(t)
			imports(s)
			c.calls(s)
			exit(s, c.code)
			r := s.Load().Reader
			rep, text := judgedIn(t, r)
			sum, err := stats.New(r, acl.Model, nil)
			if err != nil {
				t.Fatal(err)
			}
			outlived := func(f stats.Finding) bool { return f.Kind == stats.Outlived && f.Count == 2 && f.Bytes == large }
			failed := func(f stats.Finding) bool { return f.Kind == stats.FailedCalls }
			if got := slices.ContainsFunc(sum.Findings, outlived); got != strings.HasPrefix(name, "outlived") || slices.ContainsFunc(sum.Findings, failed) && rep.EndedWell {
				t.Errorf("%+v", sum.Findings)
			}
			flat := strings.Join(strings.Fields(text), " ")
			for _, want := range c.want {
				if !strings.Contains(flat, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if strings.Contains(text, "aclsys") {
				t.Errorf("a question is named:\n%s", text)
			}
		})
	}
}

// A worker that was forked after the first call had "no suspect", though nothing works in it.
func TestForkedProcessIsNamed(t *testing.T) {
	for _, parent := range []int{4001, 0} {
		s := testtrace.NewSequence(t)
		s.Process(1, format.Process{PID: 4002, PPID: 4001, ForkedFrom: parent})
		s.Call(2, 1_000_000, 1_000_100, "aclrtSetDevice", testtrace.A(0), testtrace.Fails(507899))
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := report.BlameText(&text, rep, nil); err != nil {
			t.Fatal(err)
		}
		if want := "process 4002 was forked from process 4001, which had called the runtime"; rep.Forked != parent || strings.Contains(text.String(), want) != (parent != 0) {
			t.Error(rep.Forked, text.String())
		}
	}
}
