package record_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/sim/model"
)

// A recording named the kernel libraries in the program's environment, including libraries that the simulator never loaded, and
// no library that the simulator found by itself.
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

// A replay loaded all kernel libraries that a trace names, since it did not know the user's own ones.
func TestRecordingRemembersLoadedKernelLibraries(t *testing.T) {
	hello, program := testenv.Example(t, "hello"), testenv.Example(t, "vector_add")
	library, other := testenv.Built(t, "bin/examples/vector_kernels.so"), testenv.Built(t, "lib/aclsim_kernels.so")
	has := func(state, path string) bool {
		t.Helper()
		own, err := kernellib.ReadOwn(state)
		if err != nil {
			t.Fatal(err)
		}
		return own.Has(path, "")
	}
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv("ACLSIM_KERNELS", library)
	if o := wild(t, record.Options{Sim: true, State: state}, hello); o.Kernels.Forgotten != nil || has(state, library) {
		t.Errorf("a library that only the environment names: %v, noted %v", o.Kernels.Forgotten, has(state, library))
	}
	t.Setenv("ACLSIM_KERNELS", "/nowhere.so:"+other)
	for range 2 {
		if o := wild(t, record.Options{Sim: true, State: state}, program); o.Kernels.Forgotten != nil || !has(state, library) || !has(state, other) || has(state, "/nowhere.so") {
			t.Errorf("libraries that were loaded: %v", o.Kernels.Forgotten)
		}
	}
	list := filepath.Join(state, "libraries")
	if st, err := os.Stat(list); err != nil || st.Mode() != 0o600 {
		t.Errorf("the list: %v, %v", st, err)
	}
	if b, err := os.ReadFile(list); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("the list: %v\n%s", err, b)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := wild(t, record.Options{Sim: true, State: file}, program); o.Kernels.Forgotten == nil {
		t.Error("nothing said of a list that can't be written")
	}
}

// A trace named a cost model's file, which a replay then opened.
func TestRecordedModelIsContent(t *testing.T) {
	program := testenv.Example(t, "hello")
	m, err := model.Load("h100")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(m)
	file := filepath.Join(t.TempDir(), "model.json")
	if err = errors.Join(err, os.WriteFile(file, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{file: string(b), "instant": "instant", "/nowhere": "/nowhere"} {
		t.Setenv("ACLSIM_MODEL", setting)
		if got := wild(t, record.Options{Sim: true}, program).r.Meta().Env["ACLSIM_MODEL"]; got != want {
			t.Errorf("%s: %s", setting, got)
		}
	}
	sim := &acl.Model.Simulator
	if sim.CheckVariable(sim.Model, string(b)) != nil || sim.CheckVariable(sim.Model, file) == nil {
		t.Error("a trace can set a model's content, and no path")
	}
}
