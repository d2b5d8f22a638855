package replay

import (
	"os"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/testenv"
)

// A replay did not name the build of a kernel library, so a library rebuilt since the recording looked like the
// recorded one.
func TestReplayReportsKernelLibraries(t *testing.T) {
	command := verdictProgram(t)
	library := os.Getenv("ACLSIM_KERNELS")
	path := recorded(t, append(command, "inplace")...)
	id := kernellib.BuildID(library)
	used := func(o *Options) []KernelLibrary {
		t.Helper()
		o.Verify = true
		r := run(t, path, o)
		if len(o.KernelLibraries) > 0 || o.KernelLibraries == nil {
			identical(t, r, 1)
		}
		return r.KernelLibraries
	}
	if ls := used(&Options{}); len(ls) != 1 || ls[0].Path != library || ls[0].BuildID != id || ls[0].RecordedBuildID != id || ls[0].Changed {
		t.Errorf("the recorded library: %+v", ls)
	}
	if ls := used(&Options{KernelLibraries: []string{}}); len(ls) != 0 {
		t.Errorf("no library: %+v", ls)
	}
	other := testenv.CompileC(t, "kernels.so", []string{"testdata/kernels.c"}, "-shared", "-fPIC", "-O0", "-Wl,--build-id=none")
	ls := used(&Options{KernelLibraries: []string{other}, Repeat: 2})
	if len(ls) != 1 || ls[0].Path != other || !strings.HasPrefix(ls[0].BuildID, "sha256:") || ls[0].RecordedBuildID != id || !ls[0].Changed {
		t.Errorf("another library: %+v", ls)
	}
	b, err := os.ReadFile(other)
	if err == nil {
		err = os.Remove(library)
	}
	if err == nil {
		err = os.WriteFile(library, b, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	if ls := used(&Options{}); len(ls) != 1 || ls[0].Path != library || ls[0].RecordedBuildID != id || !ls[0].Changed {
		t.Errorf("the recorded library after a rebuild: %+v", ls)
	}
}
