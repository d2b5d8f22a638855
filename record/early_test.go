package record_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
)

// The source of an asynchronous copy from pinned or registered memory is captured at the call, and marked as uncertain in the
// trace. info and cat show the mark.
func TestTakenEarly(t *testing.T) {
	program := testenv.CompileC(t, "early", []string{source("early.c")})
	for _, level := range []record.Payload{record.Full, record.Hash} {
		t.Run(string(level), func(t *testing.T) {
			r, res, out := run(t, record.Options{Capture: record.Capture{Payload: level}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program)
			if res.ExitCode != 0 || out != "ABCd" {
				t.Fatalf("%+v, %q", res, out)
			}
			early := map[string]int{}
			for d, err := range r.Data(nil) {
				if err != nil {
					t.Fatal(err)
				}
				if d.Reason != format.TakenEarly {
					continue
				}
				if d.Dir != format.DirIn || d.Len != 8192 || d.Status == format.Missing {
					t.Errorf("%+v", d)
				}
				early[d.Dir.String()]++
			}
			if early["in"] != 3 || len(early) != 1 || r.Meta().TakenEarly != 3 {
				t.Errorf("taken early: %v, the trace says %d", early, r.Meta().TakenEarly)
			}
			if level != record.Full {
				return
			}
			rep, err := replay.Run(t.Context(), r.Path(), acl.Model, &replay.Options{Verify: true})
			if err != nil {
				t.Fatal(err)
			}
			// A host function stands before all four copies.
			other := 0
			for _, u := range rep.Unverified {
				other += u.OtherBytes
				if u.Code != verify.HostFunction {
					t.Errorf("%+v", u)
				}
			}
			if len(rep.Differences) != 0 || rep.Results.Unproved != 4 || other != 3 {
				t.Fatalf("differences %+v, unverified %+v", rep.Differences, rep.Unverified)
			}
			acltrace := testenv.Built(t, "bin/acltrace")
			for _, c := range [][2]string{{"info", "3 payloads read from pinned memory at the call"}, {"replay --verify", "host functions are stubs"}} {
				if b, _ := exec.Command(acltrace, append(strings.Fields(c[0]), r.Path())...).CombinedOutput(); !strings.Contains(string(b), c[1]) {
					t.Errorf("%s does not say %q: %s", c[0], c[1], b)
				}
			}
			b, err := exec.Command(acltrace, "cat", "--json", r.Path()).Output()
			if err != nil || strings.Count(string(b), `"reason":"taken at the call`) != 3 {
				t.Errorf("%v, %s", err, b)
			}
		})
	}
}

// The header has facts that can't be collected later, and info shows them.
func TestInfoShowsFactsOfTheHeader(t *testing.T) {
	acltrace := testenv.Built(t, "bin/acltrace")
	trace := filepath.Join(t.TempDir(), "run.aclt")
	cmd := exec.Command(acltrace, "record", "-q", "--sim", "-o", trace, "--", testenv.Example(t, "hello"))
	cann := t.TempDir()
	if err := os.WriteFile(filepath.Join(cann, "version.cfg"), []byte("runtime_running_version=[7.7.0.1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "ASCEND_HOME_PATH="+cann, "RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1", "HCCL_CONNECT_TIMEOUT=9", "OTEL_SERVICE_NAME=llm",
		"OTEL_EXPORTER_OTLP_HEADERS=secret", "ASCEND_API_TOKEN=secret", "TRACEPARENT=00-1-2-01", "PRIVATE_THING=secret")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	b, err := exec.Command(acltrace, "info", "--json", trace).Output()
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Env    map[string]string `json:"env"`
		Device map[string]any    `json:"device"`
		Clock  struct {
			Wall int64 `json:"wall_ns"`
			Mono int64 `json:"mono_ns"`
		} `json:"clock"`
		Libraries []format.Library `json:"libraries"`
		Host      string           `json:"host"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "HCCL_CONNECT_TIMEOUT": "9", "OTEL_SERVICE_NAME": "llm", "TRACEPARENT": "00-1-2-01", "ASCEND_HOME_PATH": cann} {
		if in.Env[name] != want {
			t.Errorf("%s is %q, not %q", name, in.Env[name], want)
		}
	}
	if strings.Contains(string(b), "secret") {
		t.Errorf("a secret is in the trace: %s", b)
	}
	host, _ := os.Hostname()
	if in.Device["runtime_version"] != "7.7.0.1" || in.Device["name"] != "simulator" || in.Host != host || in.Clock.Wall == 0 || in.Clock.Mono == 0 ||
		len(in.Libraries) != 1 || len(in.Libraries[0].BuildID) != 40 {
		t.Errorf("%s", b)
	}
}

// On hardware the device has the name that the runtime reported to the program.
func TestDeviceName(t *testing.T) {
	dir := t.TempDir()
	runtime, program := filepath.Join(dir, "runtime.c"), filepath.Join(dir, "program.c")
	for path, text := range map[string]string{
		runtime: `const char *aclrtGetSocName(void) { return "Ascend910B3"; }`,
		program: `const char *aclrtGetSocName(void); int main(void) { return aclrtGetSocName()[0] != 'A'; }`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lib := testenv.CompileC(t, "libascendcl.so", []string{runtime}, "-shared", "-fPIC", "-Wl,-soname,libascendcl.so")
	out := wild(t, record.Options{}, testenv.CompileC(t, "program", []string{program}, lib, "-Wl,-rpath,"+filepath.Dir(lib)))
	if m := out.r.Meta(); out.ExitCode != 0 || m.Simulated || m.Device.Name != "Ascend910B3" {
		t.Errorf("exit code %d, simulated %t, the device is %q", out.ExitCode, m.Simulated, m.Device.Name)
	}
}
