package record_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// collectives builds a program with collectives and its library, both for the simulator.
func collectives(t *testing.T) (program, lib string) {
	t.Helper()
	root := testenv.Root(t)
	lib = testenv.CompileC(t, "libhccl.so", []string{source("hccl.c")}, "-DLIBRARY", "-I"+filepath.Join(root, "probe/shim"), "-shared", "-fPIC", "-Wl,-soname,libhccl.so")
	return testenv.CompileC(t, "program", []string{source("hccl.c"), lib}, "-I"+filepath.Join(root, "probe/shim"), "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib)), lib
}

// named returns a trace's calls by name, in the order in which they begin. Runtime calls inside an HCCL call are in brackets after
// it.
func named(t *testing.T, r *format.Reader) []string {
	t.Helper()
	var names []string
	var until int64
	for _, c := range calls(t, r) {
		name := r.Schema().FuncName(c.Func)
		switch outer := acl.Model.Lookup(name).Composite; {
		case outer:
			until = c.End
			names = append(names, name)
		case c.End <= until:
			names[len(names)-1] += "(" + name + ")"
		}
	}
	return names
}

// A collective encloses the runtime calls that it makes. Each is recorded once, with its arguments.
func TestCollectivesEncloseRuntimeCalls(t *testing.T) {
	program, _ := collectives(t)
	r, res, _ := run(t, record.Options{}, program)
	if res.ExitCode != 0 || res.Unfinished != 0 || res.Lost != 0 {
		t.Fatalf("%+v", res)
	}
	if rep, err := format.Check(r.Path(), nil); err != nil || len(rep.Problems) > 0 {
		t.Errorf("check: %v %+v", err, rep)
	}
	want := []string{"HcclGetRootInfo", "HcclCommInitRootInfoConfig(aclrtMalloc)(aclrtGetDevice)", "HcclAllReduce(aclrtMemcpyAsync)(aclrtMemcpyAsync)",
		"HcclAlltoAllV", "HcclAllReduce", "HcclCommDestroy(aclrtFree)"}
	if got := named(t, r); !slices.Equal(got, want) {
		t.Errorf("recorded %q\nwant     %q", got, want)
	}
	late := map[uint64][]format.Data{}
	for d, err := range r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			t.Fatal(err)
		}
		k := *d
		k.Bytes = bytes.Clone(d.Bytes)
		late[d.Call] = append(late[d.Call], k)
	}
	data := func(c *format.Call, param string) (uint64, []byte) {
		for _, d := range append(slices.Clone(c.Data), late[c.Index]...) {
			if int(d.Param) != acl.Model.Lookup(r.Schema().FuncName(c.Func)).Param(param) {
				continue
			}
			b := d.Bytes
			if d.Blob != 0 {
				var err error
				if b, err = r.Blob(d.Blob); err != nil {
					t.Fatal(err)
				}
			}
			return d.Len, b
		}
		return 0, nil
	}
	words := func(v ...uint64) (b []byte) {
		for _, w := range v {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	seen := map[string]bool{}
	for _, c := range calls(t, r) {
		name := r.Schema().FuncName(c.Func)
		if seen[name] {
			continue
		}
		seen[name] = true
		switch name {
		case "HcclGetRootInfo", "HcclCommInitRootInfoConfig":
			if n, b := data(c, "rootInfo"); n != 4108 || !bytes.Equal(b, bytes.Repeat([]byte{7}, 4108)) {
				t.Errorf("%s: what the ranks find each other by: %d bytes, %.16x", name, n, b)
			}
			if n, b := data(c, "config"); name == "HcclCommInitRootInfoConfig" && (n != 160 || b[0] != 160 || b[24] != 200 || len(c.Outs) != 1) {
				t.Errorf("options: %d bytes %.32x, outs %v", n, b, c.Outs)
			}
		case "HcclAlltoAllV":
			for _, p := range []string{"sendCounts", "recvCounts"} {
				if _, b := data(c, p); !bytes.Equal(b, words(3, 5)) {
					t.Errorf("%s: %x", p, b)
				}
			}
			if _, b := data(c, "rdispls"); !bytes.Equal(b, words(0, 3)) {
				t.Errorf("rdispls: %x", b)
			}
		}
	}
	// The text form names constants.
	var text bytes.Buffer
	if err := report.Lines(&text, r, acl.Model, &report.LineOptions{Selection: timeline.Selection{Funcs: []string{"HcclAllReduce"}}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	if !strings.Contains(lines[0], "HcclAllReduce(sendBuf=device#2, recvBuf=device#3, count=64, dataType=HCCL_DATA_TYPE_FP32, op=HCCL_REDUCE_SUM, comm=communicator#4, stream=stream#1) = 0") ||
		!strings.Contains(lines[1], "= 5 HCCL_E_NOT_SUPPORT") {
		t.Errorf("shown as %q", lines)
	}
	// The tasks belong to the runtime calls.
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	if len(tl.Tasks) != 4 {
		t.Errorf("%d tasks, want those of four copies", len(tl.Tasks))
	}
	if s, err := stats.New(tl.Reader, acl.Model, nil); err != nil || !slices.ContainsFunc(s.Functions, func(f stats.Function) bool { return f.Func == "HcclAllReduce" && f.Calls == 2 && f.Failed == 1 }) ||
		!slices.ContainsFunc(s.Errors, func(e stats.Error) bool { return e.Func == "HcclAllReduce" && e.Name == "HCCL_E_NOT_SUPPORT" }) {
		t.Errorf("statistics %+v, %+v", s.Functions, s.Errors)
	}
}

// A replay makes the runtime calls inside a collective, which do all of it on the simulator, and the report says so. Results were unproved.
func TestCollectivesReplayed(t *testing.T) {
	program, _ := collectives(t)
	r, _, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, program)
	rep, err := replay.Run(t.Context(), r.Path(), acl.Model, &replay.Options{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, u := range rep.LeftOut {
		left += u.Calls
		if !strings.HasPrefix(u.Func, "Hccl") || !strings.Contains(u.Reason, "inside it are replayed") {
			t.Errorf("left out: %+v", u)
		}
	}
	if left != 6 || !rep.Identical || len(rep.Unsupported) != 0 || len(rep.Differences) != 0 || rep.Verified.Results != 1 || rep.Replayed != rep.Calls-6 || !rep.Simulated || rep.Results.Unproved != 0 {
		t.Errorf("%d left out, %+v", left, rep)
	}
}

// A collective that never returns is in the trace, with its runtime calls so far. A thread may leave one by longjmp. A collective
// with more calls inside than a ring holds is complete.
func TestCollectivesThatAreLeft(t *testing.T) {
	program, _ := collectives(t)
	r, res, _ := run(t, record.Options{}, program, "jump")
	cs := calls(t, r)
	names := named(t, r)
	if i := slices.Index(names, "HcclBarrier(aclrtGetDevice)"); res.ExitCode != 0 || res.Unfinished != 1 || i < 0 || names[len(names)-1] != "HcclCommDestroy(aclrtFree)" {
		t.Errorf("after a jump: %+v, %q", res, names)
	}
	for _, c := range cs {
		if name := r.Schema().FuncName(c.Func); (c.Flags&format.Unfinished != 0) != (name == "HcclBarrier") {
			t.Errorf("after a jump: %s has flags %d", name, c.Flags)
		}
	}
	r, res, _ = run(t, record.Options{}, program, "die")
	cs = calls(t, r)
	if n := len(cs); res.Unfinished != 1 || r.Schema().FuncName(cs[n-1].Func) != "aclrtGetDevice" || r.Schema().FuncName(cs[n-2].Func) != "HcclBarrier" || cs[n-2].Flags&format.Unfinished == 0 {
		t.Errorf("killed: %+v, the last calls %+v", res, cs[len(cs)-2:])
	}
	r, res, _ = run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, program, "many")
	n := count(calls(t, r), r)
	if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || n["aclrtGetDevice"] != 100001 || n["HcclGroupEnd"] != 1 {
		t.Errorf("many calls in one: %+v, %d and %d", res, n["aclrtGetDevice"], n["HcclGroupEnd"])
	}
}
