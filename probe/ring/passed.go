package ring

import (
	"bytes"
	"os"
	"path/filepath"
)

// The layout of the file `passed`, as in probe/shim/ring.h: counters of calls, or requests by dlsym, of functions that
// the shim does not wrap.
const (
	passedNames = 1024
	passedBytes = 64 // of an entry: count (8), state (4), name
	passedNamed = 2  // state of an entry that has its name
)

func (s *Session) makePassed() error {
	f, err := s.create("passed", passedNames*passedBytes)
	if err != nil {
		return err
	}
	return f.Close()
}

// PassedBy returns how often functions were called, or asked for by dlsym, that the shim does not wrap.
func (s *Session) PassedBy() map[string]uint64 {
	b, err := os.ReadFile(filepath.Join(s.dir, "passed"))
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
