package detect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
)

// Files that a process names were opened without a look at their type: a pipe stopped the recorder.
func TestFilesOfProcessesAreRegular(t *testing.T) {
	dir := t.TempDir()
	m := acl.Model
	lib := testenv.Pipe(t, dir, m.Layers[0].Libraries[0])
	text := func(*api.Model) []string { return []string{"text"} }
	for what, f := range map[string]func() bool{
		"the libraries of a program": func() bool { return linked([]*api.Model{m}, lib) == nil },
		"the texts in a program":     func() bool { return !holds([]*api.Model{m}, lib, text)(m) },
		"the runtime's library":      func() bool { _, err := Library(m, []string{"LD_LIBRARY_PATH=" + dir}); return err == nil },
		"the runtime": func() bool {
			got, _ := guessRuntime([]*api.Model{m, cuda.Model}, lib, []string{"LD_LIBRARY_PATH=" + dir}, false)
			return got != nil
		},
	} {
		testenv.Within(t, what, func() {
			if !f() {
				t.Errorf("%s is that of a pipe", what)
			}
		})
	}
}

// The folders in another user's LD_LIBRARY_PATH were taken as patterns, which could search the whole machine, and their number
// had no limit.
func TestFoldersOfProcessesAreNoPatterns(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libascendcl.so.1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !has(acl.Model, dir) || has(acl.Model, filepath.Dir(dir)+"/*") {
		t.Error("a folder is not searched, or a pattern is")
	}
	if n := len(libraryDirs([]string{"LD_LIBRARY_PATH=" + strings.Repeat("/x:", 100_000)})); n > MaxFolders+20 {
		t.Errorf("%d folders", n)
	}
}

// Regression: acltrace, which has the texts that it looks for, passed for a program of CUDA, so `acltrace sim -- acltrace sim` changed the simulator.
func TestAcltraceIsOfNoRuntime(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	models := []*api.Model{acl.Model, cuda.Model}
	if !holds(models, self, func(m *api.Model) []string { return m.Installed.Carried })(cuda.Model) {
		t.Fatal("the program lacks the texts")
	}
	if m, file := carried(models, self, false); m != nil {
		t.Errorf("%s has code for devices of %s", file, m.Name)
	}
}
