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

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
)

// Each step of the program has one result.
const steps = 9

// variants of the program: with graphs and mapped memory, without graphs and with buffers.
var variants = map[string][]string{"graphs and mapped memory": nil, "eager and buffers": {"eager", "buffers"}}

// A decoder is recorded on two devices. Its operators are kernels of the simulator, which compute, or those of the simulator's
// operator libraries, which do not.
func TestDecoderOnTwoDevices(t *testing.T) {
	t.Setenv("ACLSIM_DEVICES", "2")
	objects := compile(t)
	t.Run("kernels", func(t *testing.T) {
		t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
		t.Setenv("DECODER_KERNELS", testenv.Built(t, "lib/aclsim_kernels.o"))
		ownKernels(t, objects.link(t, objects.operators))
	})
	t.Run("operator libraries", func(t *testing.T) {
		testenv.Built(t, "lib/libopapi.so")
		operatorLibraries(t, objects.link(t, "-lnnopbase", "-lopapi"))
	})
}

// The recording changes no output. Both probes and the program itself count the same calls, and a replay reproduces each result.
func ownKernels(t *testing.T, d *decoder) {
	for name, args := range variants {
		t.Run(name, func(t *testing.T) {
			alone := d.alone(t, args)
			if !strings.Contains(alone.stdout, "\n2208 of 2208 logits right\n") {
				t.Errorf("the program prints %s", alone.stdout)
			}
			made := alone.tally(t)
			recorded, shim := d.recorded(t, "shim", args, alone)
			if !maps.Equal(recorded, made) {
				t.Errorf("recorded %v\nmade %v", recorded, made)
			}
			replays(t, shim, "identical", steps)
			t.Run("ebpf", func(t *testing.T) {
				withoutOperands(made)
				if recorded, _ := d.recorded(t, "ebpf", args, alone); !maps.Equal(recorded, made) {
					t.Errorf("recorded %v\nmade %v", recorded, made)
				}
			})
		})
	}
}

// Each operator of the program launches a kernel of its name. No result is proved, and none differs.
func operatorLibraries(t *testing.T, d *decoder) {
	for name, args := range variants {
		t.Run(name, func(t *testing.T) {
			alone := d.alone(t, args)
			made := alone.tally(t)
			recorded, shim := d.recorded(t, "shim", args, alone)
			for f, n := range made { // the libraries make further calls
				if recorded[f] < n {
					t.Errorf("%s is recorded %d times, and made %d times", f, recorded[f], n)
				}
			}
			if len(args) > 0 {
				launched, want := launches(t, shim), alone.operators()
				if !maps.Equal(launched, want) || len(want) == 0 {
					t.Errorf("launched %v\nmade %v", launched, want)
				}
			}
			replays(t, shim, "unproved", 0)
			t.Run("ebpf", func(t *testing.T) {
				seen, ebpf := d.recorded(t, "ebpf", args, alone)
				withoutOperands(recorded)
				if !maps.Equal(recorded, seen) {
					t.Errorf("recorded by shim %v\nby eBPF %v", recorded, seen)
				}
				if a, b := operators(t, shim), operators(t, ebpf); !maps.Equal(a, b) || len(a) < 2 {
					t.Errorf("operators by shim %v\nby eBPF %v", a, b)
				}
			})
		})
	}
}

// A decoder is the linked program.
type decoder struct{ acltrace, program string }

// objects are the compiled sources.
type objects struct{ dir, lib, main, decoder, operators string }

