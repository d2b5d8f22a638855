// Package buildid reads what tells one build of a file from another.
package buildid

import (
	"debug/elf"
	"encoding/hex"
)

// Of returns the build id of an ELF file in hexadecimal, "" where it has none.
func Of(path string) (id string) {
	defer func() { _ = recover() }() // debug/elf may panic on what is no sound file
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return In(f)
}

// In is as Of for a file that is open.
func In(f *elf.File) string {
	s := f.Section(".note.gnu.build-id")
	if s == nil {
		return ""
	}
	b, err := s.Data()
	if err != nil || len(b) < 16 {
		return ""
	}
	return hex.EncodeToString(b[16:])
}
