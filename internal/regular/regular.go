// Package regular reads files that another user may have replaced: by a pipe without a writer, a device with side effects at
// open, or an endless file.
//
// The recorder, the importers and the packages for ELF files and kernel libraries call it. It never opens a device, waits for
// a pipe's writer or writes.
package regular

import (
	"fmt"
	"io"
	"os"
)

// Open opens a regular file for reading. It never opens a device and never waits for a pipe's writer.
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

// MaxNames limits the names read from a folder.
const MaxNames = 1 << 16

// Names returns the names in a folder, at most 65,536, or none if it can't be read.
func Names(folder string) []string {
	f, err := openFolder(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(MaxNames)
	return names
}

// ReadFile reads a regular file up to limit bytes. Files in /proc work, too.
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