func compile(t *testing.T) *objects {
	t.Helper()
	sources, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Uses(t, sources...)
	o := &objects{dir: t.TempDir(), lib: filepath.Dir(testenv.Built(t, "lib/libascendcl.so"))}
	for name, object := range map[string]*string{"main": &o.main, "decoder": &o.decoder, "operators": &o.operators} {
		*object = filepath.Join(o.dir, name+".o")
		cxx(t, "-std=c++17", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-I"+filepath.Join(testenv.Root(t), "api/acl/include"), "-c", "-o", *object, "testdata/"+name+".cpp")
	}
	return o
}

// link links the program with operators from an object or from libraries. Like ggml's, it reaches the runtime through a library.
func (o *objects) link(t *testing.T, operators ...string) *decoder {
	t.Helper()
	dir := t.TempDir()
	shared := filepath.Join(dir, "libdecoder.so")
	cxx(t, append([]string{"-shared", "-o", shared, o.decoder, "-L" + o.lib, "-lascendcl", "-lpthread"}, operators...)...)
	d := &decoder{testenv.Built(t, "bin/acltrace"), filepath.Join(dir, "program")}
	cxx(t, "-o", d.program, o.main, shared, "-Wl,-rpath,"+dir, "-Wl,-rpath-link,"+o.lib)
	return d
}

func cxx(t *testing.T, args ...string) {
	t.Helper()
	compiler, err := exec.LookPath("c++")
	if err != nil {
		t.Skip("no C++ compiler")
	}
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// alone runs the program unrecorded.
func (d *decoder) alone(t *testing.T, args []string) output {
	t.Helper()
	return run(t, d.acltrace, append([]string{"sim", "--", d.program}, args...)...)
}

// recorded records the program, which prints the same as without, and returns the number of each function's calls and the trace.
func (d *decoder) recorded(t *testing.T, probe string, args []string, alone output) (map[string]int, string) {
	t.Helper()
	flags := []string{"--replayable", "--operators", "all"}
	if probe == "ebpf" {
		uprobes(t)
		flags = nil
	}
	path := filepath.Join(t.TempDir(), probe+".aclt")
	command := append(append([]string{"record", "-q", "--sim", "--probe", probe, "-o", path}, flags...), "--", d.program)
	if got := run(t, d.acltrace, append(command, args...)...); got.stdout != alone.stdout || !maps.Equal(got.counts(), alone.counts()) {
		t.Errorf("recorded by %s, the program prints %s%s\nunrecorded %s%s", probe, got.stdout, got.stderr, alone.stdout, alone.stderr)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := map[string]int{}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		n[r.Schema().FuncName(c.Func)]++
	}
	if !r.Complete() {
		t.Errorf("the recording by %s is not complete", probe)
	}
	return n, path
}

// uprobes skips the test on a machine without them.
func uprobes(t *testing.T) {
	t.Helper()
	u, err := uprobe.Load(acl.Model, &uprobe.Options{CountOnly: true})
	testenv.Uprobes(t, err)
	u.Close()
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

// counts returns the program's own counts.
func (o output) counts() map[string]int {
	n := map[string]int{}
	for line := range strings.Lines(o.stderr) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if c, err := strconv.Atoi(count); err == nil {
			n[name] = c
		}
	}
	return n
}

// tally returns the program's own count of its calls of the runtime. Operators are not part of the runtime.
func (o output) tally(t *testing.T) map[string]int {
	t.Helper()
	n := o.counts()
	maps.DeleteFunc(n, func(name string, _ int) bool { return acl.Model.Lookup(name) == nil })
	if len(n) < 20 {
		t.Fatalf("the program counts %s", o.stderr)
	}
	return n
}

// withoutOperands removes the calls that only the shim records.
func withoutOperands(calls map[string]int) {
	maps.DeleteFunc(calls, func(name string, _ int) bool { return acl.Model.Lookup(name).Operand != api.NoOperand })
}

// operators returns how often the program called the second phase of each operator.
func (o output) operators() map[string]int {
	all, n := o.counts(), map[string]int{}
	for name, count := range all {
		if _, is := all[name+"GetWorkspaceSize"]; is {
			n[name] = count
		}
	}
	return n
}

// launches returns the launches of each kernel.
func launches(t *testing.T, path string) map[string]int {
	t.Helper()
	var s struct {
		Kernels []struct {
			Name  string
			Count int
		}
	}
	parse(t, run(t, testenv.Built(t, "bin/acltrace"), "stats", "--json", path).stdout, &s)
	n := map[string]int{}
	for _, k := range s.Kernels {
		n[k.Name] = k.Count
	}
	return n
}

// ran is how often an operator ran and what it launched.
type ran struct{ Calls, Launches int }

// operators returns the operators of a trace by name.
func operators(t *testing.T, path string) map[string]ran {
	t.Helper()
	var s struct {
		Groups []struct {
			Name string
			ran
		}
	}
	parse(t, run(t, testenv.Built(t, "bin/acltrace"), "stats", "--by", "operator", "--json", path).stdout, &s)
	n := map[string]ran{}
	for _, g := range s.Groups {
		n[g.Name] = g.ran
	}
	return n
}

// replays replays a trace at the recorded addresses and at others.
func replays(t *testing.T, path, verdict string, proved int) {
	t.Helper()
	for _, place := range []string{"same", "move"} {
		cmd := exec.Command(testenv.Built(t, "bin/acltrace"), "replay", "--verify", "--json", "--place", place, path)
		var report strings.Builder
		cmd.Stderr = &report
		out, err := cmd.Output() // its exit code is the verdict
		if len(out) == 0 {
			t.Fatalf("place %s: %v\n%s", place, err, &report)
		}
		var v struct {
			Verdict string
			Results struct{ Total, Proved, Different int }
		}
		parse(t, string(out), &v)
		if v.Verdict != verdict || v.Results.Total != steps || v.Results.Proved != proved || v.Results.Different > 0 {
			t.Errorf("place %s: %s", place, out)
		}
	}
}

func parse(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
