package host

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

// Files that a process names were opened without a look at their type: a pipe stopped the recorder.
func TestFilesOfProcessesAreRegular(t *testing.T) {
	dir := t.TempDir()
	m := acl.Model
	lib := testenv.Pipe(t, dir, m.Layers[0].Libraries[0])
	in := &api.Installed{Homes: []string{"RUNTIME_HOME"}, Runtime: []string{"version"}}
	testenv.Pipe(t, dir, "version")
	for what, f := range map[string]func() bool{
		"the build id of a mapping":  func() bool { return ParseMaps([]byte("1-2 r-xp 0 0:0 1 " + lib + "\n"))[0].BuildID == "" },
		"the functions of a program": func() bool { return DefinedFunctions(lib, map[string]bool{"f": true}) == nil },
		"the first line of a script": func() bool { _, err := InterpreterLine(lib); return err != nil },
		"a program":                  func() bool { return CheckExecutable(lib) != nil },
		"the version of the runtime": func() bool { v, _ := RuntimeVersions(in, []string{"RUNTIME_HOME=" + dir}); return v == "" },
	} {
		testenv.Within(t, what, func() {
			if !f() {
				t.Errorf("%s is that of a pipe", what)
			}
		})
	}
}

// Code that a program generates is in no file.
func TestParseMapsHasGeneratedCode(t *testing.T) {
	maps := ParseMaps([]byte("10-20 rwxp 0 00:00 0 \n20-30 rw-p 0 00:00 0 \n30-40 r-xp 0 0:0 1 /no/file\n40-50 r-xp 0 00:00 0 [vdso]\n"))
	if len(maps) != 2 || maps[0].Start != 0x10 || maps[0].Path != "" || maps[1].Path != "/no/file" {
		t.Errorf("%+v", maps)
	}
}
