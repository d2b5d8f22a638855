package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/acltrace/acltrace/internal/schema"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/timeline"
)

// evil, if printed raw, makes a terminal write the clipboard, start a line and reverse the text direction.
const evil = "\x1b]52;c;aGk=\a\nFORGED\r\x00\x9b\xff\u0085\u202e\u2066\u2028\tx"

// writeEvil writes a trace whose texts and file name are all evil.
func writeEvil(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a\x1b[2J\nFORGED\u202e.aclt")
	s := schema.Of(acl.Model)
	s.Functions = append(s.Functions, format.Function{ID: 60000, Name: "own" + evil, Ret: "aclError", Words: 1, Params: []format.Param{{Name: evil, Type: evil, Words: 1}}})
	for i := range s.Functions[:len(s.Functions)-1] {
		f := &s.Functions[i]
		f.Params = slices.Clone(f.Params)
		for k := range f.Params {
			f.Params[k].Name += evil
		}
	}
	mapping := format.Mapping{Start: 0x1000, End: 0x2000, Path: "/" + evil, BuildID: evil}
	process := format.Process{PID: 7, Exe: "/" + evil, Argv: []string{evil}, Host: evil, Maps: []format.Mapping{mapping}}
	w, err := format.Create(path, &format.Meta{API: "acl", Host: evil, Argv: []string{"./app", evil}, Env: map[string]string{"RANK" + evil: evil}, CapturedBy: "shim" + evil, Simulated: true,
		Payloads: format.Payloads{Replayable: true, PayloadLevel: "full" + evil, Policy: "block"}, Device: format.Device{Name: evil, DriverVersion: evil, Runtime: evil}, Tracer: format.Tracer{Version: evil}, Ended: evil, Derivation: format.Derivation{Sealed: evil, Recovered: evil, Window: format.Window(evil)},
		Libraries: []format.Library{{Path: "/" + evil, BuildID: evil}}, Kernels: format.Kernels{KernelLibraries: []string{"/" + evil}}, EndNS: 1e9,
		Coverage: format.Coverage{Binder: evil, Hooked: 1, PassedBy: map[string]uint64{evil: 1}, Unhooked: []format.Unhooked{{PID: 8, Exe: "/" + evil, Reason: evil}}}}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Process(process)
	if err != nil {
		t.Fatal(err)
	}
	th, err := w.Thread(format.Thread{Process: p, TID: 7, Name: evil})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1000)
	call := func(name string, ret uint64, args []uint64, outs []format.Out, data ...format.Data) {
		t.Helper()
		f := s.FuncByName(name)
		if f == nil {
			t.Fatalf("there is no function %q", name)
		}
		words := make([]uint64, f.Words)
		copy(words, args)
		if _, err := w.Call(&format.Call{Func: f.ID, Thread: th, Start: now, End: now + 100, Ret: ret, Args: words, Outs: outs, Data: data}); err != nil {
			t.Fatal(err)
		}
		now += 1000
	}
	text := func(param uint8) format.Data {
		return format.Data{Param: param, Dir: format.DirIn, Addr: 1, Len: uint64(len(evil)), Bytes: []byte(evil)}
	}
	const device, stream = 0x124000000000, 0x5501
	call("aclInit", 0, nil, nil)
	call("aclrtSetDevice", 0, nil, nil)
	call("aclrtCreateStream", 0, []uint64{1}, []format.Out{{Param: 0, Value: stream}})
	call("aclrtMalloc", 0, []uint64{1, 4096}, []format.Out{{Param: 0, Value: device}})
	call("mstxMarkA", 0, []uint64{1, stream}, nil, text(0))
	call("aclrtBinaryLoadFromFile", 0, []uint64{1, 0, 2}, []format.Out{{Param: 2, Value: 0x5000}}, text(0))
	call("aclrtBinaryGetFunction", 0, []uint64{0x5000, 1, 2}, []format.Out{{Param: 2, Value: 0x6000}}, text(1))
	call("aclrtLaunchKernel", 0, []uint64{0x6000, 8, device, 32, stream}, nil)
	call("own"+evil, 7, []uint64{1}, nil)
	call("aclrtSynchronizeStream", 507015, []uint64{stream}, nil)
	message := text(timeline.RetParam)
	message.Dir = format.DirOut
	call("aclGetRecentErrMsg", 1, nil, nil, message)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// raw returns the first character in b that terminals must not get, "" if none. Newlines and tabs are allowed.
func raw(b []byte) string {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			return string(b[:n])
		}
		b = b[n:]
	}
	return ""
}

