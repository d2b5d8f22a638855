package docs

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the output in the pages from a real run")

// A command is a line after `$ ` in a console block, with the output that the page shows.
type command struct {
	text string
	want []string // a line of only "…" stands for any lines
	at   int      // line in the page of the first output line
}

const (
	run    = "console"         // the language of blocks that tests run
	torch  = "console torch"   // of blocks that make test-torch runs
	notRun = "console not-run" // of blocks for other machines
	gap    = "…"
)

// commands returns the commands of a page's blocks with a language. A command may go on after a backslash. In a strict page
// each block has a language, so that none is left out by mistake.
func commands(lines []string, language string, strict bool) ([]*command, error) {
	var all []*command
	open := ""
	for n := 0; n < len(lines); n++ {
		l := lines[n]
		if mark, is := strings.CutPrefix(l, "```"); is {
			switch {
			case open != "":
				open = ""
			case mark == "" && strict:
				return nil, fmt.Errorf("line %d: a block needs a language: %s for commands that this test runs, %s or sh for others, text for the rest", n+1, run, notRun)
			default:
				open = cmp.Or(mark, "text")
			}
			continue
		}
		if open != language {
			continue
		}
		text, is := strings.CutPrefix(l, "$ ")
		if !is {
			if len(all) == 0 || all[len(all)-1].at+len(all[len(all)-1].want) != n {
				return nil, fmt.Errorf("line %d: output without a command", n+1)
			}
			all[len(all)-1].want = append(all[len(all)-1].want, l)
			continue
		}
		for strings.HasSuffix(text, "\\") {
			n++
			text += "\n" + lines[n]
		}
		all = append(all, &command{text: text, at: n + 1})
	}
	return all, nil
}

var (
	escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
	varying = regexp.MustCompile(`(?i)\b0x[0-9a-f]+\b|\b[0-9a-f]*[0-9][0-9a-f]{6,}\b|` + // addresses, ids, bytes
		`[-+]?\b[0-9][0-9.,:]*(?:(?: ?(?:ns|us|µs|ms|[kmgt]i?b(?:/s)?|b))\b| ?[smh%]\b| ?%)?(?:[0-9.]+(?:s|ms))?`)
	rules  = regexp.MustCompile(`[-─]{3,}`)
	blanks = regexp.MustCompile(`\s+`)
)

// masked returns a line without numbers, times, sizes, addresses and ids, and without alignment.
func masked(l string) string {
	l = varying.ReplaceAllString(l, "#")
	l = strings.ReplaceAll(l, ", # in progress at the end", "")    // attach may end during a call
	l = strings.ReplaceAll(l, ", the first is a warm-up of #", "") // on a busy machine
	l = rules.ReplaceAllString(l, "-")
	return strings.TrimSpace(blanks.ReplaceAllString(l, " "))
}

// missing returns the lines of want that got lacks, masked, in any order. Without a gap in want, got must have no more lines.
func missing(want, got []string) []string {
	left := map[string]int{}
	for _, l := range got {
		if m := masked(l); m != "" {
			left[m]++
		}
	}
	var bad []string
	gaps := false
	for _, l := range want {
		m := masked(l)
		switch {
		case m == gap:
			gaps = true
		case m == "":
		case left[m] == 0:
			bad = append(bad, "missing: "+l)
		default:
			left[m]--
		}
	}
	if !gaps {
		for _, l := range got {
			if m := masked(l); left[m] > 0 {
				left[m]--
				bad = append(bad, "not in the page: "+l)
			}
		}
	}
	return bad
}

// renewed returns want with its lines replaced by those of got. A run of lines between gaps keeps its length, and is
// taken from the place in got that resembles it most.
func renewed(want, got []string) []string {
	if !slices.ContainsFunc(want, func(l string) bool { return strings.TrimSpace(l) == gap }) {
		return got
	}
	var out []string
	from := 0
	for n := 0; n < len(want); {
		if strings.TrimSpace(want[n]) == gap {
			out = append(out, want[n])
			n++
			continue
		}
		end := n
		for end < len(want) && strings.TrimSpace(want[end]) != gap {
			end++
		}
		best, at := -1, from
		for start := from; start+end-n <= len(got); start++ {
			alike := 0
			for i, l := range want[n:end] {
				alike += likeness(l, got[start+i])
			}
			if alike > best {
				best, at = alike, start
			}
		}
		to := min(at+end-n, len(got))
		out = append(out, got[at:to]...)
		from, n = to, end
	}
	return out
}

