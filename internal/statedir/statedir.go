// Package statedir locates the folder in which acltrace keeps what it knows of this user's programs on this machine from one run to the next.
package statedir

import (
	"fmt"
	"os"
	"path/filepath"
)

// shared is where the folder of a user without a home is.
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