// Regression: a trace's names reached the terminal raw. They wrote to its clipboard, moved its cursor and forged lines.
func TestTextOfATraceIsEscaped(t *testing.T) {
	trace := writeEvil(t)
	dir := t.TempDir()
	out := func(name string) string { return filepath.Join(dir, name+"\x1b[2J\nFORGED") }
	cut := out("cut.aclt")
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, b[:len(b)-100], 0o600); err != nil {
		t.Fatal(err)
	}
	broken := out("broken.aclt")
	b[len(b)/2] ^= 0x55
	if err := os.WriteFile(broken, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range append(exports(out, trace), [][]string{
		{"cat", trace}, {"cat", "--json", trace}, {"cat", "--raw", trace}, {"cat", "--func", evil, trace}, {"cat", "--tail", "1", "--func", "own" + evil, trace},
		{"info", trace}, {"info", "--json", trace}, {"info", cut}, {"info", broken}, {"info", trace + evil},
		{"stats", trace}, {"stats", "--json", trace}, {"stats", "--csv", trace}, {"stats", "--by", "kernel", trace}, {"stats", "--by", "kernel", "--csv", trace}, {"stats", "--by", "thread", "--json", trace},
		{"stats", "--by", "stream", trace}, {"stats", "--critical-path", trace}, {"stats", "--critical-path", "--json", trace}, {"stats", "--by", evil, trace},
		{"top", "--once", trace}, {"top", "--once", "--json", trace},
		{"diff", trace, trace}, {"diff", "--json", trace, trace},
		{"blame", trace}, {"blame", "--json", trace}, {"where", "0x124000000010", trace}, {"where", "--json", "0x124000000010", trace},
		{"replay", trace}, {"replay", "--json", trace}, {"replay", "--plan", trace}, {"replay", "--kernels", "", trace}, {"replay", "--backend", "null", trace}, {"replay", "--backend", "virtual", trace},
		{"replay", "--backend", "virtual", "--json", trace}, {"replay", "--backend", evil, trace},
		{"extract", "--call", "7", "-o", out("x.aclt"), trace}, {"bundle", "-o", out("bundle"), trace},
		{"export", evil, trace},
		{"fsck", trace}, {"fsck", cut}, {"fsck", broken}, {"recover", cut, "-o", out("recovered.aclt")}, {"recover", broken, "-o", out("recovered2.aclt")},
		{"pack", trace, "-o", out("packed.aclt")}, {"merge", trace, writeEvil(t), "-o", out("merged.aclt")}, {"assemble", trace, "-o", out("assembled.aclt")},
		{"import", "msprof", trace, "-o", out("imported.aclt")}, {evil},
	}...) {
		name := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '.'
			}
			return r
		}, strings.ReplaceAll(strings.Join(args, " "), dir, ""))
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(testenv.Root(t), "lib", "libascendcl.so")); args[0] == "replay" && err != nil {
				t.Skip("the libraries are not built: run `make build`")
			}
			var stdout, stderr bytes.Buffer
			run(args, strings.NewReader(""), &stdout, &stderr)
			if stdout.Len()+stderr.Len() == 0 {
				t.Fatal("nothing was printed")
			}
			for _, b := range []*bytes.Buffer{&stdout, &stderr} {
				if c := raw(b.Bytes()); c != "" {
					t.Errorf("%q reaches the terminal:\n%q", c, b)
				}
				for line := range strings.Lines(b.String()) {
					if strings.HasPrefix(line, "FORGED") {
						t.Errorf("the trace has written the line %q:\n%s", line, b)
					}
				}
			}
		})
	}
	t.Run("every command", func(t *testing.T) {
		// Commands that read no trace, or only write one.
		none := []string{"record", "attach", "env", "collect", "ctl", "sim", "doctor", "demo", "version", "help", "docs", "completion"}
		src, err := os.ReadFile("screen_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range newApp(nil, &bytes.Buffer{}, &bytes.Buffer{}).root().Commands() {
			if !slices.Contains(none, c.Name()) && !bytes.Contains(src, []byte(`{"`+c.Name()+`", `)) {
				t.Errorf("%s is not in the table of this test", c.Name())
			}
		}
	})
}

// JSON keeps a trace's names without loss: control characters are escaped.
func TestJSONOfATraceIsLossless(t *testing.T) {
	var stdout, stderr bytes.Buffer
	trace := writeEvil(t)
	if code := run([]string{"info", "--json", trace}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("%d: %s", code, &stderr)
	}
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var in struct{ Host string }
	if err := json.Unmarshal(stdout.Bytes(), &in); err != nil {
		t.Fatal(err)
	}
	if want := r.Meta().Host; in.Host != want || !strings.Contains(want, "\x1b]52;c;aGk=\a\nFORGED\r\x00") {
		t.Errorf("the host is %q, not %q", in.Host, want)
	}
}

