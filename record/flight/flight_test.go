package flight

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// Threads that wait for reports by design are slow only if somebody asks for that function.
func TestSlowCalls(t *testing.T) {
	process, sync := acl.Model.Lookup("aclrtProcessReport"), acl.Model.Lookup("aclrtSynchronizeStream")
	all := &Options{Slow: time.Second}
	some := &Options{Slow: time.Second, SlowOf: map[string]time.Duration{"aclrtProcessReport": 2 * time.Second, "aclrtSynchronizeStream": 5 * time.Second}}
	for _, c := range []struct {
		ring *Options
		fn   *api.Func
		took time.Duration
		want bool
	}{
		{all, sync, 1500 * time.Millisecond, true}, {all, sync, 500 * time.Millisecond, false}, {all, process, time.Hour, false},
		{some, process, 3 * time.Second, true}, {some, process, 1500 * time.Millisecond, false}, {some, sync, 3 * time.Second, false}, {some, sync, 6 * time.Second, true},
		{&Options{}, sync, time.Hour, false},
	} {
		if got := c.ring.slow(c.fn, c.took.Nanoseconds()); got != c.want {
			t.Errorf("%s for %v with %+v: slow %v", c.fn.Name, c.took, c.ring, got)
		}
	}
}
