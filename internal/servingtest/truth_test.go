package servingtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
)

// truth is what the program wrote about itself.
type truth struct {
	PID     int
	Runs    int
	Threads map[string]int
	Outside map[string]uint64 // launches before the first step
	Steps   []struct {
		Kind, How string
		Eager     map[string]uint64
		InGraphs  map[string]uint64 `json:"in_graphs"`
	}
	Live []struct {
		Owner   string
		Address uint64
		Bytes   uint64
	}
	Culprit *struct {
		Call, Kernel, Also string
		Code               int
		TID                int `json:"thread"`
		OtherTID           int `json:"other_thread"`
		Address            uint64
	}
}

// A config is one way to run the program.
type config struct {
	flags string // of the program
	probe string // shim or ebpf
	clock string // real or virtual
	fault string
	env   []string
}

func (c *config) name() string {
	return strings.NewReplacer("--", "", " ", ",").Replace(strings.TrimSpace(c.flags+" "+c.fault)) + "/" + c.probe + "/" + c.clock
}

// output is the result of a command.
type output struct {
	text, errs string
	code       int
}

// run runs a command, which may fail.
func run(t *testing.T, env []string, name string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var text, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%v does not end\n%s%s", args, &text, &errs)
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return output{text.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// acltrace runs a command of acltrace.
func acltrace(t *testing.T, args ...string) output {
	t.Helper()
	return run(t, nil, testenv.Built(t, "bin/acltrace"), args...)
}

// query decodes the JSON of a command that must succeed.
func query[T any](t *testing.T, args ...string) *T {
	t.Helper()
	out := acltrace(t, append(args, "--json")...)
	x := new(T)
	if err := json.Unmarshal([]byte(out.text), x); err != nil || out.code != 0 {
		t.Fatalf("%v ends with %d, %v\n%.2000s%s", args, out.code, err, out.text, out.errs)
	}
	return x
}

// record records the program, and returns the trace and the truth.
func (c *config) record(t *testing.T) (trace string, told *truth) {
	t.Helper()
	dir := t.TempDir()
	trace = filepath.Join(dir, "run.aclt")
	args := []string{"record", "-q", "--sim", "--probe", c.probe, "-o", trace, "--", testenv.Built(t, "bin/examples/serving"), "--truth", filepath.Join(dir, "truth.json")}
	args = append(args, strings.Fields(c.flags)...)
	if c.fault != "" {
		args = append(args, "--fault", c.fault)
	}
	out := run(t, append(c.env, "ACLSIM_CLOCK="+c.clock), testenv.Built(t, "bin/acltrace"), args...)
	if c.fault == "" && out.code != 0 {
		t.Fatalf("the program ends with %d\n%s%s", out.code, out.text, out.errs)
	}
	b, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out.text, out.errs)
	}
	told = &truth{}
	if err := json.Unmarshal(b, told); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return trace, told
}

// uprobes skips the test on a machine without them.
func uprobes(t *testing.T) {
	t.Helper()
	u, err := uprobe.Load(acl.Model, &uprobe.Options{CountOnly: true})
	testenv.Uprobes(t, err)
	u.Close()
}

func soak() bool { return os.Getenv("ACLTRACE_SOAK") != "" }
