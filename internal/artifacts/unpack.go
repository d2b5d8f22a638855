package artifacts

import (
	"archive/zip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/internal/private"
)

// unusedFor is the age at which the unpacked files of another acltrace are removed.
const unusedFor = 30 * 24 * time.Hour

// unpacked returns the folder with the embedded files, "" if there are none.
var unpacked = sync.OnceValues(func() (string, error) {
	z, err := archive()
	if z == nil || err != nil {
		return "", err
	}
	return unpack(z, caches())
})

// archive returns the embedded archive, nil if there is none. internal/cmd/embed wrote it.
func archive() (*zip.Reader, error) {
	f, err := embedded.Open(folder + "files.zip")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return zip.NewReader(f.(io.ReaderAt), st.Size())
}

// caches returns folders to unpack into, the preferred one first.
func caches() []string {
	dirs := []string{filepath.Join(os.TempDir(), fmt.Sprintf("acltrace-files-%d", os.Geteuid()))}
	if dir, err := os.UserCacheDir(); err == nil {
		dirs = append([]string{filepath.Join(dir, "acltrace", "files")}, dirs...)
	}
	return dirs
}

// unpack writes the files of an archive into the first usable cache, unless they are there, and returns their folder. It has the hash of
// the content as its name.
func unpack(z *zip.Reader, caches []string) (string, error) {
	var errs []error
	for _, cache := range caches {
		dir := filepath.Join(cache, z.Comment)
		err := os.MkdirAll(cache, 0o755)
		if err == nil {
			err = private.LastingFolder(cache)
		}
		if err == nil && check(z, dir) != nil {
			err = write(z, cache, dir)
		}
		if err == nil {
			now := time.Now()
			_ = os.Chtimes(dir, now, now) // when it was last used
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("unpack the simulators: %w; set XDG_CACHE_HOME to a folder of your own", errors.Join(errs...))
}

// write makes dir in a cache. Only one process does so at a time.
func write(z *zip.Reader, cache, dir string) error {
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if check(z, dir) == nil {
		return nil // another process was faster
	}
	prune(cache)
	part := dir + ".part"
	if err := errors.Join(os.RemoveAll(part), os.RemoveAll(dir)); err != nil {
		return err
	}
	for _, f := range z.File {
		if err := extract(f, part); err != nil {
			return err
		}
	}
	if err := check(z, part); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

func extract(f *zip.File, dir string) error {
	path := filepath.Join(dir, f.Name)
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err != nil {
		return err
	}
	if f.Mode()&fs.ModeSymlink != 0 {
		return os.Symlink(string(b), path)
	}
	return os.WriteFile(path, b, f.Mode().Perm())
}

// check returns an error unless a folder has the files of an archive, and code can be loaded from there.
func check(z *zip.Reader, dir string) error {
	for _, f := range z.File {
		path := filepath.Join(dir, f.Name)
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		var b []byte
		if f.Mode()&fs.ModeSymlink == 0 {
			b, err = os.ReadFile(path)
		} else if to, e := os.Readlink(path); true {
			b, err = []byte(to), e
		}
		switch {
		case err != nil:
			return err
		case st.Mode().Type() != f.Mode().Type(), uint64(len(b)) != f.UncompressedSize64, crc32.ChecksumIEEE(b) != f.CRC32:
			return fmt.Errorf("%s is damaged", path)
		}
	}
	if len(z.File) == 0 {
		return nil
	}
	return private.Mappable(filepath.Join(dir, z.File[0].Name))
}

// prune removes folders that no acltrace has used for long.
func prune(cache string) {
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		if st, err := e.Info(); err == nil && e.IsDir() && time.Since(st.ModTime()) > unusedFor {
			os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
}
