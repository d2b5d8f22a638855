//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

const noFollow = 0

func foreign(fs.FileInfo) bool { return false }

// Lock does nothing: this system has no flock. Traces are written on Linux and only read elsewhere.
func Lock(*os.File) error { return nil }

// Writing reports false: no file has a lock.
func Writing(string) bool { return false }

func flush(*os.File) error { return nil }

func raise(os.Signal) { os.Exit(1) }
