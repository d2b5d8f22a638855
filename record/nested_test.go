package record_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// Calls from a signal handler that interrupted another call were neither recorded nor counted.
func TestCallsOfHandlersThatInterruptCalls(t *testing.T) {
	program := testenv.CompileC(t, "interrupted", []string{source("interrupted.c")})
	var out *outcome
	var lost uint64
	for handlers := 1000; handlers < 100_000 && lost == 0; handlers *= 4 {
		out = wild(t, record.Options{Env: fake(t), Limits: record.Limits{Buffers: record.Buffers{Block: true, RingBytes: 64 << 10}}}, program, strconv.Itoa(handlers))
		for _, g := range out.r.Gaps() {
			if g.Reason != format.Nested {
				t.Errorf("%+v", g)
			}
			lost += g.Calls
		}
		made, _ := strconv.ParseUint(strings.TrimSpace(out.stdout), 10, 64)
		if out.ExitCode != 0 || made == 0 || uint64(len(out.calls))+lost != made || out.Lost != lost {
			t.Fatalf("%d calls made, %d recorded, %d lost: %+v, %s", made, len(out.calls), lost, out.Result, out.stderr)
		}
	}
	if lost == 0 {
		t.Error("no handler has interrupted a call")
	}
}

// Calls of a process that shares its parent's memory were neither recorded nor counted. By eBPF they are recorded.
func TestCallsOfAProcessThatSharesMemory(t *testing.T) {
	program := testenv.CompileC(t, "sharing", []string{source("sharing.c")})
	for i := range 5 {
		out := wild(t, record.Options{Env: fake(t), Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program, strconv.Itoa(1000<<i))
		made, _ := strconv.ParseUint(strings.TrimSpace(out.stdout), 10, 64)
		if out.ExitCode != 0 || made == 0 || uint64(len(out.calls))+out.Lost != made || out.Lost == 0 || len(out.calls) == 0 {
			t.Errorf("%d calls made, %d recorded, %d lost: %+v, %s", made, len(out.calls), out.Lost, out.Result, out.stderr)
		}
	}
}
