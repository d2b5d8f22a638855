// Package ggmltest runs a program with the call patterns of ggml's CANN backend: unrecorded, recorded by either probe, and replayed.
package ggmltest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
)

const steps = 9

// TestDecoder records a decoder on two devices: once with graphs and mapped memory, once without graphs and with buffers. The
// recording changes no output. Both probes and the program itself count the same calls, and a replay reproduces each result.
func TestDecoder(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	t.Setenv("ACLSIM_DEVICES", "2")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	t.Setenv("STANDIN_KERNELS", testenv.Built(t, "lib/aclsim_kernels.o"))
	program := compile(t)
	for name, args := range map[string][]string{"graphs and mapped memory": nil, "eager and buffers": {"eager", "buffers"}} {
		t.Run(name, func(t *testing.T) {
			command := append([]string{"--", program}, args...)
			alone := run(t, acltrace, append([]string{"sim"}, command...)...)
			if !strings.Contains(alone.stdout, "\n2208 of 2208 logits right\n") {
				t.Errorf("the program prints %s", alone.stdout)
			}
			made := alone.tally(t)

			shim := filepath.Join(t.TempDir(), "shim.aclt")
			agree(t, alone, run(t, acltrace, append([]string{"record", "-q", "--sim", "--replayable", "-o", shim}, command...)...), shim, made)
			for _, place := range []string{"same", "move"} {
				reproduces(t, acltrace, shim, place)
			}
			t.Run("ebpf", func(t *testing.T) {
				uprobes(t)
				ebpf := filepath.Join(t.TempDir(), "ebpf.aclt")
				agree(t, alone, run(t, acltrace, append([]string{"record", "-q", "--sim", "--probe", "ebpf", "-o", ebpf}, command...)...), ebpf, made)
			})
		})
	}
}

// compile compiles the program. Like ggml's, it reaches the runtime through a library.
func compile(t *testing.T) string {
	t.Helper()
	cxx, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("no C++ compiler")
	}
	sources, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Uses(t, sources...)
	dir, lib := t.TempDir(), filepath.Dir(testenv.Built(t, "lib/libascendcl.so"))
	program, decoder := filepath.Join(dir, "program"), filepath.Join(dir, "libdecoder.so")
	flags := []string{"-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I" + filepath.Join(testenv.Root(t), "api/acl/include")}
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-o", decoder, "testdata/decoder.cpp", "testdata/operators.cpp", "-L" + lib, "-lascendcl", "-lpthread"},
		{"-o", program, "testdata/main.cpp", decoder, "-Wl,-rpath," + dir, "-Wl,-rpath-link," + lib},
	} {
		if out, err := exec.Command(cxx, append(flags, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return program
}

type output struct{ stdout, stderr string }

func run(t *testing.T, name string, args ...string) output {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, stdout.String(), stderr.String())
	}
	return output{stdout.String(), stderr.String()}
}

// tally returns the program's own count of its calls of the runtime. Operators are not part of the runtime.
func (o output) tally(t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for line := range strings.Lines(o.stderr) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if acl.Model.Lookup(name) == nil {
			continue
		}
		c, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("the program counts %q", line)
		}
		n[name] = c
	}
	return n
}

// agree checks a recording against the program without it.
func agree(t *testing.T, alone, recorded output, path string, made map[string]int) {
	t.Helper()
	if recorded != alone {
		t.Errorf("%s: the program prints %s%s\nunrecorded %s%s", filepath.Base(path), recorded.stdout, recorded.stderr, alone.stdout, alone.stderr)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := map[string]int{}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		got[r.Schema().FuncName(c.Func)]++
	}
	if !maps.Equal(got, made) || !r.Complete() {
		t.Errorf("%s, complete %v: recorded %v\nmade %v", filepath.Base(path), r.Complete(), got, made)
	}
}

// uprobes skips the test on a machine without them.
func uprobes(t *testing.T) {
	t.Helper()
	u, err := uprobe.Load(acl.Model, &uprobe.Options{CountOnly: true})
	testenv.Uprobes(t, err)
	u.Close()
}

// reproduces replays a trace. Each step has a result.
func reproduces(t *testing.T, acltrace, path, place string) {
	t.Helper()
	var v struct {
		Verdict string
		Results struct{ Total, Proved int }
	}
	out := run(t, acltrace, "replay", "--verify", "--json", "--place", place, path)
	if err := json.Unmarshal([]byte(out.stdout), &v); err != nil {
		t.Fatal(err)
	}
	if v.Verdict != "identical" || v.Results.Total != steps || v.Results.Proved != steps {
		t.Errorf("place %s: %s", place, out.stdout)
	}
}
