package record_test

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// A recording named the kernel libraries of the program's environment, those included that the simulator never loaded, and none
// that it found by itself.
func TestRecordingNamesLoadedKernelLibraries(t *testing.T) {
	hello, program := testenv.Example(t, "hello"), testenv.Example(t, "vector_add")
	library, other := testenv.Built(t, "bin/examples/vector_kernels.so"), testenv.Built(t, "lib/aclsim_kernels.so")
	for _, c := range []struct {
		program, env string
		want         []string
	}{
		{program, "", []string{library}},
		{program, "/nowhere.so:" + other, []string{other, library}},
		{program, library, []string{library}},
		{hello, library, nil}, // it has no kernels
	} {
		t.Setenv("ACLSIM_KERNELS", c.env)
		m := wild(t, record.Options{Sim: true}, c.program).r.Meta()
		loaded(t, m, c.want...)
	}
}

// loaded checks the kernel libraries that a recording names.
func loaded(t *testing.T, m *format.Meta, libraries ...string) {
	t.Helper()
	if !slices.Equal(m.KernelLibraries, libraries) || len(m.KernelBuildIDs) != len(libraries) {
		t.Errorf("libraries %q with ids %v, want %q", m.KernelLibraries, m.KernelBuildIDs, libraries)
	}
	for _, l := range libraries {
		if id := m.KernelBuildIDs[l]; id == "" || id != kernellib.BuildID(l) {
			t.Errorf("%s: build id %q", l, id)
		}
	}
}
