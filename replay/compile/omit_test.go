package compile

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/replay/backend"
)

// A call from a trace whose function has other argument words than the model is refused by name, with the reason.
func TestCallWithOtherWords(t *testing.T) {
	types := schema.Of(acl.Model)
	memset := acl.Model.Lookup("aclrtMemset")
	k := slices.IndexFunc(types.Functions, func(f format.Function) bool { return f.ID == uint16(memset.ID) })
	types.Functions[k].Params, types.Functions[k].Words = types.Functions[k].Params[:1], 1
	path := filepath.Join(t.TempDir(), "t.aclt")
	w, err := format.Create(path, &format.Meta{API: "acl"}, types, nil)
	if err != nil {
		t.Fatal(err)
	}
	process, _ := w.Process(format.Process{PID: 1})
	thread, _ := w.Thread(format.Thread{Process: process, TID: 1})
	if _, err := w.Call(&format.Call{Func: uint16(memset.ID), Thread: thread, Start: 1, End: 2, Args: []uint64{0x124000000000}}); err != nil {
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
	want := Unsupported{Func: "aclrtMemset", Calls: 1, Reason: "recorded with 1 argument words, the model has 4"}
	if us := p.Found.Unsupported; len(us) != 1 || us[0] != want {
		t.Errorf("unsupported %+v, want %+v", us, want)
	}
}