// likeness is the number of words that two lines share, and more if the lines are equal when masked.
func likeness(a, b string) int {
	a, b = masked(a), masked(b)
	if a == b {
		return 100
	}
	n := 0
	words := strings.Fields(b)
	for _, w := range strings.Fields(a) {
		if w != "#" && slices.Contains(words, w) {
			n++
		}
	}
	return n
}

// A session is a shell in a folder of its own with a link to bin, on a terminal of 110 columns.
type session struct {
	dir, root string
	env       []string
}

func newSession(t *testing.T) *session {
	t.Helper()
	bin := filepath.Dir(testenv.Built(t, "bin/acltrace"))
	s := &session{dir: t.TempDir(), root: testenv.Root(t)}
	if err := os.Symlink(bin, filepath.Join(s.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "PATH="+bin+":"+filepath.Join(bin, "examples")+":"+os.Getenv("PATH"),
		"NO_COLOR=1", "TERM=xterm", "LC_ALL=C.UTF-8", "PS1=", "XDG_STATE_HOME="+filepath.Join(s.dir, ".state"))
	return s
}

// run runs the commands in one shell, and returns the output of each.
func (s *session) run(t *testing.T, all []*command) [][]string {
	t.Helper()
	const mark, end = "\x1e", '\x1f'
	var script strings.Builder
	for _, c := range all {
		fmt.Fprintf(&script, "acl_rc=$?; printf '%s'; (exit $acl_rc)\n%s\n", mark, c.text)
	}
	fmt.Fprintf(&script, "printf '%c'\n", end)
	master, tty := terminal(t)
	cmd := exec.Command("timeout", fmt.Sprint(testenv.Patience.Seconds()), "sh", "-c", script.String())
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.env, time.Second
	cmd.Stdout, cmd.Stderr = tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		tty.Close()
	}()
	said, err := bufio.NewReader(master).ReadString(byte(end))
	if err := <-ended; err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	said = said[:len(said)-1]
	parts := strings.Split(said, mark)
	if len(parts) != len(all)+1 {
		t.Fatalf("%d of %d commands ran:\n%s", len(parts)-1, len(all), said)
	}
	var out [][]string
	for _, p := range parts[1:] {
		out = append(out, s.lines(p))
	}
	return out
}

// lines returns text as the terminal shows it, without the names of folders on this machine.
func (s *session) lines(text string) []string {
	text = strings.NewReplacer(s.dir+"/", "", s.root+"/", "").Replace(text)
	var out []string
	for l := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if i := strings.LastIndexByte(l, '\r'); i >= 0 { // a line of progress that was written over
			l = l[i+1:]
		}
		out = append(out, strings.TrimRight(escapes.ReplaceAllString(l, ""), " "))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// terminal opens a pseudoterminal of 110 columns.
func terminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 110})
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, tty
}

// problems are the pages that solve a problem, each with a text in its session that names the cause.
var problems = map[string]string{
	"slow-step.md":       `step 19 took .* times the median: call 433, aclrtMemcpy`,
	"host-bound.md":      `own time, thread`,
	"hang.md":            `its stream waits for event#\d+, last recorded by call \d+`,
	"memory-grows.md":    `aclrtMalloc, <=64KiB each\s+reserve_blocks`,
	"wrong-result.md":    `race-between-streams`,
	"rare-crash.md":      `suspect: .*kernel attention[\s\S]*aclrtFree`,
	"customer-trace.md":  `not deterministic: call \d+ aclrtMemcpyAsync[\s\S]*written by: \d+ attention`,
	"running-process.md": `of step time is the program's own time`,
	"many-ranks.md":      `rank 2 came last`,
	"regression.md":      `kernel bias_gelu`,
}

