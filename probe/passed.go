package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layout of the file `passed`, as in probe/shim/ring.h: counters of calls, or requests by dlsym, of functions that
// the shim does not wrap.
const (
	passedNames = 1024
	passedNamed = 2 // state of an entry that has its name
)

type passed struct {
	count uint64
	state uint32
	name  [52]byte
}

var _ [64]byte = [unsafe.Sizeof(passed{})]byte{}

func makePassed(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "passed"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), 0, 0, passedNames*int64(unsafe.Sizeof(passed{})))
}

// PassedBy returns how often functions were called, or asked for by dlsym, that the shim does not wrap.
func (s *Session) PassedBy() map[string]uint64 {
	b, err := os.ReadFile(filepath.Join(s.dir, "passed"))
	if err != nil {
		return nil
	}
	m := map[string]uint64{}
	for n := int(unsafe.Sizeof(passed{})); len(b) >= n; b = b[n:] {
		count, state := le.Uint64(b), le.Uint32(b[8:])
		if name, _, _ := bytes.Cut(b[12:n], []byte{0}); state == passedNamed && count > 0 {
			m[string(name)] += count
		}
	}
	return m
}
