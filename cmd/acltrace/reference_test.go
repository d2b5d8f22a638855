package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// documentedKeys returns the types of the keys in docs/reference/json.md, by command and key.
func documentedKeys(t *testing.T, root string) map[string]map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", "reference", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, command := map[string]map[string]string{}, ""
	for _, l := range strings.Split(string(b), "\n") {
		if name, ok := strings.CutPrefix(l, "## "); ok {
			command = strings.TrimSuffix(strings.TrimPrefix(name, "acltrace "), " --json")
			all[command] = map[string]string{}
		}
		if cells := strings.Split(l, " | "); strings.HasPrefix(l, "| `") {
			all[command][strings.Trim(cells[0], "|`? ")] = cells[1]
		}
	}
	return all
}

// Keys of real outputs are documented. The page is made from Go types, and this finds a type that a command no longer prints.
func TestJSONKeysAreDocumented(t *testing.T) {
	root := testenv.Root(t)
	trace, other := filepath.Join(root, "testdata", "traces", "v1.1.aclt"), filepath.Join(root, "testdata", "traces", "v1.0.aclt")
	documented := documentedKeys(t, root)
	for _, c := range []struct {
		documented string
		args       []string
		also       []string // keys that the page describes in words
	}{
		{"info", []string{"info", trace}, nil},
		{"cat", []string{"cat", trace}, nil},
		{"stats", []string{"stats", trace}, nil},
		{"stats --by KEY", []string{"stats", "--by", "kernel", trace}, []string{"by", "groups"}},
		{"stats --critical-path", []string{"stats", "--critical-path", trace}, []string{"paths"}},
		{"diff", []string{"diff", other, trace}, nil},
		{"blame", []string{"blame", trace}, nil},
		{"where --map", []string{"where", "--map", trace}, nil},
		{"top", []string{"top", "--once", trace}, nil},
		{"replay --backend virtual", []string{"replay", "--backend", "virtual", trace}, nil},
		{"sim --info", []string{"sim", "--info", "aclrtMalloc"}, nil},
		{"doctor", []string{"doctor", "--"}, nil},
		{"version", []string{"version", "--"}, nil},
	} {
		var out, errs bytes.Buffer
		run(slices.Insert(slices.Clone(c.args), len(c.args)-1, "--json"), nil, &out, &errs)
		keys := documented[c.documented]
		for _, k := range c.also {
			keys[k] = "any"
		}
		d := json.NewDecoder(&out)
		n := 0
		for d.More() {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%v: %v", c.args, err)
			}
			n += undocumented(t, c.documented, keys, "", v)
		}
		if n == 0 {
			t.Errorf("%v prints no key: %s", c.args, &errs)
		}
	}
}

// undocumented reports the keys in v that have no documentation, and returns the number of keys.
func undocumented(t *testing.T, command string, keys map[string]string, at string, v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n += undocumented(t, command, keys, at+"[]", x)
		}
	case map[string]any:
		for k, x := range v {
			key := strings.TrimPrefix(at+"."+k, ".")
			if strings.HasPrefix(keys[at], "object of ") {
				key = at + ".*"
			} else if keys[key] == "" {
				t.Errorf("acltrace %s --json: key %s is not documented", command, key)
				continue
			}
			n += 1 + undocumented(t, command, keys, key, x)
		}
	}
	return n
}
