package kernellib

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/internal/regular"
)

// MaxSize limits the size of a kernel library in bytes.
const MaxSize = 1 << 30

// ownFile is the list's name in the state folder. It keeps the last maxOwn libraries.
const (
	ownFile = "libraries"
	maxOwn  = 1000
)

// Own lists the kernel libraries that this user's recordings on this machine have loaded. A replay loads a library that a
// trace names only if it is in this list.
//
// The list is a text file. A line has a library's content hash, its build id, and its path as a Go string.
type Own struct{ libs []ownLibrary }

type ownLibrary struct{ hash, buildID, path string }

func (l *ownLibrary) line() string {
	return fmt.Sprintf("%s %s %s\n", l.hash, l.buildID, strconv.Quote(l.path))
}

// ReadOwn reads the list in a state folder. A list that does not exist is empty.
func ReadOwn(dir string) (*Own, error) {
	f, err := openOwn(dir, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return &Own{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return readOwn(f)
}

// Remember adds libraries to the list in a state folder, and makes folder and list if needed. It skips unreadable libraries.
func Remember(dir string, libs []Library) error {
	var add []ownLibrary
	for _, l := range libs {
		hash, err := Hash(l.Path)
		if err != nil || l.BuildID == "" || strings.Contains(l.BuildID, " ") {
			continue
		}
		add = append(add, ownLibrary{hash, l.BuildID, filepath.Clean(l.Path)})
	}
	if len(add) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := openOwn(dir, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	own, err := readOwn(f)
	if err != nil {
		return err
	}
	add = slices.DeleteFunc(add, func(l ownLibrary) bool { return slices.Contains(own.libs, l) })
	if len(add) == 0 {
		return nil
	}
	var text strings.Builder
	all := append(own.libs, add...)
	for _, l := range all[max(0, len(all)-maxOwn):] {
		text.WriteString(l.line())
	}
	if _, err := f.WriteAt([]byte(text.String()), 0); err != nil {
		return err
	}
	return f.Truncate(int64(text.Len()))
}

// Has reports whether the list has a path or a hash.
func (o *Own) Has(path, hash string) bool {
	path = filepath.Clean(path)
	return slices.ContainsFunc(o.libs, func(l ownLibrary) bool { return l.path == path || l.hash == hash })
}

// openOwn opens the list. Only the user may be able to write to it.
func openOwn(dir string, flags int) (*os.File, error) {
	path := filepath.Join(dir, ownFile)
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err = regular.Check(f); err == nil {
		err = Private(path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readOwn(f *os.File) (*Own, error) {
	own := &Own{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		part := strings.SplitN(s.Text(), " ", 3)
		if len(part) != 3 {
			continue
		}
		if path, err := strconv.Unquote(part[2]); err == nil {
			own.libs = append(own.libs, ownLibrary{part[0], part[1], path})
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return own, nil
}

// Private returns an error if a user other than this one and root may change a file. It checks owner and permissions for the
// file, for its folder, and for the folder that a link leads to.
func Private(path string) error {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, p := range []string{file, filepath.Dir(file), filepath.Dir(path)} {
		if err := private.Check(p); err != nil {
			return err
		}
	}
	return nil
}

// Open opens a regular file up to MaxSize. It does not wait for a pipe's writer.
func Open(path string) (*os.File, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.Size() > MaxSize {
		err = fmt.Errorf("%s has %d bytes, more than a kernel library may have (%d)", path, st.Size(), MaxSize)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Hash returns "sha256:" and the hash of a file in hexadecimal.
func Hash(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, MaxSize)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
