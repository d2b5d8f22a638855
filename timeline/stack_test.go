package timeline

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A reader of stacks hung if the trace named a pipe as the file of the program.
func TestSymbolsOfRegularFilesAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", "/dev/tty", t.TempDir(), "none"} {
		if s := readSymbols(fileKey{path: path}); len(s.funcs)+len(s.loads) > 0 || s.rebuilt {
			t.Errorf("%s: %+v", path, s)
		}
	}
}
