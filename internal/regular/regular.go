// Package regular reads files that another user may have put in place of the expected ones: a pipe that nobody writes, a device whose
// opening has effects, a file without an end.
package regular

import (
	"fmt"
	"io"
	"os"
)

// Open opens a regular file for reading. It neither opens devices nor waits for the writer of a pipe.
func Open(path string) (*os.File, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := Check(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Check returns an error if an open file is not a regular one.
func Check(f *os.File) error {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = notRegular(f.Name())
	}
	return err
}

func notRegular(path string) error { return fmt.Errorf("%s is not a regular file: name one", path) }

// maxNames is how many names of a folder are read.
const maxNames = 1 << 16

// Names returns the names in a folder, at most 65,536 of them, none if it can't be read.
func Names(folder string) []string {
	f, err := openFolder(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxNames)
	return names
}

// ReadFile reads a regular file of at most limit bytes, one of /proc too.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("read %s: it has more than %d bytes", path, limit)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
