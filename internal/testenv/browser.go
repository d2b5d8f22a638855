package testenv

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NeedsBrowser skips the test, with the reason, unless a page can be opened in Chromium.
func NeedsBrowser(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(Root(t), "build/viewers/node_modules/playwright-core")); err != nil {
		t.Skipf("the page was NOT opened: scripts/viewers.sh fetches playwright-core from npm (%v)", err)
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Skip("the page was NOT opened: there is no Chromium")
}

// Browse runs a script of scripts/ in node, and decodes the JSON that it prints.
func Browse(t testing.TB, said any, script string, args ...string) {
	t.Helper()
	c := exec.Command("node", append([]string{filepath.Join(Root(t), "scripts", script)}, args...)...)
	c.Env = append(os.Environ(), fmt.Sprint("PATIENCE_MS=", Patience.Milliseconds()))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, said)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}
