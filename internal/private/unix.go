//go:build unix

package private

import (
	"fmt"
	"os"
	"syscall"
)

// Mappable returns an error if a file cannot be mapped as code, for example on a file system mounted noexec.
func Mappable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return syscall.Munmap(m)
}

// checkOwner returns an error if a folder belongs to a user who is neither this one nor root.
func checkOwner(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return ownedBy(dir, st)
}

// ownedBy returns an error if a file belongs to a user who is neither this one nor root. In a container root is the owner of /.
func ownedBy(path string, st os.FileInfo) error {
	root, err := os.Stat("/")
	if err != nil {
		return err
	}
	uid := st.Sys().(*syscall.Stat_t).Uid
	if !trusted(uid, uint32(os.Geteuid()), root.Sys().(*syscall.Stat_t).Uid) {
		return fmt.Errorf("%s belongs to another user (%d)", path, uid)
	}
	return nil
}

func trusted(owner, user, ownerOfRoot uint32) bool {
	return owner == 0 || owner == user || owner == ownerOfRoot
}

// Owns reports whether a file belongs to this user.
func Owns(info os.FileInfo) bool {
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}

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
