package record_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
)

// The ranks that a launcher starts were processes without a rank in the recording of the launcher.
func TestRanksOfOneRecording(t *testing.T) {
	hello := testenv.Example(t, "hello")
	const launcher = `for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 API_TOKEN=x "$0" || exit 1; done; "$0"`
	r, res, text := run(t, record.Options{Env: append(os.Environ(), "HCCL_BUFFSIZE=8")}, "/bin/sh", "-c", launcher, hello)
	if res.ExitCode != 0 {
		t.Fatal(text)
	}
	got := map[string]int{}
	for _, p := range r.Processes() {
		got[fmt.Sprint(p.Env, p.Rank, p.Ranked(r.Meta()))]++
	}
	for _, rank := range []string{"0", "1"} {
		if want := fmt.Sprintf("map[LOCAL_RANK:%s RANK:%s WORLD_SIZE:2] %s true", rank, rank, rank); got[want] != 1 {
			t.Errorf("no %s in %v", want, got)
		}
	}
	if got["map[] 0 false"] != 1 || len(r.Processes()) != 3 || r.Meta().Env["HCCL_BUFFSIZE"] != "8" {
		t.Errorf("a process without a rank: %v, %v", got, r.Meta().Env)
	}
	in, err := report.NewInfo(r.Path(), r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := in.Text(&out, nil); err != nil {
		t.Fatal(err)
	}
	s, err := stats.New(r, acl.Model, nil)
	if err != nil || strings.Count(out.String(), ", rank 0, from") != 1 || strings.Count(out.String(), ", rank 1, from") != 1 {
		t.Errorf("%v\n%s", err, out.String())
	}
	ranked := 0
	for _, m := range s.DeviceMemory {
		if m.Rank != nil {
			ranked++
		}
	}
	if ranked != 2 || len(s.DeviceMemory) != 3 {
		t.Errorf("device memory %+v", s.DeviceMemory)
	}
}
