package ranks_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// A trace that was named twice became two ranks.
func TestMergeRefusesOneRecordingTwice(t *testing.T) {
	r := testtrace.Small(t).Reader
	_, err := ranks.Merge(filepath.Join(t.TempDir(), "job.aclt"), []*format.Reader{r, r}, acl.Model, nil)
	if err == nil || !strings.Contains(err.Error(), "are one recording: name each rank's trace once") {
		t.Error(err)
	}
}
