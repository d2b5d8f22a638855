package watch

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/host"
)

// If no process was created lately, only the recording's processes are looked at. One that ends or executes another program is
// still noticed.
func TestOnlyNewProcessesAreSearched(t *testing.T) {
	start := procstat.Read(os.Getpid()).Start
	w := &Watcher{root: os.Getpid(), procs: map[procKey]*watched{{os.Getpid(), start}: {}}, newest: "7", settled: true}
	if got := slices.Collect(w.candidates("7")); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("none was made: %v", got)
	}
	all := slices.Collect(w.candidates("8"))
	if !slices.Contains(all, os.Getpid()) || !slices.Contains(all, os.Getppid()) {
		t.Errorf("one was made: %v", all)
	}
	w.settled = false
	if got := slices.Collect(w.candidates("7")); len(got) < 2 {
		t.Errorf("one may have been in the making at the last look: %v", got)
	}
	w.found, w.refs, w.inside = nil, nil, map[host.FileKey][]string{}
	w.names = map[string]bool{}
	exe, _ := os.Readlink(host.ProcFile(os.Getpid(), "exe"))
	for _, p := range w.procs {
		p.exe, p.next = exe, time.Now().Add(time.Hour)
	}
	w.settled, w.newest = true, newestProcess()
	w.look(time.Now())
	if keys := slices.Collect(maps.Keys(w.procs)); !slices.Contains(keys, procKey{os.Getpid(), start}) {
		t.Errorf("after a look %v are known", keys)
	}
}

// A file that a process names was opened without a look at its type: a pipe stopped the recorder.
func TestLibraryIsRegular(t *testing.T) {
	lib := testenv.Pipe(t, t.TempDir(), acl.Model.Layers[0].Libraries[0])
	testenv.Within(t, lib, func() {
		if readReferences(lib, map[string]bool{"f": true}) != nil {
			t.Error("it is read from a pipe")
		}
	})
}
