package container

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// stored writes a small file without compression: with an end, or with checkpoints alone.
func stored(t *testing.T, end bool) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.aclt")
	w, err := Create(path, &FileHeader{Major: Major, Minor: 1, Session: [16]byte{1, 2, 3, 4}}, &Options{CheckpointChunks: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range []Type{Events, Blob, Events, Events, Events} {
		body := bytes.Repeat(fmt.Appendf(nil, "chunk %d ", i), 1+i)
		if _, err := w.Append(&Chunk{Type: kind, TMin: int64(10 * i), TMax: int64(10*i + 5), Raw: body}); err != nil {
			t.Fatal(err)
		}
		w.background.Wait()
	}
	finish := w.Abort
	if end {
		finish = w.Finish
	}
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// outcome describes what a reader makes of a file.
func outcome(b []byte) string {
	f, err := NewFile("x", bytes.NewReader(b), int64(len(b)))
	if err != nil {
		var none *ErrNotTrace
		if errors.As(err, &none) && strings.HasPrefix(none.Found, `"`) {
			none.Found = "text"
		}
		return err.Error()
	}
	defer f.Close()
	var out []string
	whole := 0
	for i := range f.Entries() {
		e := &f.Entries()[i]
		if _, err := f.Read(e, nil); err != nil {
			out = append(out, err.Error())
		} else if err := f.Padding(e); err != nil {
			out = append(out, err.Error())
		} else {
			whole++
		}
	}
	if err := f.Tail(); err != nil {
		out = append(out, "tail: "+err.Error())
	}
	for _, d := range f.Damage() {
		out = append(out, "damage: "+d.What)
	}
	if r := f.Recovery(); r != nil {
		out = append(out, fmt.Sprintf("%+v", *r))
	}
	h := f.Header()
	return fmt.Sprintf("%d of %d chunks, version %d.%d of %x: %s", whole, len(f.Entries()), h.Major, h.Minor, h.Session[:4], strings.Join(out, "; "))
}

// counts are numbers of bytes, which differ from one offset to the next.
var counts = regexp.MustCompile(`\d+( bytes that| bytes$| LostChunks)`)

// ranges lists the outcomes for each offset of a file, equal ones together.
func ranges(b []byte, change func(b []byte, at int) []byte) string {
	var out strings.Builder
	last, from := "", 0
	for at := 0; at <= len(b); at++ {
		now := ""
		if at < len(b) {
			now = counts.ReplaceAllString(outcome(change(bytes.Clone(b), at)), "some$1")
		}
		if now != last && at > 0 {
			fmt.Fprintf(&out, "%d-%d: %s\n", from, at-1, last)
			from = at
		}
		last = now
	}
	return out.String()
}

// A reader finds what is left of a file with one wrong byte, of a file that was cut, and of one with more bytes.
func TestEachByteOfAFile(t *testing.T) {
	for name, b := range map[string][]byte{"with an end": stored(t, true), "without an end": stored(t, false)} {
		for how, change := range map[string]func([]byte, int) []byte{
			"one bit":  func(b []byte, at int) []byte { b[at] ^= 1; return b },
			"all bits": func(b []byte, at int) []byte { b[at] ^= 0xff; return b },
			"cut":      func(b []byte, at int) []byte { return b[:at] },
			"zeros":    func(b []byte, at int) []byte { clear(b[at:]); return b },
		} {
			testenv.Golden(t, "damage.txtar", name+", "+how, outcome(b)+"\nwith more: "+outcome(append(bytes.Clone(b), "more"...))+"\n"+ranges(b, change))
		}
	}
	for start, want := range map[string]string{"\x7fELF": "an ELF program or library", "": "an empty file", "SQLite format 3": "an SQLite database"} {
		if got := outcome([]byte(start)); got != "x: not an acltrace trace: found "+want {
			t.Errorf("%q: %s", start, got)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.HasSuffix(err.Error(), "found a folder") {
		t.Error(err)
	}
}
