package plantedtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/testenv"
)

// A Want is what a user reads about a recorded program.
type Want struct {
	Look  []string            // commands, at most three; "next" is the one that the output before names first, TRACE and BASE are traces
	Names []string            // regular expressions that the outputs match
	Never []string            // regular expressions that no output matches
	Kinds []stats.FindingKind // findings that are true, beside those that say where time goes
}

// These findings say where time goes, and not that something is wrong.
var time = []stats.FindingKind{stats.Waits, stats.Launches, stats.OwnTime, stats.Blocked, stats.IdleDevice, stats.ShortTasks, stats.Recorder}

// A thread that only hands on launches has no time of its own.
var never = []string{`acl_thread makes no calls`, `time of thread \d+ acl_thread`, `NaN|%!|-\d+ ns`}

// Check follows the commands. base is a trace of the same program without the problem, for diff.
func (want *Want) Check(t *testing.T, trace, base string) {
	t.Helper()
	if len(want.Look) > 3 {
		t.Fatal("more than three commands")
	}
	var all, last string
	for _, c := range want.Look {
		if c == "next" {
			if c = next(last); c == "" {
				t.Errorf("no command follows\n%s", all)
				break
			}
		} else {
			c = strings.NewReplacer("TRACE", trace, "BASE", base).Replace("acltrace " + c)
		}
		last = shell(t, c)
		all += "$ " + c + "\n" + last
	}
	missing := slices.DeleteFunc(slices.Clone(want.Names), func(x string) bool { return regexp.MustCompile(`(?m)` + x).MatchString(all) })
	if len(missing) > 0 {
		t.Errorf("not named: %q\n%s", missing, all)
	}
	for _, x := range slices.Concat(never, want.Never) {
		if found := regexp.MustCompile(`(?m)^.*(` + x + `).*$`).FindString(all); found != "" {
			t.Errorf("false: %s", found)
		}
	}
	for _, f := range findings(t, trace).Findings {
		if !slices.Contains(time, f.Kind) && !slices.Contains(want.Kinds, f.Kind) {
			t.Errorf("false finding %s %+v\n%s", f.Kind, f, all)
		}
	}
}

// next returns the command that an output names: below its first finding, or in its last lines.
func next(out string) string {
	_, after, found := strings.Cut(out, "FINDINGS")
	if !found {
		_, after, _ = strings.Cut(out, "\nnext:")
	}
	return regexp.MustCompile(`acltrace [a-z]+ .*`).FindString(after)
}

func findings(t *testing.T, trace string) *stats.Stats {
	t.Helper()
	var s stats.Stats
	if out := shell(t, "acltrace stats --json "+trace); json.Unmarshal([]byte(out), &s) != nil {
		t.Fatal(out)
	}
	return &s
}

// shell runs a command, which may fail, and returns its output.
func shell(t *testing.T, line string) string {
	t.Helper()
	c := exec.Command("sh", "-c", line)
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(testenv.Built(t, "bin/acltrace"))+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	_ = c.Run()
	return out.String()
}
