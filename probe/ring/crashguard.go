package ring

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/probe"
)

// Exclude excludes later runs of a program from recording, for a reason, or includes them again if why is "". The program is
// an End.Program.
func (s *Session) Exclude(program uint64, why string) error {
	path := filepath.Join(s.files.dir, "guard."+strconv.FormatUint(program, 10))
	if why == "" {
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.WriteFile(path, []byte(why), s.files.mode); err != nil {
		return err
	}
	return os.Chmod(path, s.files.mode) // despite the umask
}

// Excluded returns the excluded programs and the reasons.
func (s *Session) Excluded() map[uint64]string {
	files, _ := filepath.Glob(filepath.Join(s.files.dir, "guard.*"))
	why := map[uint64]string{}
	for _, f := range files {
		n, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(f), "guard."), 10, 64)
		b, err2 := os.ReadFile(f)
		if err == nil && err2 == nil {
			why[n] = string(b)
		}
	}
	return why
}

// NewlyExcluded returns the excluded processes that have started since the last call.
func (s *Session) NewlyExcluded() []probe.End {
	s.touch(s.findProcesses)
	p := s.processes.excluded
	s.processes.excluded = nil
	return p
}
