package detect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
)

// A program that names the library of one runtime is of that runtime, wherever in the program the name is.
func TestProgramNamesItsLibrary(t *testing.T) {
	dir := t.TempDir()
	models := []*api.Model{acl.Model, cuda.Model}
	const chunk = 1 << 20
	write := func(name string, at int, texts ...string) string {
		t.Helper()
		b := bytes.Repeat([]byte{'x'}, at)
		for _, text := range texts {
			b = append(b, text...)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, append(b, make([]byte, chunk)...), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, c := acl.Model.Libraries()[0], cuda.Model.Libraries()[0]
	for _, back := range []int{0, 5, 60, 65} {
		for _, base := range []int{chunk, 2*chunk - 64, 2 * chunk} {
			at := base - back
			for m, text := range map[*api.Model]string{acl.Model: a, cuda.Model: c} {
				path := write("program", at, text)
				if got, why := guessRuntime(models, path, nil, true); got != m || why != path+" names its library" {
					t.Errorf("%s at %d: %s, %s", text, at, got.Name, why)
				}
			}
		}
	}
	path := write("both", 0, a, " ", c)
	if got, why := guessRuntime(models, path, nil, true); strings.Contains(why, "names its library") {
		t.Errorf("a program that names both is of %s: %s", got.Name, why)
	}
	if got, why := guessRuntime(models, filepath.Join(dir, "gone"), nil, true); strings.Contains(why, dir) {
		t.Errorf("no program is of %s: %s", got.Name, why)
	}
}

// A library is found in the folders that the environment names first, and one that is not is named in the error.
func TestLibrary(t *testing.T) {
	dir := t.TempDir()
	name := acl.Model.Layers[0].Libraries[0]
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	for _, d := range []string{first, second} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"LD_LIBRARY_PATH=" + first + "::" + second}
	if path, err := Library(acl.Model, env); err == nil {
		t.Skipf("this machine has %s", path)
	} else if !strings.HasPrefix(err.Error(), name+" is not installed: the machine has no ") || !strings.HasSuffix(err.Error(), "LD_LIBRARY_PATH lacks its folder") {
		t.Error(err)
	}
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x01\x01")
	small := bytes.Clone(header)
	small[4] = 1
	write(filepath.Join(first, name), small)
	write(filepath.Join(second, name), header)
	for _, want := range []string{filepath.Join(second, name), filepath.Join(first, name), filepath.Join(second, name+".1")} {
		switch want {
		case filepath.Join(first, name):
			write(want, header)
		case filepath.Join(second, name+".1"):
			write(want, header)
		}
		if path, err := Library(acl.Model, env); path != want || err != nil {
			t.Errorf("%s, %v; want %s", path, err, want)
		}
	}
}
