package statedir

import (
	"fmt"
	"os"
	"testing"
)

// The state is in the user's folders. Without a home folder it is in shared memory, by user.
func TestStateIsInTheUsersFolders(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/x", "/home/u", "/x/acltrace"}, {"", "/home/u", "/home/u/.local/state/acltrace"}, {"relative", "/home/u", "/home/u/.local/state/acltrace"},
		{"", "", fmt.Sprintf("/dev/shm/acltrace-state-%d", os.Geteuid())},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		if got := Path(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
