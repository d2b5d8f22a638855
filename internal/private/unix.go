//go:build unix

package private

import (
	"fmt"
	"os"
	"syscall"
)

// Check returns an error if another user than this one and root owns a file or a folder, or may write to it.
func Check(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	uid := uint32(os.Geteuid())
	switch {
	case !ok:
		return fmt.Errorf("the owner of %s is not known", path)
	case sys.Uid != 0 && sys.Uid != uid:
		return fmt.Errorf("%s belongs to another user (%d)", path, sys.Uid)
	case sys.Mode&0o002 != 0, sys.Mode&0o020 != 0 && sys.Gid != 0 && sys.Gid != uid: // a group with the user's number is the user's own
		return fmt.Errorf("other users may write to %s", path)
	}
	return nil
}
