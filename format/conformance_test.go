package format

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format/container"
	"github.com/rogpeppe/go-internal/txtar"
)

// dump says all that a Reader gives of a trace, a line for each thing.
func dump(t testing.TB, r *Reader) string {
	t.Helper()
	var b bytes.Buffer
	major, minor := r.Version()
	fmt.Fprintf(&b, "version %d.%d, complete %v, uuid %s\n", major, minor, r.Complete(), r.Meta().UUID)
	for i, p := range r.Processes() {
		fmt.Fprintf(&b, "process %d: pid %d %s\n", i, p.PID, p.Exe)
	}
	for i, th := range r.Threads() {
		fmt.Fprintf(&b, "thread %d: process %d tid %d %s\n", i, th.Process, th.TID, th.Name)
	}
	data := func(d *Data) {
		fmt.Fprintf(&b, "  data of %d: param %d item %d %v %v %v addr %#x len %d time %d", d.Call, d.Param, d.Item, d.Dir, d.Status, d.Reason, d.Addr, d.Len, d.Time)
		if d.Blob != 0 {
			content, err := r.Blob(d.Blob)
			fmt.Fprintf(&b, " blob %d, %d bytes %.16x", d.Blob, len(content), content)
			if err != nil {
				b.WriteString(strings.TrimPrefix(err.Error(), r.Path()))
			}
		} else {
			fmt.Fprintf(&b, " %.32x", d.Bytes)
		}
		b.WriteByte('\n')
	}
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "call %d: %s thread %d from %d to %d flags %d ret %#x args %#x outs %v\n", c.Index, r.Schema().FuncName(c.Func), c.Thread, c.Start, c.End, c.Flags, c.Ret, c.Args, c.Outs)
		for i := range c.Data {
			data(&c.Data[i])
		}
	}
	for d, err := range r.Data(&DataFilter{Late: true}) {
		if err != nil {
			t.Fatal(err)
		}
		data(d)
	}
	for _, g := range r.Gaps() {
		fmt.Fprintf(&b, "gap: thread %d from %d to %d, %d calls, %v\n", g.Thread, g.From, g.To, g.Calls, g.Reason)
	}
	for c := range r.Chunks() {
		if c.Known {
			fmt.Fprintf(&b, "index: calls %d to %d, times %d to %d, functions %v threads %v handles %v tasks %v\n", c.First, c.First+c.Calls, c.TMin, c.TMax, c.Funcs, c.Threads, c.Handles, c.Tasks)
		}
	}
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "counts: %d calls, %d failed, %d unfinished, %d in gaps\n", counts.Calls, counts.Failed, counts.Unfinished, counts.GapCalls)
	unknown := r.Unknown()
	for _, what := range slices.Sorted(maps.Keys(unknown)) {
		fmt.Fprintf(&b, "unknown: %s, %d times\n", what, unknown[what])
	}
	for _, d := range r.Damage() {
		fmt.Fprintf(&b, "damage: %v chunk %d: %s\n", d.Chunk, d.Seq, d.What)
	}
	return b.String()
}

