// Package buildid reads what tells one build of a file from another.
package buildid

import (
	"debug/elf"
	"encoding/hex"
)

// In returns the build id of an ELF file in hexadecimal, "" if it has none.
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
