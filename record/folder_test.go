package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

func TestOutputName(t *testing.T) {
	host, _ := os.Hostname()
	for _, c := range []struct{ name, want string }{
		{"run.aclt", "run.aclt"},
		{"%h-%r-%p.aclt", host + "-3-77.aclt"},
		{"100%%-%x.aclt", "100%-%x.aclt"},
		{"%%p.aclt", "%p.aclt"},
	} {
		if got := outputName(c.name, []string{"HOME=/", "OMPI_COMM_WORLD_RANK=3"}, 77); got != c.want {
			t.Errorf("%s became %s, not %s", c.name, got, c.want)
		}
	}
	for want, env := range map[string][]string{"0": nil, "7": {"RANK=7", "OMPI_COMM_WORLD_RANK=3"}, "4": {"RANK=../x", "PMI_RANK=4"}} {
		if got := outputName("%r", env, 77); got != want {
			t.Errorf("rank of %v is %s, not %s", env, got, want)
		}
	}
}

// A shim from another build would record nothing: the recording does not begin.
func TestOtherBuild(t *testing.T) {
	shim := testenv.Built(t, "lib/libacltrace.so")
	b, err := os.ReadFile(shim)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("acltrace shim: ring "))
	if at < 0 {
		t.Fatal("the shim does not say what it was built for")
	}
	b[bytes.IndexByte(b[at:], 0)+at-1] ^= 1
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(shim)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACLTRACE_LIB", dir)
	_, err = Run(t.Context(), &Options{Model: acl.Model, Output: filepath.Join(dir, "run.aclt"), Command: []string{"/bin/true"}})
	if !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), "another build") {
		t.Errorf("the error is %v", err)
	}
}
