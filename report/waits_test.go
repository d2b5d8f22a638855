package report_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// A wait for an event names the record. A list that leaves out the chunk with the latest record names none.
func TestLinesNameTheRecordOfAWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.aclt")
	w, err := format.Create(path, &format.Meta{API: acl.Model.Name}, schema.Of(acl.Model), nil)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	_, err = w.Process(format.Process{PID: 7})
	check(err)
	_, err = w.Thread(format.Thread{TID: 70})
	check(err)
	now := int64(0)
	call := func(name string, args []uint64, outs ...format.Out) {
		now += 20
		_, err := w.Call(&format.Call{Func: uint16(acl.Model.Lookup(name).ID), Start: now, End: now + 10, Args: args, Outs: outs})
		check(err)
	}
	for _, s := range []uint64{0x5501, 0x5502, 0x5503} {
		call("aclrtCreateStream", []uint64{1}, format.Out{Value: s})
	}
	call("aclrtCreateEvent", []uint64{1}, format.Out{Value: 0x7701})
	call("aclrtRecordEvent", []uint64{0x7701, 0x5501}) // call 4
	check(w.Flush())
	call("aclrtRecordEvent", []uint64{0x7701, 0x5502}) // call 5
	check(w.Flush())
	call("aclrtStreamWaitEvent", []uint64{0x5503, 0x7701}) // call 6
	check(w.Close())
	r, err := format.Open(path, nil)
	check(err)
	defer r.Close()
	for _, c := range []struct {
		o    report.LineOptions
		want string
	}{
		{report.LineOptions{}, " waits for event#4, recorded by call 5 on stream#2"},
		{report.LineOptions{JSON: true}, `"waits":[{"why":"event","call":5}]`},
		{report.LineOptions{Selection: timeline.Selection{Calls: &human.Numbers{First: 6, Last: 6}}}, ""},
	} {
		var out bytes.Buffer
		check(report.Lines(&out, r, acl.Model, &c.o))
		found := strings.Contains(out.String(), "recorded by") || strings.Contains(out.String(), `"waits"`)
		if !strings.Contains(out.String(), c.want) || found != (c.want != "") {
			t.Errorf("%q is not in\n%s", c.want, out.String())
		}
	}
}
