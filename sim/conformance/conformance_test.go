package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// suite has the compiled programs and their folders.
type suite struct {
	rules             []Rule
	exe, broken, main string // programs; folders of the breaking and of the real simulator
	env               []string
}

// compile compiles all programs into one, with extra compiler flags.
func compile(t *testing.T, flags ...string) *suite {
	t.Helper()
	rules, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{rules: rules}
	s.main = filepath.Dir(testenv.Built(t, "lib/libascendcl.so"))
	s.broken = filepath.Join(s.main, "break")
	library := testenv.CompileC(t, "kernels.so", []string{"kernels/kernels.c"}, "-fPIC", "-shared", "-Wl,-Bsymbolic")
	object := testenv.CompileC(t, "kernels.o", []string{"kernels/kernels.c"}, "-fPIC", "-c")
	s.env = []string{"ACLSIM_KERNELS=" + library, "CONFORMANCE_BINARY=" + object, "ACLSIM_FAULTS=", "ACLSIM_BREAK=", "ACLSIM_DEVICES="}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&all, "#include \"%s\"\n", filepath.Join(wd, r.Path))
	}
	source := filepath.Join(t.TempDir(), "all.c")
	if err := os.WriteFile(source, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.exe = testenv.CompileC(t, "rules", []string{source}, flags...)
	return s
}

// limit is the time limit of a program.
const limit = 2 * testenv.Patience

// run runs the program of a rule and returns its result: 0, 1, or -1 for neither.
func (s *suite) run(r Rule, libraries string, env ...string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.exe, r.Name)
	cmd.Env = append(append(append(append(os.Environ(), s.env...), "LD_LIBRARY_PATH="+libraries), r.Env...), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, out.String()
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return 1, out.String()
	}
	return -1, fmt.Sprintf("%v\n%s", err, &out)
}

// The simulator keeps every rule, and each program fails on a simulator that breaks its rule.
func TestSimulatorKeepsEveryRule(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make, which builds the simulator that breaks rules")
	}
	build := exec.Command("make", "-C", testenv.Root(t), "lib/break/libaclsim.so")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make lib/break/libaclsim.so: %v\n%s", err, out)
	}
	s := compile(t)
	if len(s.rules) < 120 {
		t.Errorf("%d rules are not the whole suite", len(s.rules))
	}
	slots := make(chan struct{}, 10) // most programs wait more than they run
	var all sync.WaitGroup
	for _, r := range s.rules {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if code, out := s.run(r, s.main); code != 0 {
				t.Errorf("%s: the simulator breaks the rule: %s\n%s", r.Path, r.Says, out)
			}
			// On a busy machine a program can miss an early error or crash before it looks, so it gets several tries.
			code, out := 0, ""
			for slowly := 1; code != 1 && slowly <= 256; slowly *= 4 {
				code, out = s.run(r, s.broken, "ACLSIM_BREAK="+r.Name, fmt.Sprintf("CONFORMANCE_SLOWLY=%d", slowly))
			}
			if code != 1 {
				t.Errorf("%s: the program ends with %d on a simulator that breaks the rule, not with 1\n%s", r.Path, code, out)
			}
		})
	}
	all.Wait()
}

// The shipped engine contains no code that breaks rules.
func TestShippedEngineIsWhole(t *testing.T) {
	rules, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := os.ReadFile(testenv.Built(t, "lib/libaclsim.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if strings.Contains(r.Name, "_") && bytes.Contains(engine, []byte(r.Name)) {
			t.Errorf("%s is in lib/libaclsim.so", r.Name)
		}
	}
}

func TestDocumentIsUpToDate(t *testing.T) {
	rules, err := Load(".")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "dev", "conformance.md"))
	if err != nil || !bytes.Equal(b, Document(rules)) {
		t.Errorf("docs/dev/conformance.md is not what the rules say (%v): run `go run ./internal/cmd/conformance`", err)
	}
}

func TestIncompleteRulesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"RULE(x)\n":                              "no comment on top",
		"/*\n * says: something\n */\nRULE(x)\n": "lacks says or source",
		"/*\n * says: something\n * source: API\n */\nRULE(y)\n":          "one RULE(x)",
		"/*\n * says: something\n * source: API\n */\nRULE(x)\nRULE(x)\n": "one RULE(x)",
		"/*\n * nothing: of that\n */\nRULE(x)\n":                         "no field",
	} {
		r := Rule{Name: "x"}
		if err := r.parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	r := Rule{Name: "x"}
	if err := r.parse("/*\n * says: something\n *   long\n * source: API\n * env: A=1 B=2\n */\nRULE_BARE(x)\n{\n"); err != nil || r.Says != "something long" || len(r.Env) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
