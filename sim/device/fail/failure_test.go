package fail

import "testing"

// The device's own codes are negative, each another one: those of the layer above are not.
func TestDeviceCodesAreNegativeAndDistinct(t *testing.T) {
	seen := map[Code]bool{}
	for _, c := range []Code{OutOfMemory, NoHostMemory, BadAddress, Aborted, Ended, TooMany, PeerLost, Denied, Invalid, NoStream} {
		if c >= 0 || seen[c] {
			t.Errorf("code %d", c)
		}
		seen[c] = true
	}
	if f := New(7, "a %d", 1); f.Code != 7 || f.Text != "a 1" || f.Raised.Load() {
		t.Errorf("%+v", f)
	}
}
