package ring

import (
	"bytes"
	"os"
	"path/filepath"
)

// PassedBy returns the functions that the shim does not wrap, with the number of calls and requests by dlsym.
func (s *Session) PassedBy() map[string]uint64 {
	b, err := os.ReadFile(filepath.Join(s.files.dir, "passed"))
	if err != nil {
		return nil
	}
	m := map[string]uint64{}
	for ; len(b) >= passedBytes; b = b[passedBytes:] {
		count, state := le.Uint64(b), le.Uint32(b[8:])
		if name, _, _ := bytes.Cut(b[12:passedBytes], []byte{0}); state == passedNamed && count > 0 {
			m[string(name)] += s.clamp(count)
		}
	}
	return m
}
