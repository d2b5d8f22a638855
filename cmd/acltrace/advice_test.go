package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/doctor"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/whatif"
)

func TestErrorsNameTheFlagThatHelps(t *testing.T) {
	audit := &record.OptionError{Conflict: record.AuditImpossible, Err: &inject.AuditError{Why: "/bin/x is linked to musl"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("/bin/x %w", host.ErrStatic), "/bin/x is linked statically, and the shim can't be loaded into it: record it with --probe ebpf"},
		{fmt.Errorf("s: %w", ring.ErrVersion), "s: it was made by another version of acltrace, or for another runtime (--api): make it anew"},
		{uprobe.ErrRefused, uprobe.ErrRefused.Error() + ": --probe shim records them"},
		{inFlags(audit), "--bind audit: /bin/x is linked to musl: use --bind preload"},
		{&inject.AuditError{Why: "no room", Setting: "A=1"}, "no room: set A=1, or use --bind preload"},
		{&replay.MemoryError{Took: 2 << 20, Limit: 1 << 20}, "the players used 2 MiB of memory, and the limit is 1 MiB: --max-memory allows more"},
		{&compile.LimitError{What: "threads", Have: 9, Most: 4}, "the trace can't be replayed: 9 threads make calls, at most 4 are allowed; --max-threads=9 allows them"},
		{&compile.LimitError{What: "tasks", Have: 9, Most: 4}, "the trace can't be replayed: its graphs run 9 tasks, at most 4 are allowed; --max-tasks=9 allows them"},
		{fmt.Errorf("write x: %w", whatif.NoTaskTimes), "write x: the trace lacks the durations of its tasks: record with --device-time=all"},
		{blame.ErrNothingFailed, "no call failed and none is known to hang: name a call or a task with --call or --task"},
		{errors.New("other"), "other"},
	} {
		if got := advised(c.err); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestFindingsNameTheFlagThatHelps(t *testing.T) {
	for _, c := range []struct {
		finding doctor.Finding
		want    finding
	}{
		{doctor.Finding{Check: doctor.Rings, OK: true, Notes: []doctor.Note{{Text: "1 GiB free"}, {Kind: doctor.RingRoom, Text: "room for 9"}, {Kind: doctor.FullPayload, Text: "8 MiB"}}},
			finding{For: "record", What: "shared memory for the rings", OK: true, Detail: "1 GiB free; room for 9 (see --ring-size); --payload full needs 8 MiB more"}},
		{doctor.Finding{Check: doctor.Program, Subject: "./x", Err: fmt.Errorf("x %w", host.ErrStatic), Notes: []doctor.Note{{Kind: doctor.OnlyAsLibrary, Text: "2 functions", Path: "/x"}}},
			finding{For: "record", What: "./x", Detail: "x is linked statically, and the shim can't be loaded into it: record it with --probe ebpf --library /x: 2 functions"}},
		{doctor.Finding{Check: doctor.Program, Subject: "./x", Notes: []doctor.Note{{Text: "linked"}, {Kind: doctor.LinkedIn, Text: "2 functions", Path: "/x"}}},
			finding{For: "record", What: "./x", Detail: "linked. 2 functions: use --probe ebpf --library /x"}},
		{doctor.Finding{Check: doctor.Sandbox, Notes: []doctor.Note{{Text: "files"}, {Kind: doctor.NoSandbox}}},
			finding{For: "replay", What: "the player's sandbox", Detail: "files", Fix: "without it, replay runs only the kernel libraries in --kernels; --trust runs all"}},
	} {
		if got := worded(&c.finding); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// Only packages that talk to people know flags. A string of another package names one only as an argument of another program, or in the notation
// of a timeline.Selection.
func TestLibrariesNameNoFlags(t *testing.T) {
	flag := regexp.MustCompile(`--[a-z]`)
	others := regexp.MustCompile("^\"--(guard|names|sandbox|read|partial|version|list|config|steps)\"$|msprof --export=on|--sandbox --partial")
	root := testenv.Root(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && regexp.MustCompile(`^(cmd|report|internal/cmd|examples|build|bin|lib)$|(^|/)(testdata|yardsticks|\.git)$`).MatchString(name):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || name == "timeline/select.go":
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && flag.MatchString(s.Value) && !others.MatchString(s.Value) {
				t.Errorf("%s names a flag: %s", set.Position(s.Pos()), s.Value)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
