package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// Committed pages are those that `make generate` makes.
func TestPagesAreCurrent(t *testing.T) {
	t.Chdir(testenv.Root(t))
	dir := t.TempDir()
	if err := pages(dir); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadDir(dir)
	if err != nil || len(made) != 3 {
		t.Fatalf("%d pages: %v", len(made), err)
	}
	for _, e := range made {
		got, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("docs", "reference", e.Name()))
		if err != nil || string(got) != string(want) {
			t.Errorf("docs/reference/%s is not current: run `go run ./internal/cmd/docgen` (%v)", e.Name(), err)
		}
	}
}

// Scripts need the meaning of each key. It comes from the comment of a field, and must not name other fields as Go does.
func TestKeysHaveMeanings(t *testing.T) {
	t.Chdir(testenv.Root(t))
	page, err := jsonPage()
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| (`.*`)\\?? \\| [^|]* \\| (.*) \\|$")
	goName := regexp.MustCompile(`\b([A-Z][a-z]{3,}[A-Z]\w*|[A-Z]\w*NS)\b`)
	rows := row.FindAllStringSubmatch(page, -1)
	if len(rows) < 1000 {
		t.Fatalf("%d keys", len(rows))
	}
	for _, r := range rows {
		if key, meaning := r[1], r[2]; meaning == "" {
			t.Errorf("%s has no meaning: write it in the comment of its field", key)
		} else if name := goName.FindString(meaning); name != "" {
			t.Errorf("%s: the meaning names the Go field %s, but readers know keys: %s", key, name, meaning)
		}
	}
}

// The table has every variable of acltrace that a product's source names, and no other.
func TestEnvironmentTableHasAllVariables(t *testing.T) {
	// A name in a string, as arguments of getenv and parts of environments are.
	name := regexp.MustCompile(`"((?:ACLTRACE|ACLSIM|FAKECUDA|OTEL)_[A-Z0-9_]+)[="]`)
	part := regexp.MustCompile(`s\.variable\("([A-Z_]+)"\)`) // of a signal's variable
	found := map[string]string{}
	skipped := []string{"build", "bin", "lib", "testdata", "scripts", "testenv", "testtrace", "oteltest", "viewertest", "docgen", "mutants", ".git"}
	root := testenv.Root(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && slices.Contains(skipped, d.Name()) {
			return filepath.SkipDir
		}
		if !slices.Contains([]string{".go", ".c", ".h"}, filepath.Ext(path)) || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(b), -1) {
			found[m[1]] = path
		}
		if filepath.Base(path) == "environment.go" {
			for _, m := range part.FindAllStringSubmatch(string(b), -1) {
				found["OTEL_EXPORTER_OTLP_TRACES_"+m[1]], found["OTEL_EXPORTER_OTLP_METRICS_"+m[1]] = path, path
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(found, "OTEL_EXPORTER_OTLP_") // a prefix
	listed := map[string]bool{}
	for _, r := range readers {
		for _, v := range r.variables {
			for _, n := range strings.Split(v.name, ", ") {
				listed[n] = true
				if name.MatchString(`"`+n+`"`) && found[n] == "" {
					t.Errorf("%s is in the table, and no source reads it", n)
				}
			}
		}
	}
	for n, path := range found {
		if !listed[n] {
			t.Errorf("%s: %s is not in the table", path, n)
		}
	}
}

func TestManPages(t *testing.T) {
	root, dir := testenv.Root(t), t.TempDir()
	program := filepath.Join(dir, "acltrace")
	if out, err := exec.Command("go", "build", "-o", program, filepath.Join(root, "cmd", "acltrace")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := manPages(program, dir); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"acltrace.1":             {`.TH "ACLTRACE" "1"`, `\fBacltrace-record\fP(1)`},
		"acltrace-record.1":      {".SH FLIGHT RECORDER\n", ".TP\n\\fB--ring SIZE|TIME\\fP\n", ".SH EXAMPLES\n"},
		"acltrace-export-otlp.1": {".SH NAME\nacltrace-export-otlp \\- "},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		for _, p := range parts {
			if !strings.Contains(string(b), p) {
				t.Errorf("%s: no %q", name, p)
			}
		}
	}
}
