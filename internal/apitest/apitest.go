// Package apitest has checks that the tests of several runtimes' models share.
package apitest

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
)

// ErrorClasses checks the class of each error code of m. want has the codes' names by class. A code without a class in want
// is an error, so a new code must be classified.
func ErrorClasses(t *testing.T, m *api.Model, want map[api.ErrorClass]string) {
	class := map[string]api.ErrorClass{}
	for c, names := range want {
		for _, name := range strings.Fields(names) {
			if _, twice := class[name]; twice {
				t.Errorf("%s has two classes", name)
			}
			class[name] = c
		}
	}
	codes := map[int64]bool{0: true}
	for _, e := range m.Errors {
		if codes[e.Value] {
			continue // a further name, or success
		}
		codes[e.Value] = true
		if c, ok := class[e.Name]; !ok || m.ErrorClass(int32(e.Value)) != c || m.DeviceFault(int32(e.Value)) != (c == api.DeviceFault) {
			t.Errorf("%s (%d) has class %d, want %d (listed: %v)", e.Name, e.Value, m.ErrorClass(int32(e.Value)), c, ok)
		}
		delete(class, e.Name)
	}
	for name := range class {
		t.Errorf("%s is not in the model", name)
	}
	if m.ErrorClass(0) != api.CallRefused || m.ErrorClass(-1) != api.CallRefused {
		t.Error("success, or an unknown code outside of the device faults, is one of them")
	}
}
