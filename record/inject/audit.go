package inject

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/record/host"
)

// Audited adds the audit library to an environment that preloads the shim. It fails if the program can't run with it.
func (f *ShimFolder) Audited(program string, env []string) ([]string, error) {
	b, err := artifacts.Bytes(artifacts.Audit)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(filepath.Dir(f.Path), artifacts.Audit)
	if err := writeCode(path, b); err != nil {
		return nil, err
	}
	env = Prepend(env, "LD_AUDIT", path, ":")
	if err := auditable(program, path, env); err != nil {
		return nil, err
	}
	return env, nil
}

// auditable returns an error if a program can't run with the audit library that env names. It makes the loader load the
// program's libraries, and does not start the program.
func auditable(program, audit string, env []string) error {
	program, err := host.ScriptProgram(program)
	if err != nil {
		return err
	}
	loader, err := host.Loader(program)
	if err != nil {
		return err
	}
	if loader == "" {
		return fmt.Errorf("%s is not a program with a loader", program)
	}
	cmd := exec.Command(loader, "--version")
	cmd.Env = []string{}
	said, _ := cmd.CombinedOutput()
	if err := knowsAudit(string(said)); err != nil {
		return &AuditError{Why: fmt.Sprintf("%s %v", program, err)}
	}
	try := func(env []string) string {
		cmd := exec.Command(loader, program)
		// With LD_WARN the loader relocates the libraries that it lists, which is when it runs out of static TLS.
		cmd.Env = append(slices.Clone(env), "LD_TRACE_LOADED_OBJECTS=1", "LD_WARN=1")
		out, _ := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); strings.Contains(line, "static TLS block") || strings.Contains(line, audit) && strings.Contains(line, "audit interface") {
				return line
			}
		}
		return ""
	}
	refused := try(env)
	if refused == "" {
		return nil
	}
	if _, rest, ok := strings.Cut(refused, "error while loading shared libraries: "); ok {
		refused = rest
	}
	// The loader sets aside memory for audited programs before it knows their libraries.
	for n := 4096; n <= 1<<20; n *= 2 {
		tunables := tuned(env, "glibc.rtld.optional_static_tls", strconv.Itoa(n))
		if try(append(slices.Clone(env), tunables)) == "" {
			return &AuditError{refused, tunables}
		}
	}
	return &AuditError{Why: refused}
}

// AuditError reports that a program can't run with the audit library.
type AuditError struct {
	Why     string
	Setting string // environment variable that helps, NAME=value; "" for none
}

func (e *AuditError) Error() string {
	if e.Setting != "" {
		return e.Why + ": set " + e.Setting
	}
	return e.Why
}

// tuned returns GLIBC_TUNABLES as env has it, with one more setting.
func tuned(env []string, name, value string) string {
	old, _ := host.Lookup(env, "GLIBC_TUNABLES")
	all := slices.DeleteFunc(strings.Split(old, ":"), func(s string) bool { return s == "" || strings.HasPrefix(s, name+"=") })
	return "GLIBC_TUNABLES=" + strings.Join(append(all, name+"="+value), ":")
}

var loaderVersion = regexp.MustCompile(`version (\d+)\.(\d+)`)

// knowsAudit returns why a loader can't audit, from its output for --version, which glibc has had since 2.33.
func knowsAudit(said string) error {
	if strings.Contains(said, "musl") {
		return errors.New("is linked to musl, which has no LD_AUDIT")
	}
	const why = "which slows down all calls between libraries, and on aarch64 destroys arguments"
	m := loaderVersion.FindStringSubmatch(said)
	if m == nil {
		return fmt.Errorf("runs on a C library older than glibc 2.35, %s", why)
	}
	major, _ := strconv.Atoi(m[1])
	if minor, _ := strconv.Atoi(m[2]); major < 2 || major == 2 && minor < 35 {
		return fmt.Errorf("runs on glibc %s.%s, older than 2.35, %s", m[1], m[2], why)
	}
	return nil
}
