package record_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// A full disk does not affect the program. The written calls can be read, and a gap shows since when calls are missing.
func TestFullDisk(t *testing.T) {
	program := testenv.CompileC(t, "threads", []string{source("threads.c")})
	output := filepath.Join(tmpfs(t, "1m"), "run.aclt")
	res, err := record.Run(context.Background(), &record.Options{
		Model: acl.Model, Output: output, Sim: true, Limits: record.Limits{Buffers: record.Buffers{Block: true}, MaxSize: 1 << 30}, Command: []string{program, "2", fmt.Sprint(2_000_000)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 0 || !errors.Is(res.Incomplete, syscall.ENOSPC) {
		t.Errorf("exit code %d, %v", res.ExitCode, res.Incomplete)
	}
	r := open(t, output)
	counts, err := r.Counts()
	if err != nil || counts.Calls == 0 || !r.Complete() {
		t.Errorf("%+v, complete %v, %v", counts, r.Complete(), err)
	}
	var last format.Gap
	for _, g := range r.Gaps() {
		if g.Reason == format.WriteFailed && g.To > last.To {
			last = g
		}
	}
	if last.To != r.Meta().EndNS || r.Meta().Replayable {
		t.Errorf("gaps %+v, end %d, replayable %v", r.Gaps(), r.Meta().EndNS, r.Meta().Replayable)
	}
	if report, err := format.Check(output, nil); err != nil || len(report.Problems) != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
