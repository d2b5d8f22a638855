//go:build !linux

package container

import "os"

func datasync(f *os.File) error { return f.Sync() }
