package replay

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/acltrace/acltrace/replay/compile"
)

// Finding is a mistake in the calls of a trace that the simulator's strict mode has found in the replay: what a device punishes later, and
// not in every run, as two streams that use the same memory in no order. It does not count against the replay.
type Finding struct {
	Kind string `json:"kind"`
	// Calls are those involved, with kernel and stream. Text numbers them as the simulator does: among all of a process, and of a thread.
	Calls []string `json:"calls"`
	Text  string   `json:"text"`
}

// strictLog is the file in the folder of a replay that findings go to.
func strictLog(dir string) string { return filepath.Join(compile.OwnDir(dir), "findings") }

var findingBegins = regexp.MustCompile(`^==\d+== \w+: ([a-z][a-z-]*): `)

// parseFindings reads what strict mode has written.
func parseFindings(text string) (fs []Finding) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		g := findingBegins.FindStringSubmatch(line)
		switch {
		case g != nil && g[1] == "findings":
			continue // how many there were
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
	return fs
}

// findings are those of all runs so far.
func (s *session) findings() ([]Finding, error) {
	if !s.o.Strict {
		return nil, nil
	}
	b, err := os.ReadFile(strictLog(s.dir))
	if os.IsNotExist(err) {
		return []Finding{}, nil
	}
	return append([]Finding{}, parseFindings(string(b))...), err
}
