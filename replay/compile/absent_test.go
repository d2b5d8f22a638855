package compile

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
)

// Waits for an object from a process that is not in the trace are left out. A record is not, nor a wait for another object, nor one that failed.
func TestWaitsForAbsentPeersAreLeftOut(t *testing.T) {
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Stream(testtrace.StreamA)
	const theirs, own, event = 0x7801, 0x7802, 0x7803
	s.Then("aclrtNotifyImportByKey", testtrace.A(0x7ffe0000, 0x7ffe0100, 0), testtrace.Outs("notify", theirs), testtrace.Text("key", "theirs"))
	s.Then("aclrtCreateNotify", testtrace.A(0x7ffe0000, 0), testtrace.Outs("notify", own))
	s.Then("aclrtIpcOpenEventHandle", make([]uint64, acl.Model.Lookup("aclrtIpcOpenEventHandle").Words), testtrace.Outs("event", event))
	s.Then("aclrtRecordNotify", testtrace.A(own, testtrace.StreamA))
	s.Then("aclrtRecordNotify", testtrace.A(theirs, testtrace.StreamA))
	s.Then("aclrtWaitAndResetNotify", testtrace.A(own, testtrace.StreamA, 0))
	left := []uint64{8, 9, 11}
	s.Then("aclrtWaitAndResetNotify", testtrace.A(theirs, testtrace.StreamA, 0))
	s.Then("aclrtSynchronizeEvent", testtrace.A(event))
	s.Then("aclrtWaitAndResetNotify", testtrace.A(theirs, testtrace.StreamA, 0), testtrace.Fails(107003))
	s.Then("aclrtStreamWaitEvent", testtrace.A(testtrace.StreamA, event))
	p, err := Trace(s.Load().Reader, acl.Model, t.TempDir(), &Options{Backend: backend.New("", acl.Model), StubComm: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var made []uint64
	for i := range p.Threads {
		for _, in := range p.File.Instructions(i) {
			if in.Op == plan.OpCall {
				made = append(made, in.Call)
			}
		}
	}
	for call := range uint64(12) {
		if slices.Contains(left, call) == slices.Contains(made, call) {
			t.Errorf("call %d: made are %d, want all but %d; %v", call, made, left, p.Found)
		}
	}
}

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
