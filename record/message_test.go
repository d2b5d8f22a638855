package record_test

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// Messages that the program fetches from the runtime are in the trace, and recording does not take them from the program.
func TestFetchedMessagesAreInTheTrace(t *testing.T) {
	out := wild(t, record.Options{Sim: true}, testenv.CompileC(t, "message", []string{source("message.c")}))
	if out.ExitCode != 0 || out.stdout == "" {
		t.Fatalf("%+v, %s", out.Result, out.stdout)
	}
	var fetched []string
	for _, c := range out.calls {
		if acl.Model.Func(api.ID(c.Func)).Name != "aclGetRecentErrMsg" {
			continue
		}
		text := ""
		for _, d := range c.Data {
			text += string(d.Bytes)
		}
		fetched = append(fetched, text)
	}
	if len(fetched) != 2 || fetched[0] != out.stdout || fetched[1] != "" {
		t.Errorf("the program printed %q, the trace has %q", out.stdout, fetched)
	}
}
