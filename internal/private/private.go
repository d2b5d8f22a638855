// Package private checks whether other users may change a file or a folder, and makes temporary folders that no other user can
// replace.
//
// Commands and the packages artifacts, replay, sandbox, uprobe, kernellib and atomicfile call it before they write private data, run
// code or load a library. It changes no permissions.
package private

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/internal/statedir"
)

// Links returns an error if a path leads through a symbolic link of another user: in a shared folder, such as /tmp, it may lead into
// any folder of this user. Parts of the path that do not exist are no links.
func Links(path string) error {
	rest, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, links := "/", 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		if err := ownedBy(next, info); err != nil {
			return fmt.Errorf("%w and is a link: name another place", err)
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > 40 { // the limit of Linux
			return err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = to + "/" + rest
	}
	return nil
}

// MakeFolder makes an output folder and those above it that do not exist. It makes none through a link of another user.
func MakeFolder(dir string) error {
	if err := Links(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}

// Folder returns an error if another user may write to an output folder, or has put a link in its path.
func Folder(dir string) error {
	if err := Links(dir); err != nil {
		return fmt.Errorf("write into folder %s: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = Check(real)
	}
	if err != nil {
		return fmt.Errorf("write into folder %s: %w: name a new folder, or run chmod go-w %s as its owner", dir, err, dir)
	}
	return nil
}

// CodeFolder returns an error if another user may write to a folder from which code is run, or may put another one in its place.
func CodeFolder(dir string) error {
	if err := Folder(dir); err != nil {
		return err
	}
	if err := fixed(dir); err != nil {
		return fmt.Errorf("run code from folder %s: %w: name a folder below your home folder", dir, err)
	}
	return nil
}

// LastingFolder returns an error if another user may write to a folder that keeps code between runs, or may replace it. The user may be
// another one than the owner of the folders above, as with sudo.
func LastingFolder(dir string) error {
	if err := CodeFolder(dir); err != nil {
		return err
	}
	up, err := filepath.EvalSymlinks(dir)
	for err == nil && up != filepath.Dir(up) {
		up = filepath.Dir(up)
		err = checkOwner(up)
	}
	if err != nil {
		return fmt.Errorf("keep code in folder %s: %w", dir, err)
	}
	return nil
}

// fixed returns an error if any user may rename a folder or one above it. In a folder with the sticky bit, as /tmp, only owners may.
func fixed(dir string) error {
	at, err := filepath.Abs(dir)
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	if err != nil {
		return err
	}
	for up := filepath.Dir(at); up != at; at, up = up, filepath.Dir(up) {
		st, err := os.Stat(up)
		if err != nil {
			return err
		}
		if st.Mode().Perm()&0o002 != 0 && st.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("all users may rename %s, as %s is not sticky", at, up)
		}
	}
	return nil
}

// MkdirTemp makes a temporary folder from which code can be run: in the usual place, or in the state folder of this user if other users
// may rename folders there.
func MkdirTemp(pattern string) (string, error) {
	var errs []error
	for _, parent := range []string{os.TempDir(), statedir.Path()} {
		var err error
		if len(errs) > 0 {
			err = os.MkdirAll(parent, 0o700)
		}
		dir := ""
		if err == nil {
			dir, err = os.MkdirTemp(parent, pattern)
		}
		if err == nil {
			if err = CodeFolder(dir); err == nil {
				return dir, nil
			}
			os.Remove(dir)
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("make a temporary folder: %w; set TMPDIR to a folder of your own", errors.Join(errs...))
}
