package status

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/fail"
)

// Each error of the device is one of the runtime, and an error of the runtime stays itself.
func TestDeviceErrorsBecomeRuntimeErrors(t *testing.T) {
	if f := Failed(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "stream %d", 7); Of(f) != acl.ACL_ERROR_RT_WAIT_TIMEOUT || f.Text != "stream 7" {
		t.Errorf("%v: %s", Of(f), f.Text)
	}
	if got := Of(fail.New(0, "")); got != 0 {
		t.Errorf("no error is %v", got)
	}
	n := 0
	for code := fail.OutOfMemory; code >= fail.NoStream; code-- {
		n++
		if got := Of(fail.New(code, "")); got <= 0 {
			t.Errorf("device error %d is %d", code, got)
		}
	}
	if n != len(deviceErrors) {
		t.Errorf("%d device errors, %d have an error of the runtime", n, len(deviceErrors))
	}
}
