package kernellib

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// A list holds each library once. Lines that a killed process left unfinished, and paths that are not absolute, are left out.
func TestListHoldsEachLibraryOnce(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	if err := Append(list, Library{"/a.so", "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(list); !os.IsNotExist(err) {
		t.Fatalf("a list without a reader was made: %v", err)
	}
	if err := Create(list); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(list); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	want := []Library{{"/with a space.so", "1"}, {"/a.so", "2"}, {"/a.so", "3"}, {"/nowhere.so", ""}}
	for _, l := range append(want, want...) {
		if err := Append(list, l); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(list); err != nil || !strings.Contains(string(text), "\n- /nowhere.so\n") {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{"b", "/a c", "b"} {
		if err := AppendMissing(list, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := AppendCrashed(list, "c"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(AppendNotComputed(list, "e"), AppendNotComputed(list, "d"), AppendNotComputed(list, "e")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(list, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("4 b.so\n\n5\n6 /unfinished"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, err := Read(list)
	if err != nil || !slices.Equal(got.Libraries, want) {
		t.Fatalf("%v, %v; want %v", got, err, want)
	}
	if !slices.Equal(got.Missing, []string{"/a c", "b"}) || !slices.Equal(got.Crashed, []string{"c"}) || !slices.Equal(got.NotComputed, []string{"d", "e"}) {
		t.Errorf("%q are missing, %q have crashed, %q are not computed", got.Missing, got.Crashed, got.NotComputed)
	}
}

// A library without a build id is identified by the hash of its content.
func TestBuildID(t *testing.T) {
	source := filepath.Join(t.TempDir(), "k.c")
	if err := os.WriteFile(source, []byte("int aclsim_kernels; extern int other; int *use(void) { return &other; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with := testenv.CompileC(t, "with.so", []string{source}, "-shared", "-fPIC", "-Wl,--build-id=0x0123456789")
	without := testenv.CompileC(t, "without.so", []string{source}, "-shared", "-fPIC", "-Wl,--build-id=none")
	if id := BuildID(with); id != "0123456789" {
		t.Errorf("build id %q", id)
	}
	if id := BuildID(without); len(id) != len("sha256:")+64 {
		t.Errorf("build id %q of a file without one", id)
	}
	if id := BuildID(source + ".gone"); id != "" {
		t.Errorf("build id %q of no file", id)
	}
	if !Exports(with, "aclsim_kernels") || Exports(with, "other") || Exports(source, "aclsim_kernels") {
		t.Error("wrong symbols")
	}
}
