package container_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format/container"
)

// A recording emptied the file that a symbolic link with its name led to.
func TestRecordingFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "run.aclt")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		w, err := container.Create(link, &container.FileHeader{}, &container.Options{Whole: whole})
		if err == nil {
			w.Abort()
		}
		if err == nil || !strings.Contains(err.Error(), link+": it is a symbolic link to "+victim) {
			t.Errorf("whole %v: %v", whole, err)
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("%q, %v", b, err)
	}
}
