package acl

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/acltrace/acltrace/sim/device"
)

// beside returns the kernels of the library that is stored beside a binary; nil for none. path is "" for a binary that was loaded from
// memory.
func (s *Sim) beside(path string, data []byte) device.Kernels {
	if s.opts.Beside == nil {
		return nil
	}
	if path == "" {
		path = objectOf(data)
	}
	if path == "" {
		return nil
	}
	return s.opts.Beside(path)
}

// objectOf returns the object file with this content, "" for none. It looks in the folder of the program and in the current one.
func objectOf(data []byte) string {
	program, _ := os.Executable()
	for _, dir := range []string{filepath.Dir(program), "."} {
		files, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range files {
			if filepath.Ext(f.Name()) != ".o" {
				continue
			}
			path := filepath.Join(dir, f.Name())
			if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Size() != int64(len(data)) {
				continue
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Equal(b, data) {
				return path
			}
		}
	}
	return ""
}
