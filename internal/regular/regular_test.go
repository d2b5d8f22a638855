package regular

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe without a writer stopped the reader for good, and /dev/zero filled its memory.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, "/dev/zero"} {
		if _, err := ReadFile(path, 10); err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := ReadFile(file, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ReadFile(file, 4); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file of 5 bytes within 4: %v", err)
	}
	if b, err := ReadFile("/proc/self/comm", 100); err != nil || len(b) == 0 {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ReadFile(file+".gone", 10); !os.IsNotExist(err) {
		t.Error(err)
	}
}