// Regression: the text form printed a trace's JSON raw, with characters that reverse the text direction.
func TestRawTextIsLossless(t *testing.T) {
	trace := writeEvil(t)
	var text, again, stderr bytes.Buffer
	if code := run([]string{"cat", "--raw", trace}, nil, &text, &stderr); code != 0 {
		t.Fatalf("%d: %s", code, &stderr)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text"), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "again.aclt")
	if code := run([]string{"assemble", filepath.Join(dir, "text"), "-o", made}, nil, &stderr, &stderr); code != 0 {
		t.Fatalf("%d: %s", code, &stderr)
	}
	if code := run([]string{"cat", "--raw", made}, nil, &again, &stderr); code != 0 || !bytes.Equal(text.Bytes(), again.Bytes()) {
		t.Errorf("%d: %s: the trace that was made of the text has another one", code, &stderr)
	}
}

// Only report.Printf writes to a screen, so newlines and tabs from a trace are escaped.
func TestScreensHaveOneWriter(t *testing.T) {
	root := testenv.Root(t)
	for _, glob := range []string{"cmd/acltrace/*.go", "report/*.go", "analyze/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", glob, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "screen.go" {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				text := func(n ast.Node) string {
					var b bytes.Buffer
					_ = printer.Fprint(&b, set, n)
					return b.String()
				}
				if name := text(call.Fun); !strings.HasPrefix(name, "fmt.Fprint") && name != "io.WriteString" && !strings.HasPrefix(name, "fmt.Print") {
					return true
				}
				// Allowed: raw standard output, the terminal's own line, text being built, lists for programs.
				if to := text(call.Args[0]); !slices.Contains([]string{"a.raw", "a.stdout", "a.stderr", "f", "&b", "p.to"}, to) && !strings.Contains(filepath.Base(file), "group.go") {
					t.Errorf("%s: %s writes to %s: use report.Printf", set.Position(call.Pos()), text(call.Fun), to)
				}
				return true
			})
		}
	}
}

// makers returns commands that make a file or a folder, by relative names after -o.
func makers(t *testing.T) [][]string {
	t.Helper()
	trace, text := writeEvil(t), filepath.Join(t.TempDir(), "text")
	var said bytes.Buffer
	if code := run([]string{"cat", "--raw", trace}, nil, &said, io.Discard); code != 0 || os.WriteFile(text, said.Bytes(), 0o600) != nil {
		t.Fatalf("%d: %s", code, &said)
	}
	return append(exports(filepath.Clean, trace), [][]string{
		{"export", "parquet", "--partition", "job", "-o", "tree", trace},
		{"pack", trace, "-o", "packed.aclt"}, {"recover", trace, "-o", "recovered.aclt"}, {"merge", trace, writeEvil(t), "-o", "merged.aclt"}, {"assemble", text, "-o", "assembled.aclt"},
		{"replay", "--backend", "virtual", "-o", "virtual.aclt", trace},
		{"import", "msprof", filepath.Join("..", "..", "import", "msprof", "testdata"), "-o", "imported.aclt"},
	}...)
}

// Export parquet wrote its tables through a link of another user, and all commands wrote into a folder behind one.
func TestLinksOfOthersAreNotFollowed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make links of another user")
	}
	const other = 12345
	victim, shared := t.TempDir(), t.TempDir()
	for name, to := range map[string]string{"link": victim, "nowhere": filepath.Join(victim, "new")} {
		if err := errors.Join(os.Symlink(to, filepath.Join(shared, name)), os.Lchown(filepath.Join(shared, name), other, other)); err != nil {
			t.Fatal(err)
		}
	}
	commands := makers(t)
	trace := commands[0][len(commands[0])-1]
	commands = append(commands, []string{"bundle", trace, "-o", "bundle"})
	for _, at := range []string{filepath.Join(shared, "link"), filepath.Join(shared, "nowhere")} {
		commands = append(commands, []string{"export", "parquet", trace, "-o", at}, []string{"bundle", trace, "-o", at}, []string{"env", "--install", at},
			[]string{"collect", at, "-o", filepath.Join(t.TempDir(), "x.aclt")})
	}
	for _, args := range commands {
		for i := range args {
			if args[i] == "-o" && !filepath.IsAbs(args[i+1]) {
				args[i+1] = shared + "/link/" + args[i+1]
			}
		}
		var said bytes.Buffer
		if code := run(args, strings.NewReader(""), &said, &said); code == 0 || !strings.Contains(said.String(), "another user") && !strings.Contains(said.String(), "not yours") {
			t.Errorf("%v: code %d: %s", args, code, &said)
		}
	}
	if made := tree(t, victim); len(made) != 0 {
		t.Errorf("made in the folder behind the link: %v", slices.Sorted(maps.Keys(made)))
	}
}

// Regression: exports were readable by all users.
func TestWhatIsMadeIsPrivate(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	for _, args := range makers(t) {
		before := len(tree(t, dir))
		for i := range args {
			if args[i] == "-o" {
				args[i+1] = filepath.Join(dir, args[i+1])
			}
		}
		said.Reset()
		code := run(args, strings.NewReader(""), &said, &said)
		if len(tree(t, dir)) == before {
			t.Errorf("%v: code %d, no file was made: %s", args, code, &said)
		}
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the permissions %v", strings.TrimPrefix(path, dir), info.Mode())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
