package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"acltrace": main, "acltrace-held": held, "acltrace-full": full, "acltrace-stuck": stuck})
}

// TestCommandLinesInScripts runs the command lines in testdata/script.
func TestCommandLinesInScripts(t *testing.T) {
	lib, examples := filepath.Dir(testenv.Built(t, "lib/libascendcl.so")), filepath.Dir(testenv.Built(t, "bin/examples/tiny_decoder"))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ACLTRACE_LIB", lib)
			e.Setenv("XDG_STATE_HOME", os.Getenv("XDG_STATE_HOME"))
			e.Setenv("EXAMPLES", examples)
			e.Setenv("ACLSIM_KERNELS", filepath.Join(examples, "vector_kernels.so")+":"+
				filepath.Join(examples, "matmul_kernels.so")+":"+filepath.Join(examples, "decoder_kernels.so"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "flip": flip, "future": future, "lossy": lossy, "receiver": receiver},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("no condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		// A failing script prints how to update its expected output.
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// exits CODE COMMAND … runs a command that must end with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND …")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := err.(*exec.ExitError); ok {
		got = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// flip FILE OFFSET flips one bit. A negative offset counts from the end.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE OFFSET")
	}
	off, err := strconv.Atoi(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	if off < 0 {
		off += len(b)
	}
	b[off] ^= 0x10
	ts.Check(os.WriteFile(path, b, 0o600))
}

// future FILE gives a trace a newer major version and a valid checksum.
func future(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: future FILE")
	}
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	b[8] = 9
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
	ts.Check(os.WriteFile(path, b, 0o600))
}

// Only record and sim, whose other codes are those of the program, end with 125 if they can't start. Other commands end with 1.
func TestExitCodesOfFailures(t *testing.T) {
	dir := t.TempDir()
	nothing, out := filepath.Join(dir, "nothing"), filepath.Join(dir, "nowhere", "out")
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitStart, []string{"record", "-o", filepath.Join(dir, "x.aclt"), "--", nothing}},
		{exitStart, []string{"record", "-o", out, "--", "/bin/true"}},
		{exitStart, []string{"record", "--metrics", "prometheus=256.0.0.1:1", "-o", filepath.Join(dir, "x.aclt"), "--", "/bin/true"}},
		{exitStart, []string{"sim", "--", nothing}},
		{exitUsage, []string{"record", "--ring", "1M", "--max-size", "1G", "--", "/bin/true"}}, // the program does not start either
		{exitUsage, []string{"record", "--probe", "ebpf", "--armed", "--", "/bin/true"}},
		{exitUsage, []string{"env", "--install", filepath.Join(dir, "session"), "--ring", "1M", "--max-size", "1G"}},
		{exitFailed, []string{"attach", "--pid", "2147483647", "-o", filepath.Join(dir, "x.aclt")}},
		{exitFailed, []string{"attach", "--all", "--metrics", "prometheus=256.0.0.1:1"}},
		{exitFailed, []string{"collect", "/proc/nothing"}},
		{exitFailed, []string{"collect", filepath.Join(dir, "session"), "--metrics", "prometheus=256.0.0.1:1"}},
		{exitFailed, []string{"ctl", "status", "--session", nothing}},
		{exitFailed, []string{"env", "--install", "/proc/nothing"}},
		{exitFailed, []string{"info", nothing}},
		{exitFailed, []string{"cat", nothing}},
		{exitFailed, []string{"stats", nothing}},
		{exitFailed, []string{"top", "--once", nothing}},
		{exitFailed, []string{"diff", nothing, nothing}},
		{exitFailed, []string{"export", "pprof", nothing}},
		{exitUsage, []string{"export", "perfetto", nothing, "--max-size", "1K", "-o", out}},
		{exitUsage, []string{"export", "perfetto", nothing, "--max-size", "1M", "-o", "-"}},
		{exitFailed, []string{"import", "msprof", nothing, "-o", out}},
		{exitFailed, []string{"blame", nothing}},
		{exitFailed, []string{"where", "--map", nothing}},
		{exitFailed, []string{"replay", nothing}},
		{exitFailed, []string{"extract", nothing, "--call", "1", "-o", out}},
		{exitFailed, []string{"bundle", nothing, "-o", out}},
		{exitFailed, []string{"fsck", nothing}},
		{exitFailed, []string{"recover", nothing, "-o", out}},
		{exitFailed, []string{"pack", nothing, "-o", out}},
		{exitFailed, []string{"merge", nothing, "-o", out}},
		{exitFailed, []string{"assemble", nothing, "-o", out}},
		{exitFailed, []string{"demo", "-o", out}},
	} {
		var said bytes.Buffer
		if code := run(c.args, nil, &said, &said); code != c.code {
			t.Errorf("acltrace %s: exit code %d, want %d: %s", strings.Join(c.args, " "), code, c.code, &said)
		}
	}
}
