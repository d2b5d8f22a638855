package replay

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/regular"
	"github.com/acltrace/acltrace/replay/compile"
)

// Finding is an error in the trace's calls that the simulator's strict mode found, such as two streams that use the same memory without
// an order. A device punishes it later, and not in every run. It does not change the verdict.
type Finding struct {
	Kind string `json:"kind"` // kind of the mistake, such as race
	// Calls are the involved calls, with kernel and stream. Numbers of calls are the trace's, ids of streams and threads the simulator's.
	Calls []string `json:"calls"`
	Text  string   `json:"text"` // report of the simulator, with the calls' numbers in the trace
}

// strictLog is the file for findings in a replay's folder.
func strictLog(dir string) string { return filepath.Join(compile.OwnDir(dir), "findings") }

var findingBegins = regexp.MustCompile(`^==\d+== \w+: ([a-z][a-z-]*): `)

var uncheckedBegins = regexp.MustCompile(`^==\d+== \w+: not checked: `)

// parseFindings reads strict mode's output: findings, and kinds of accesses that were not checked.
func parseFindings(text string) (fs []Finding, unchecked []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if at := uncheckedBegins.FindStringIndex(line); at != nil {
			if what := line[at[1]:]; !slices.Contains(unchecked, what) {
				unchecked = append(unchecked, what)
			}
			continue
		}
		g := findingBegins.FindStringSubmatch(line)
		switch {
		case g != nil && g[1] == "findings":
			continue // the total
		case g != nil:
			fs = append(fs, Finding{Kind: g[1], Calls: []string{}})
		case len(fs) == 0:
			continue
		}
		f := &fs[len(fs)-1]
		_, line, _ = strings.Cut(line[min(len(line), 2):], "== ")
		if call, _, ok := strings.Cut(line, " (call "); ok && strings.HasPrefix(call, "  ") && !strings.HasPrefix(call, "   ") && !strings.Contains(call, " by ") {
			f.Calls = append(f.Calls, strings.TrimSpace(call))
		}
		f.Text += line + "\n"
	}
	return fs, unchecked
}

// maxFindings limits the size of the file for findings in bytes. Kernels can write into it.
const maxFindings = 16 << 20

// findings returns all runs' findings so far, and the accesses that were not checked.
func (s *session) findings() (found []Finding, unchecked []string, err error) {
	if !s.o.Strict {
		return nil, nil, nil
	}
	b, err := regular.ReadFile(strictLog(s.dir), maxFindings)
	if errors.Is(err, fs.ErrNotExist) {
		return []Finding{}, nil, nil
	}
	found, unchecked = parseFindings(string(b))
	return append([]Finding{}, found...), unchecked, err
}