// Each trace in the corpus reads as its file says. UPDATE_GOLDEN=1 writes the expected output, but never a trace.
func TestCorpusReadsAsItsFilesSay(t *testing.T) {
	paths := corpus(t)
	if len(paths) == 0 {
		t.Fatal("there is no corpus")
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file := func(name string) *txtar.File {
				for i := range a.Files {
					if a.Files[i].Name == name {
						return &a.Files[i]
					}
				}
				return nil
			}
			raw, want := file("raw"), file("read")
			if raw == nil || want == nil || len(bytes.TrimSpace(a.Comment)) == 0 {
				t.Fatal("a trace of the corpus has a story, a file raw and a file read")
			}
			r := open(t, assemble(t, string(raw.Data), &AssembleOptions{Unfinished: strings.HasPrefix(name, "unfinished")}))
			got := dump(t, r)
			binary := filepath.Join(filepath.Dir(path), name+".aclt")
			if _, err := os.Stat(binary); err == nil {
				kept := open(t, binary)
				if k := dump(t, kept); k != got {
					t.Errorf("%s reads as\n%s\nits text reads as\n%s", binary, k, got)
				}
				if k := rawText(t, kept); k != string(raw.Data) {
					t.Errorf("%s has another text than is kept beside it", binary)
				}
				if report, err := Check(binary, nil); err != nil || len(report.Problems) != 0 {
					t.Errorf("%s: %+v, %v", binary, report, err)
				}
			}
			text := rawText(t, r)
			if again := rawText(t, open(t, assemble(t, text, nil))); again != text {
				t.Errorf("the text is\n%s\nand that of the trace made of it\n%s", text, again)
			}
			if got == string(want.Data) {
				return
			}
			if os.Getenv("UPDATE_GOLDEN") == "" {
				t.Fatalf("got\n%s\nwant\n%s", got, want.Data)
			}
			want.Data = []byte(got)
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Every released version of the format has a trace that it wrote, kept for ever. NEW_VERSION=1 writes the trace of
// this version if there is none.
func TestKeptVersion(t *testing.T) {
	name := fmt.Sprintf("v%d.%d", container.Major, container.Minor)
	base := filepath.Join("../testdata/traces", name)
	if _, err := os.Stat(base + ".aclt"); err == nil {
		return // TestCorpusReadsAsItsFilesSay reads it
	}
	if os.Getenv("NEW_VERSION") == "" {
		t.Fatalf("%s.aclt is missing: NEW_VERSION=1 go test -run TestKeptVersion ./format", base)
	}
	w := create(t, base+".aclt", nil)
	r := newRandom(1)
	blob := r.bytes(9000)
	for i := range 1500 {
		c := r.call()
		switch i {
		case 30:
			c.Data = append(c.Data, Data{Bytes: blob, Time: c.Start})
		case 31:
			c.Data = append(c.Data, Data{Bytes: make([]byte, 1<<21), Time: c.Start}, Data{Bytes: blob, Param: 1, Time: c.Start})
		}
		if i > 60 && i < 1480 { // a block of many calls, but a small file
			c = &Call{Func: 10, Thread: 1, Start: r.now[1] + 500, End: r.now[1] + 600 + int64(i%3), Args: []uint64{7}}
			r.now[1] = c.End
		}
		if len(c.Args) > 0 && i%3 == 0 {
			c.Outs = append(c.Outs[:0:0], Out{TaskParam, 5<<32 | uint64(i)})
		}
		if _, err := w.Call(c); err != nil {
			t.Fatal(err)
		}
		if i == 40 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := w.Data(&Data{Call: 3, Param: 1, Dir: DirOut, Bytes: []byte("came late"), Time: c.End}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Gap(Gap{Thread: 1, From: 5, To: 9, Calls: 3, Reason: Dropped}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := &txtar.Archive{
		Comment: fmt.Appendf(nil, "A trace as version %d.%d of the format was written: %s.aclt, with random calls, data of all kinds, payloads with holes,\ndata that came late, and a gap. Neither file ever changes; only what is read of it may come to say more.\n", container.Major, container.Minor, name),
		Files:   []txtar.File{{Name: "raw", Data: []byte(rawText(t, open(t, base+".aclt")))}, {Name: "read"}},
	}
	if err := os.WriteFile(base+".txtar", txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A trace with a later minor version is readable: unknown parts are skipped, counted and named, and all else is there.
func TestFutureVersion(t *testing.T) {
	path, written := smallTrace(t)
	now := open(t, path)
	var out strings.Builder
	want := map[string]uint64{}
	calls := false
	for line := range strings.Lines(rawText(t, now)) {
		switch {
		case strings.HasPrefix(line, "aclt "):
			line = "aclt 1.9\ncompat 0xff00\n"
		case strings.HasPrefix(line, "chunk ") && strings.Contains(line, " events "):
			out.WriteString("chunk 1000 type:40 lz4 ancillary\n  text \"a chunk of a later version\"\nchunk 1001 type:41 none\n  hex 00ff\n")
			want["type 40 chunk"]++
			want["type 41 chunk, which is not ancillary"]++
			calls = strings.Contains(line, " records ") // else it is only read for its data
			line = strings.TrimSuffix(line, "\n") + " flags 0x40\n"
		case strings.HasPrefix(line, "  json {"):
			line = strings.Replace(line, "{", `{"from_the_future":{"x":[1]},`, 1)
		case strings.HasPrefix(line, "  block "):
			line += "  table 99 0 rows 3 width 1\n    0 for8 0: 1 2 3\n"
			if calls {
				want["kind of table"]++
			}
		}
		out.WriteString(line)
	}
	// Columns come by ascending field, so unknown ones are at the end of their table.
	var b strings.Builder
	lines := strings.Split(out.String(), "\n")
	events, table := false, false
	for _, l := range lines {
		if table && !strings.HasPrefix(l, "    ") {
			b.WriteString("    90000 const 7\n    90001 encoding:77 c0ffee\n")
			want["column"] += 2
			table = false
		}
		b.WriteString(l + "\n")
		if strings.HasPrefix(l, "chunk ") {
			events = strings.Contains(l, " events ")
		}
		table = table || events && strings.HasPrefix(l, "  table 2 ")
	}
	r := open(t, assemble(t, b.String(), nil))
	if _, minor := r.Version(); minor != 9 {
		t.Errorf("minor version %d", minor)
	}
	equal(t, collect(t, r, nil), collect(t, now, nil))
	if n := len(collect(t, r, nil)); n != len(written) {
		t.Errorf("%d calls", n)
	}
	r = open(t, r.Path())
	for range r.Calls(nil) {
	}
	got := r.Unknown()
	if !maps.Equal(got, want) {
		t.Errorf("unknown %v, want %v", got, want)
	}
	if string(r.Meta().Extra["from_the_future"]) != `{"x":[1]}` || r.Meta().Host != "h" || len(r.Threads()) != 4 {
		t.Errorf("meta %+v", r.Meta())
	}
	// Today's tools keep unknown parts.
	for _, join := range []bool{false, true} {
		to := tempFile(t)
		if _, err := Copy(r, to, &CopyOptions{Compression: Zstd, Join: join}); err != nil {
			t.Fatal(err)
		}
		kept := rawText(t, open(t, to))
		for _, s := range []string{fmt.Sprintf("%x", "a chunk of a later version"), "type:41", "90001 encoding:77 c0ffee", "table 99", "from_the_future"} {
			if !strings.Contains(kept, s) {
				t.Errorf("a copy has lost %q", s)
			}
		}
	}
}

// SPEC.md must contain each key of the JSON: a reader may be written from it alone.
func TestSpecNamesKeys(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := bytes.Cut(spec, []byte("## 3. "))
	text, _, _ = bytes.Cut(text, []byte("## 4. "))
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "" || key == "-" {
				continue
			}
			if !bytes.Contains(text, []byte("`"+key+"`")) && !bytes.Contains(text, []byte(`"`+key+`":`)) {
				t.Errorf("key %q of %v is not in section 3", key, of)
			}
			look(f.Type)
		}
	}
	look(reflect.TypeFor[Meta]())
	look(reflect.TypeFor[Schema]())
	look(reflect.TypeFor[dict]())
	if len(seen) < 10 {
		t.Errorf("only %d structures were looked at", len(seen))
	}
}
