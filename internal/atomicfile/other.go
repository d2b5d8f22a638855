//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

const noFollow = 0

func foreign(fs.FileInfo) bool { return false }

// Lock does nothing where there is no flock: traces are written on Linux, elsewhere they are only read.
func Lock(*os.File) error { return nil }

func flush(*os.File) error { return nil }

func raise(os.Signal) { os.Exit(1) }
