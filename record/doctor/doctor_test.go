package doctor

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

// A file that a process names was opened without a look at its type: a pipe stopped the recorder.
func TestLibraryIsRegular(t *testing.T) {
	lib := testenv.Pipe(t, t.TempDir(), acl.Model.Layers[0].Libraries[0])
	testenv.Within(t, lib, func() {
		if _, err := library(acl.Model, lib, nil); err == nil {
			t.Error("it is read from a pipe")
		}
	})
}
