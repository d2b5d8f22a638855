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

// diedInShim reports whether a thread that has ended was in code of the shim then: it had begun a call, but the recorder could not see the
// entry, or the function had returned, but the call was not finished, or a payload was being recorded. lost is the ring's count of lost calls.
func (r *ring) diedInShim(lost uint64) bool {
	if r.done {
		return false
	}
	return r.returned || r.head.inPayload.Load() != 0 || r.head.seq.Load() != r.seq+lost-r.lost
}

// returned reports whether the function of a record has returned. Until then the end is that of an earlier record, which is before the start.
func returned(b []byte) bool {
	return len(b) >= callHeader && b[6] == recCall && le.Uint64(b[16:]) >= le.Uint64(b[8:])
}
