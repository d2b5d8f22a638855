package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
)

// receiver NAME takes|rejects|full|fails starts an OTLP receiver over HTTP until the script ends, with its URL in
// $NAME. It accepts everything, rejects one span per request, starts with a full queue, or fails.
func receiver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: receiver NAME takes|rejects|full|fails")
	}
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := &coltracepb.ExportTraceServiceResponse{}
		switch n := requests.Add(1); {
		case args[1] == "rejects":
			answer.PartialSuccess = &coltracepb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"}
		case args[1] == "fails":
			w.WriteHeader(http.StatusBadRequest)
			return
		case args[1] == "full" && n == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		b, _ := proto.Marshal(answer)
		w.Write(b)
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

// lossy FILE writes a trace with a gap and an unfinished call, without payloads.
func lossy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: lossy FILE")
	}
	schema := &format.Schema{API: acl.Model.Name}
	for _, name := range []string{"aclrtSetDevice", "aclrtSynchronizeDevice"} {
		f := acl.Model.Lookup(name)
		schema.Functions = append(schema.Functions, format.Function{ID: uint16(f.ID), Name: f.Name, Ret: f.Return, Words: int(f.Words)})
	}
	w, err := format.Create(ts.MkAbs(args[0]), &format.Meta{UUID: "5a1e0c9d-7b34-4f6e-9d21-0123456789ab", API: acl.Model.Name, EndNS: 9_000,
		Coverage: format.Coverage{Refused: 2}}, schema, nil)
	ts.Check(err)
	p, err := w.Process(format.Process{PID: 7, Exe: "/bin/train"})
	ts.Check(err)
	_, err = w.Thread(format.Thread{Process: p, TID: 7})
	ts.Check(err)
	_, err = w.Call(&format.Call{Func: uint16(schema.Functions[0].ID), Start: 1_000, End: 2_000, Args: []uint64{0}})
	ts.Check(err)
	ts.Check(w.Gap(format.Gap{Thread: 0, From: 3_000, To: 4_000, Calls: 17, Reason: format.Dropped}))
	_, err = w.Call(&format.Call{Func: uint16(schema.Functions[1].ID), Start: 5_000, End: 5_000, Flags: format.Unfinished})
	ts.Check(err)
	ts.Check(w.Close())
}
