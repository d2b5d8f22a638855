// Package statedir locates the folder for data that acltrace keeps between runs about this user's programs on this machine.
//
// Packages record, replay and private call it. It never creates the folder and never checks its owner; package private does.
package statedir

import (
	"fmt"
	"os"
	"path/filepath"
)

// shared is the parent of the folder for users without a home.
const shared = "/dev/shm"

// Path returns the folder. It may not exist.
func Path() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "acltrace")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local/state/acltrace")
	}
	return filepath.Join(shared, fmt.Sprintf("acltrace-state-%d", os.Geteuid()))
}
