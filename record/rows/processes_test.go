package rows

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
)

// A process that had ended before its environment was read had no service name, although it had reported its variables.
func TestEndedProcessHasItsReportedVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.aclt")
	w, err := format.Create(path, &format.Meta{API: "acl"}, schema.Of(acl.Model), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := New(&Options{Model: acl.Model, Meta: &format.Meta{}}, w)
	b.Processes.Command = Command{PID: 1, Path: "/bin/sh", Env: []string{"OTEL_SERVICE_NAME=parent"}}
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	defer ended.Wait()
	zombie := ended.Process.Pid
	testenv.Wait(t, "a zombie", func() bool { return procstat.Read(zombie).Zombie() })
	for _, pid := range []int{zombie, math.MaxInt32} {
		if err := b.Process(&probe.Process{PID: pid, Local: pid, Variables: []string{"OTEL_SERVICE_NAME=child", "OTEL_RESOURCE_ATTRIBUTES=zone=a"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, p := range r.Processes() {
		if p.Resource["service.name"] != "child" || p.Resource["zone"] != "a" {
			t.Errorf("%d: %v", p.PID, p.Resource)
		}
	}
}

// The end of a process that is reported again has no code of the earlier report, and an unknown code is not 0.
func TestLaterReportReplacesTheExitCode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.aclt")
	w, err := format.Create(path, &format.Meta{API: "acl"}, schema.Of(acl.Model), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	b := New(&Options{Model: acl.Model, Meta: &format.Meta{}}, w)
	if err := b.Process(&probe.Process{PID: 1}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		end             probe.End
		code            int
		unknown, killed bool
	}{
		{probe.End{PID: 1, Clean: true, Code: 5}, 5, false, false},
		{probe.End{PID: 1, Clean: true, Code: probe.NoCode}, 0, true, false},
		{probe.End{PID: 1, Clean: true, Code: 7}, 7, false, false},
		{probe.End{PID: 1, Code: probe.NoCode, Signal: 9}, 0, false, true},
	} {
		if err := b.Ended(&c.end); err != nil {
			t.Fatal(err)
		}
		if p := b.Processes.rows[0]; p.ExitCode != c.code || p.ExitUnknown != c.unknown || p.Killed != c.killed {
			t.Errorf("%+v: %+v", c.end, p)
		}
	}
}
