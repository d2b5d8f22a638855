package record_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/session"
)

// A call that never returns was not shown: each command reported no unfinished call for a recording in progress.
func TestCallsInProgress(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	trace := filepath.Join(t.TempDir(), "hang.aclt")
	recorder := exec.Command(acltrace, append([]string{"record", "--sim", "-q", "-o", trace, "--"}, hang(t)...)...)
	folder := waits(t, recorder)
	st, err := session.Ask(folder, &session.Request{Do: session.ActStatus})
	if err != nil || len(st.Standing) != 1 {
		t.Fatalf("%v: %+v", err, st)
	}
	s := st.Standing[0]
	if s.Func != "aclrtSynchronizeStream" || !strings.HasPrefix(s.On, "stream 0x") || s.TID != s.PID || s.ForNS <= 0 || s.StartNS <= 0 {
		t.Errorf("%+v", s)
	}
	for _, args := range [][]string{{"info", trace}, {"info", "--json", trace}, {"top", "--once", trace}, {"top", "--once", "--json", trace}, {"cat", trace}, {"blame", trace}, {"ctl", "status", "--session", folder}} {
		out, _ := exec.Command(acltrace, args...).CombinedOutput()
		for _, want := range []string{"aclrtSynchronizeStream", s.On} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v does not say %q:\n%s", args, want, out)
			}
		}
	}
}

// A slow call sealed a ring only when it returned. Now a call that never returns causes one seal, and the trace has the call.
func TestSlowCallInProgress(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	trace := filepath.Join(t.TempDir(), "slow.aclt")
	recorder := exec.Command(acltrace, append([]string{"record", "--sim", "-q", "--ring", "1M", "--slow", "200ms", "-o", trace, "--"}, hang(t)...)...)
	folder := waits(t, recorder)
	testenv.Wait(t, "the seal", func() bool {
		r, err := format.Open(trace, nil)
		if err != nil {
			return false
		}
		defer r.Close()
		return r.Complete()
	})
	r := open(t, trace)
	if why := r.Meta().Sealed; !strings.Contains(why, "aclrtSynchronizeStream of thread") || !strings.Contains(why, "has not returned for") {
		t.Errorf("sealed because %q", why)
	}
	rep, err := blame.Blame(r, acl.Model, nil)
	if err != nil || rep.Failure == nil || rep.Failure.Func != "aclrtSynchronizeStream" || rep.Failure.Stream == "" {
		t.Errorf("%v: %+v", err, rep)
	}
	var st *session.Status
	testenv.Wait(t, "a second for another seal", func() bool {
		st, err = session.Ask(folder, &session.Request{Do: session.ActStatus})
		return err != nil || len(st.Standing) != 1 || st.Standing[0].ForNS > 2e9
	})
	if err != nil || len(st.Sealed) != 1 {
		t.Errorf("%v: %+v", err, st)
	}
}

// waits records a program that hangs, and returns the session when the program waits.
func waits(t *testing.T, recorder *exec.Cmd) (folder string) {
	t.Helper()
	recorder.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	recorder.Stderr = os.Stderr
	if err := recorder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-recorder.Process.Pid, syscall.SIGKILL)
		_ = recorder.Wait()
		_ = os.RemoveAll(folder)
	})
	testenv.Wait(t, "the program to wait", func() bool {
		for _, dir := range session.List("") {
			st, err := session.Ask(dir, &session.Request{Do: session.ActStatus})
			if err == nil && st.Recorder == recorder.Process.Pid && len(st.Standing) > 0 && st.Standing[0].Func == "aclrtSynchronizeStream" {
				folder = dir
				return true
			}
		}
		return false
	})
	return folder
}
