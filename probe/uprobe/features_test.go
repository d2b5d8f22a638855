package uprobe

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Without the right to try a feature, the version of the kernel decides.
func TestFeatureByVersion(t *testing.T) {
	denied := func() error { return unix.EPERM }
	for _, c := range []struct {
		f    Feature
		want bool
	}{
		{Feature{Linux: "2.6"}, true},
		{Feature{Linux: "99.0"}, false},
		{Feature{Linux: "2.6", test: denied}, true},
		{Feature{Linux: "99.0", test: denied}, false},
		{Feature{Linux: "2.6", test: func() error { return unix.EINVAL }}, false},
		{Feature{Linux: "99.0", test: func() error { return nil }}, true},
	} {
		if got := c.f.Supported(); got != c.want {
			t.Errorf("Linux %s, with a test: %t: %t", c.f.Linux, c.f.test != nil, got)
		}
	}
	for _, f := range Features() {
		if f.Name == "" || f.Linux == "" {
			t.Errorf("%+v", f)
		}
	}
}
