//go:build !linux

package regular

import "os"

func openFolder(path string) (*os.File, error) { return os.Open(path) }

func open(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	return os.Open(path)
}
