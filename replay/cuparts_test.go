package replay_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
)

// Results of copies in parts of a graph are compared for parts that did not run, ran once, or ran often. A part that runs
// in one case and not in the other is detected.
func TestCUDAParts(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cuparts.c")
	for _, c := range []struct {
		how        string
		results    uint64
		unverified string         // the one reason, "" for none
		other      map[string]int // differing results with another condition
	}{
		{"if", 6, "", map[string]int{"0": 4, "1": 2}},
		{"while", 2, "", map[string]int{"0": 1}},
		{"switch", 8, "", map[string]int{"0": 4, "1": 4, "2": 5}},
		{"nested", 4, "", map[string]int{"0": 2}},
		{"flight", 1, "lacks its data in this run: overwritten", nil},
		{"captured", 6, "", map[string]int{"0": 1, "1": 1}},
		{"update", 6, "", map[string]int{"0": 4, "1": 2}},
		{"large", 1, "it is unknown if its part ran: the trace lacks the memory's earlier content", nil},
	} {
		t.Run(c.how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.aclt")
			res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program, c.how}, Sim: true, Capture: record.Capture{Replayable: true}, Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10}}})
			if err != nil || res.ExitCode != 0 {
				t.Fatalf("%v, %+v", err, res)
			}
			for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
				rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
				if err != nil || rep.DifferingTotal != 0 || rep.Verified.Results != c.results || rep.Identical != (c.unverified == "") {
					t.Errorf("%s: %v, %+v", place, err, rep)
				}
				if c.unverified != "" && (len(rep.Unverified) != 1 || !strings.Contains(rep.Unverified[0].Reason, c.unverified)) {
					t.Errorf("%s: %+v", place, rep.Unverified)
				}
			}
			for value, differing := range c.other {
				rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Env: []string{"OTHER_CONDITION=" + value}})
				if err != nil || int(rep.DifferingTotal) != differing {
					t.Errorf("with another condition, %s: %v, %+v", value, err, rep)
				}
			}
		})
	}
}

// A wait for an event that a graph and the program both record is for the latest record: a copy's result is read when it
// exists, and not after a wait for another record.
func TestCUDAGraphEvents(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cuevents.c", "-lpthread")
	for _, how := range []string{"first", "last", "set", "external"} {
		path := recordedCUDA(t, program, how)
		if !brought(t, path, bytes.Repeat([]byte{7}, 64)) {
			t.Errorf("%s: the copy's result is that of another moment", how)
		}
		identical(t, path, func(rep *replay.Report) bool { return rep.Verified.Results == 1 && len(rep.Unverified) == 0 })
	}
}

// A copy from memory that is not pinned takes the data at the call, so a host function before it can't change the data.
func TestCUDAStagedCopy(t *testing.T) {
	path := recordedCUDA(t, testenv.CUDA(t, "testdata/custaged.c", "-lpthread"))
	identical(t, path, func(rep *replay.Report) bool {
		return rep.Verified.Results == 1 && len(rep.Stubs) == 2 && len(rep.Unverified) == 1 && rep.Unverified[0].Code == verify.HostFunction
	})
}