// A session of a page has at most so many commands of acltrace from the problem to its cause.
const mostCommands = 5

// The commands in pages for users print the output that the pages show. `go test ./docs -update` rewrites the output.
// Pages run one after the other: side by side, they would wait for each other's cores instead of their own problem.
func TestPagesShowRealOutput(t *testing.T) {
	root := testenv.Root(t)
	testenv.Built(t, "bin/acltrace")
	testenv.Built(t, "bin/examples/slow_step")
	testenv.Built(t, "bin/examples/cuda/driver")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/howto/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range problems {
		if !slices.Contains(pages, filepath.Join(root, "docs/howto", name)) {
			t.Errorf("docs/howto/%s is missing", name)
		}
	}
	reference, err := filepath.Glob(filepath.Join(root, "docs/reference/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(pages, reference, []string{filepath.Join(root, "README.md")}) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		lines := strings.Split(string(b), "\n")
		all, err := commands(lines, run, !slices.Contains(reference, path))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(all) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			got := s.run(t, all)
			if refused := regexp.MustCompile("attach.*not (permitted|supported).*").FindString(fmt.Sprint(got)); refused != "" {
				t.Skipf("no uprobes here: %s", refused)
			}
			compare(t, path, lines, all, got)
			if cause, ok := problems[name]; ok {
				solves(t, cause, all, got)
				rows(t, s, rowsOf(string(readme), name), cause)
			}
		})
	}
}

// TestTorchPages runs the commands of pages about PyTorch, with the interpreter of make test-torch.
func TestTorchPages(t *testing.T) {
	python := os.Getenv("ACLTRACE_TORCH")
	if python == "" {
		t.Skip("no PyTorch: make test-torch installs it and runs this test")
	}
	root := testenv.Root(t)
	for _, page := range []string{"README.md", "docs/howto/pytorch.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			path := filepath.Join(root, page)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(b), "\n")
			all, err := commands(lines, torch, true)
			if err != nil || len(all) == 0 {
				t.Fatalf("%d commands, %v", len(all), err)
			}
			s := newSession(t)
			s.env = append(s.env, "PATH="+filepath.Dir(python)+":"+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"))
			if err := os.CopyFS(s.dir, os.DirFS(filepath.Join(root, "examples/pytorch"))); err != nil {
				t.Fatal(err)
			}
			compare(t, path, lines, all, s.run(t, all))
		})
	}
}

