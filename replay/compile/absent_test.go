package compile

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/verify"
)

// A function that the trace counts by name leaves results unproved, for a reason of its own, unless it only describes, sets options or profiles.
func TestFunctionsByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.aclt")
	meta := format.Meta{API: acl.Model.Name}
	meta.Coverage.PassedBy = map[string]uint64{"aclopCompileAndExecute": 3, "aclprofInit": 1, "aclprofStop": 1, "aclCreateTensorDesc": 5, "aclopSetAttrBool": 2,
		"aclSetCompileopt": 1, "aclGetCompileopt": 1, "aclAppLog": 9}
	w, err := format.Create(path, &meta, schema.Of(acl.Model), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Trace(r, acl.Model, t.TempDir(), &Options{Backend: backend.New("", acl.Model)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want := []Unverified{{Reason: "aclopCompileAndExecute (3 calls): recorded by name only, without arguments", Code: verify.ByName, Results: 1}}
	if got := p.Found.Unproved(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
