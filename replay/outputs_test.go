package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/artifacts"
)

// The player ran in a folder that other users can write to, and overwrote files through links there.
func TestReplayTakesNoFolderOfOthers(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	trace := tw.close()
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{open: "chmod go-w " + open, filepath.Join(open, "new"): "home folder"} {
		_, err := Run(t.Context(), trace, acl.Model, &Options{Backend: l, Keep: dir, Trust: true})
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
		if exists(filepath.Join(dir, artifacts.Player)) {
			t.Errorf("%s has the player", dir)
		}
	}
	if _, err := Bundle(trace, acl.Model, open, nil); err == nil || !strings.Contains(err.Error(), "write into folder "+open) {
		t.Errorf("bundle: %v", err)
	}

	keep, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plan", "results", artifacts.Player} {
		if err := os.Symlink(victim, filepath.Join(keep, name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second run finds files of the first
		run(t, trace, &Options{Backend: l, Keep: keep})
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("%d bytes, %v where a link led to", len(b), err)
	}
}
