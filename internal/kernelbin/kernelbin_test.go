package kernelbin_test

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/internal/testenv"
)

// A binary declares operators' argument blocks by a section with the version of this acltrace.
func TestOperatorSectionHasThisVersion(t *testing.T) {
	for want, section := range map[string][]byte{
		"": {1, 0, 0, 0}, "version 2: want 1": {2, 0, 0, 0}, "has 3 bytes: want a version of 4": {1, 0, 0}, "has 8 bytes": {1, 0, 0, 0, 1, 0, 0, 0}, "has 0 bytes": {},
	} {
		f, err := kernelbin.Parse(testenv.KernelBinary(1, section, "a", "b"))
		if want == "" {
			if err != nil || !f.Operators || !f.Has("a") {
				t.Errorf("%v: %+v, %v", section, f, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", section, err, want)
		}
	}
	if f, err := kernelbin.Parse(testenv.KernelBinary(1, nil, "a")); err != nil || f.Operators {
		t.Errorf("without a section: %+v, %v", f, err)
	}
}