// compare compares the output with the page, or rewrites the page.
func compare(t *testing.T, path string, lines []string, all []*command, got [][]string) {
	t.Helper()
	if *update {
		var out []string
		from := 0
		for i, c := range all {
			out = append(out, lines[from:c.at]...)
			out = append(out, renewed(c.want, got[i])...)
			from = c.at + len(c.want)
		}
		out = append(out, lines[from:]...)
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for i, c := range all {
		if bad := missing(c.want, got[i]); len(bad) > 0 {
			t.Errorf("line %d: $ %s\n  %s\nprinted:\n%s", c.at, c.text, strings.Join(bad, "\n  "), strings.Join(got[i], "\n"))
		}
	}
}

// solves checks that a session finds the cause, in few commands.
func solves(t *testing.T, cause string, all []*command, got [][]string) {
	t.Helper()
	n := 0
	for _, c := range all {
		n += strings.Count(c.text, "acltrace ")
	}
	if n > mostCommands {
		t.Errorf("%d commands of acltrace, more than %d", n, mostCommands)
	}
	var text strings.Builder
	for _, g := range got {
		text.WriteString(strings.Join(g, "\n") + "\n")
	}
	if !regexp.MustCompile(cause).MatchString(text.String()) {
		t.Errorf("nothing in the session matches %q", cause)
	}
}

// rowsOf returns the commands in the rows of the README's table that link to a page.
func rowsOf(readme, page string) []string {
	var all []string
	for l := range strings.SplitSeq(readme, "\n") {
		if !strings.HasPrefix(l, "|") || !strings.Contains(l, "(docs/howto/"+page+")") {
			continue
		}
		for _, m := range regexp.MustCompile("`(acltrace [^`]*)`").FindAllStringSubmatch(l, -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// rows runs the commands of the README's rows for a page, in the page's folder. One of them prints the cause.
func rows(t *testing.T, s *session, row []string, cause string) {
	t.Helper()
	if len(row) == 0 {
		t.Error("README.md has no row for this page")
		return
	}
	var all []*command
	for _, r := range row {
		all = append(all, &command{text: r}, &command{text: "echo $?"})
	}
	got := s.run(t, all)
	var text strings.Builder
	for i := 0; i < len(got); i += 2 {
		text.WriteString(strings.Join(got[i], "\n") + "\n")
		if status := strings.Join(got[i+1], ""); status != "0" && status != "3" && status != "4" {
			t.Errorf("README.md: %s: exit code %s\n%s", all[i].text, status, strings.Join(got[i], "\n"))
		}
	}
	if !regexp.MustCompile(cause).MatchString(text.String()) {
		t.Errorf("README.md: %q does not print %q:\n%s", row, cause, text.String())
	}
}

func TestNumbersAreMasked(t *testing.T) {
	for in, want := range map[string]string{
		"  4.33 ms  3.42 ms  thread 6548 tiny_decoder":            "# # thread # tiny_decoder",
		"call 13 at 0x124041201200, 56.9%":                        "call # at #, #",
		"run.aclt: 8,440 calls, 3.0 MiB":                          "run.aclt: # calls, #",
		"identical: 16 results in 37.75ms":                        "identical: # results in #",
		"http://localhost:16686/trace/69760c4aa1b2c3d4 of step 3": "http://localhost:#/trace/# of step #",
		"stream#1 on stream 2":                                    "stream## on stream #",
		"add 12 feed mean":                                        "add # feed mean",
		"-----  ────":                                             "- -",
	} {
		if got := masked(in); got != want {
			t.Errorf("%q is masked as %q, want %q", in, got, want)
		}
	}
}

func TestMissingLinesAreFound(t *testing.T) {
	for _, c := range []struct {
		want, got []string
		bad       int
	}{
		{[]string{"a 1", "b 2"}, []string{"b 7", "a 8", ""}, 0},
		{[]string{"a 1"}, []string{"a 1", "b"}, 1},
		{[]string{"a 1", gap}, []string{"x", "a 1", "b"}, 0},
		{[]string{"a 1", "  …"}, []string{"b"}, 1},
		{[]string{"a", "a"}, []string{"a"}, 1},
		{nil, []string{"error: 1"}, 1},
	} {
		if bad := missing(c.want, c.got); len(bad) != c.bad {
			t.Errorf("%q against %q: %q", c.want, c.got, bad)
		}
	}
}

func TestRenewedOutputKeepsGaps(t *testing.T) {
	got := []string{"head 5", "x", "row a 9", "row b 8", "tail"}
	for _, c := range [][2][]string{
		{{"old"}, got},
		{{"head 1", gap}, {"head 5", gap}},
		{{gap, "row a 1", "row b 2", gap}, {gap, "row a 9", "row b 8", gap}},
		{{"head 2", gap, "row b 2"}, {"head 5", gap, "row b 8"}},
	} {
		if r := renewed(c[0], got); !slices.Equal(r, c[1]) {
			t.Errorf("%q becomes %q, want %q", c[0], r, c[1])
		}
	}
}

func TestCommandsOfConsoleBlocks(t *testing.T) {
	page := "# x\n```console\n$ a \\\n  b\none\n\n$ c\n```\n```console not-run\n$ d\n```\n```sh\ne\n```\n"
	all, err := commands(strings.Split(page, "\n"), run, true)
	if err != nil || len(all) != 2 || all[0].text != "a \\\n  b" || !slices.Equal(all[0].want, []string{"one", ""}) || all[1].text != "c" || len(all[1].want) != 0 {
		t.Errorf("%v %+v", err, all)
	}
	for _, bad := range []string{"```\nx\n```", "```console\nx\n```"} {
		if _, err := commands(strings.Split(bad, "\n"), run, true); err == nil {
			t.Errorf("%q has no error", bad)
		}
	}
}
