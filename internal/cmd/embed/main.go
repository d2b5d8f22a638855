// Command embed writes the archive of files that acltrace embeds: see package artifacts.
//
//	go run ./internal/cmd/embed -strip PROGRAM ARCHIVE NAME=FILE...
//
// It strips debug information from programs and libraries, and keeps symbolic links. The same files give the same archive. Its comment is the
// start of its hash.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	strip := flag.String("strip", "strip", "program that strips debug information")
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*strip, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func run(strip, archive string, files []string) error {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	hash := sha256.New()
	for _, f := range files {
		name, path, ok := strings.Cut(f, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=FILE", f)
		}
		mode, b, err := content(strip, path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s %o %d\n%s", name, mode, len(b), b)
	}
	err := z.SetComment(fmt.Sprintf("%x", hash.Sum(nil)[:8]))
	if err := errors.Join(err, z.Close()); err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

// content returns a stripped file, or the target of a link.
func content(strip, path string) (fs.FileMode, []byte, error) {
	if to, err := os.Readlink(path); err == nil {
		return fs.ModeSymlink | 0o777, []byte(to), nil
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, []byte("\x7fELF")) {
		st, err2 := os.Stat(path)
		if err := errors.Join(err, err2); err != nil {
			return 0, nil, err
		}
		return 0o644 | st.Mode().Perm()&0o111, b, nil
	}
	dir, err := os.MkdirTemp("", "acltrace-embed-")
	if err != nil {
		return 0, nil, err
	}
	defer os.RemoveAll(dir)
	stripped := filepath.Join(dir, "stripped")
	cmd := exec.Command(strip, "--strip-debug", "-o", stripped, path)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return 0, nil, fmt.Errorf("%v: %w", cmd, err)
	}
	b, err = os.ReadFile(stripped)
	return 0o755, b, err
}
