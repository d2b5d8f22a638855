package format

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

func rawText(t testing.TB, r *Reader) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func assemble(t testing.TB, text string, o *AssembleOptions) string {
	t.Helper()
	path := tempFile(t)
	if err := Assemble(strings.NewReader(text), path, o); err != nil {
		t.Fatal(err)
	}
	return path
}

// A trace becomes text and a trace again without loss: the chunks have the same bytes, maybe at other offsets.
func TestRawText(t *testing.T) {
	for name, opts := range map[string]*WriterOptions{"lz4": nil, "zstd": {Compression: Zstd}} {
		path := tempFile(t)
		w := create(t, path, opts)
		r := newRandom(3)
		for i := range 3000 {
			c := r.call()
			if i%500 == 0 {
				c.Data = append(c.Data, Data{Bytes: r.bytes(5000 + 300*i), Time: c.Start})
			}
			if _, err := w.Call(c); err != nil {
				t.Fatal(err)
			}
			if i%700 == 0 {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		first := open(t, path)
		text := rawText(t, first)
		if strings.Contains(text, "hex") && strings.Count(text, "chunk") < 10 {
			t.Fatalf("%s: %s", name, text[:200])
		}
		for _, l := range strings.Split(text, "\n") {
			if strings.HasPrefix(l, "chunk") && strings.Contains(l, "events") {
				if next := text[strings.Index(text, l)+len(l)+1:]; !strings.HasPrefix(next, "  block") {
					t.Errorf("%s: %s is shown as bytes", name, l)
				}
			}
		}
		second := open(t, assemble(t, text, nil))
		if again := rawText(t, second); again != text {
			t.Errorf("%s: the text of the second trace differs", name)
		}
		if n := len(collect(t, second, nil)); n != 3000 {
			t.Errorf("%s: %d calls", name, n)
		}
		report, err := Check(second.Path(), nil)
		if err != nil || len(report.Problems) != 0 || !report.Complete {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
}

// An error in a text names its line.
func TestAssembleErrors(t *testing.T) {
	head := "aclt 1.0\nsession 00112233445566778899aabbccddeeff\nanchor 0 0\n"
	for text, want := range map[string]string{
		"":                                     "no chunk",
		"nonsense":                             "line 1",
		head + "  json {}":                     "line 4: content without a chunk",
		head + "chunk 0 metal none":            `line 4: "metal"`,
		head + "chunk 0 meta snappy":           `line 4: "snappy"`,
		head + "chunk 0 meta none\n# x\n  ???": "line 6",
		head + "chunk 0 events none\n  block 1 0 0\n  table 1 0 rows 2 width 6\n    0 for8 5: 5 3000\nchunk 1 meta none\n": "line 7: 3000 is too far",
		head + "chunk 0 events none\n  table 1 0 rows 2000000000 width 6\n    0 fixed64 5\nchunk 1 meta none\n":            "line 6: 2000000000 words",
	} {
		path := filepath.Join(t.TempDir(), "x.aclt")
		err := Assemble(strings.NewReader(text), path, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q leaves a file: %v", text, err)
		}
	}
}

// FuzzAssemble passes arbitrary texts. A text that makes a file is read, and its text makes the same file.
func FuzzAssemble(f *testing.F) {
	path, _ := smallTrace(f)
	text := rawText(f, open(f, path))
	f.Add(text)
	for _, path := range corpus(f) {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if file.Name == "raw" && len(file.Data) < 1<<14 {
				f.Add(string(file.Data))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := tempFile(t)
		var err error
		bounded(t, len(text), func() { err = Assemble(strings.NewReader(text), path, nil) })
		if err != nil {
			return
		}
		r, err := Open(path, nil)
		if err != nil {
			return
		}
		defer r.Close()
		first := rawText(t, r)
		again := open(t, assemble(t, first, nil))
		if second := rawText(t, again); second != first {
			t.Fatalf("text of\n%s\nis\n%s", first, second)
		}
	})
}

// corpus returns the texts of the conformance corpus.
func corpus(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("../testdata/traces/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
