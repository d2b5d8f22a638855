package testenv

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Golden compares got with a file in a txtar archive in testdata. UPDATE_GOLDEN=1 rewrites the file.
func Golden(t *testing.T, archive, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", archive)
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if i < 0 {
			a.Files = append(a.Files, txtar.File{Name: name})
			i = len(a.Files) - 1
		}
		a.Files[i].Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if i < 0 || string(a.Files[i].Data) != got {
		t.Errorf("%s of %s is\n%s", name, path, got)
	}
}
