package record_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/session"
)

// into records a command into a file, which may exist.
func into(t *testing.T, output string, o record.Options, command ...string) *record.Result {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	o.Model, o.Output, o.Command, o.Sim, o.Limits.Block = acl.Model, output, command, true, true
	res, err := record.Run(context.Background(), &o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// callsIn returns how many calls a trace has.
func callsIn(t *testing.T, path string) uint64 {
	t.Helper()
	counts, err := open(t, path).Counts()
	if err != nil {
		t.Fatal(err)
	}
	return counts.Calls
}

// names lists the files in a folder.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

func threadsProgram(t *testing.T) string {
	return testenv.CompileC(t, "threads", []string{source("threads.c")})
}

// After a supervisor had restarted a crashed program, the restart's trace replaced the crash's. Now the newest trace has the name,
// older ones have numbers, and Options.Keep limits them.
func TestRestartKeepsOlderTraces(t *testing.T) {
	program := threadsProgram(t)
	for _, o := range []record.Options{{Keep: 2}, {Keep: 2, Ring: &record.Ring{}}} {
		dir := t.TempDir()
		output := filepath.Join(dir, "run.aclt")
		for n := 10; n < 14; n++ {
			res := into(t, output, o, program, "1", fmt.Sprint(n))
			var want []string
			if n > 10 {
				want = []string{filepath.Join(dir, fmt.Sprintf("run.%d.aclt", n-10))}
			}
			if !slices.Equal(res.File.Moved, want) || res.Incomplete != nil || res.File.Missing != "" {
				t.Errorf("recording %d: %+v", n, res)
			}
		}
		if got, want := names(t, dir), []string{"run.2.aclt", "run.3.aclt", "run.aclt"}; !slices.Equal(got, want) {
			t.Fatalf("files %v, want %v", got, want)
		}
		for name, n := range map[string]uint64{"run.2.aclt": 11, "run.3.aclt": 12, "run.aclt": 13} {
			if got := callsIn(t, filepath.Join(dir, name)); got != n+2 {
				t.Errorf("%s has %d calls, want %d", name, got, n+2)
			}
		}
	}
}

// A restart without a call replaced the crash's trace by an empty one. Now it replaces nothing, and leaves nothing.
func TestRecordingWithoutCallReplacesNothing(t *testing.T) {
	program := threadsProgram(t)
	for _, o := range []record.Options{{}, {Ring: &record.Ring{}}, {BlobFile: "payloads"}} {
		dir := t.TempDir()
		output := filepath.Join(dir, "run.aclt")
		if o.BlobFile != "" {
			o.BlobFile = filepath.Join(dir, o.BlobFile)
		}
		into(t, output, o, program, "1", "10")
		before, files := must(os.ReadFile(output))(t), names(t, dir)
		res := into(t, output, o, "/bin/sh", "-c", "exit 3")
		if !res.File.OlderKept || res.ExitCode != 3 || res.File.Missing != "" || len(res.File.Moved) != 0 || res.File.Bytes != 0 {
			t.Errorf("%+v", res)
		}
		if after := must(os.ReadFile(output))(t); string(after) != string(before) || !slices.Equal(names(t, dir), files) {
			t.Errorf("files %v, want %v with the same content", names(t, dir), files)
		}
	}
}

// Overwrite replaces a trace. A recording that chose another name for its payloads made older traces unreadable.
func TestOverwriteKeepsOlderPayloads(t *testing.T) {
	program := threadsProgram(t)
	dir := t.TempDir()
	output, blobs := filepath.Join(dir, "run.aclt"), filepath.Join(dir, "payloads")
	into(t, output, record.Options{BlobFile: blobs}, program, "1", "10")
	into(t, output, record.Options{BlobFile: blobs, Overwrite: true}, program, "1", "11")
	if got := names(t, dir); !slices.Equal(got, []string{"payloads", "run.aclt"}) || callsIn(t, output) != 13 {
		t.Errorf("files %v, %d calls", got, callsIn(t, output))
	}
	res := into(t, output, record.Options{BlobFile: blobs}, program, "1", "12")
	if filepath.Base(res.File.BlobFile) != "payloads-2" {
		t.Errorf("%+v", res)
	}
	for _, path := range append(res.File.Moved, output) {
		if b := open(t, path).BlobFile(); b == nil || b.Err != nil {
			t.Errorf("the payloads of %s: %+v", path, b)
		}
	}
	// A trace is removed with its payloads.
	into(t, output, record.Options{BlobFile: blobs, Keep: 1}, program, "1", "13")
	if got := names(t, dir); !slices.Equal(got, []string{"payloads-2", "payloads-3", "run.2.aclt", "run.aclt"}) {
		t.Errorf("files %v", got)
	}
}

// Two recorders with one name would write one file. The second is refused, even while the first has no call yet and an older trace
// still has the name.
func TestOutputOfAnotherRecorder(t *testing.T) {
	program := threadsProgram(t)
	dir := t.TempDir()
	output := filepath.Join(dir, "run.aclt")
	into(t, output, record.Options{}, program, "1", "10")
	begun, ahead := filepath.Join(dir, "begun"), filepath.Join(dir, "go")
	if err := syscall.Mkfifo(ahead, 0o600); err != nil {
		t.Skip(err)
	}
	done := make(chan *record.Result)
	go func() {
		done <- into(t, output, record.Options{}, "/bin/sh", "-c", fmt.Sprintf("touch %s; read x <%s; %s 1 11; touch %[1]s.2; read x <%[2]s", begun, ahead, program))
	}()
	for i, calls := range []uint64{12, 13} { // the older trace, then the one in progress
		state := begun
		if i > 0 {
			state += ".2"
		}
		testenv.Wait(t, "the program", func() bool {
			_, err := os.Stat(state)
			return err == nil && (i == 0 || slices.Contains(names(t, dir), "run.1.aclt")) && callsIn(t, output) == calls
		})
		o := record.Options{Model: acl.Model, Output: output, Sim: true, Command: []string{program, "1", "12"}}
		if _, err := record.Run(context.Background(), &o); !errors.Is(err, record.ErrStart) || !errors.Is(err, atomicfile.ErrTaken) {
			t.Errorf("%v", err)
		}
		if err := os.WriteFile(ahead, []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if res := <-done; len(res.File.Moved) != 1 || res.Calls != 13 {
		t.Errorf("%+v", res)
	}
}

// A trace with %p in its name replaced a file that has the recorder's PID in its name.
func TestOutputWithProcess(t *testing.T) {
	program := threadsProgram(t)
	dir := t.TempDir()
	other := filepath.Join(dir, fmt.Sprintf("run.%d.aclt", os.Getpid()))
	if err := os.WriteFile(other, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []record.Options{{}, {Ring: &record.Ring{}}} {
		res := into(t, filepath.Join(dir, "run.%p.aclt"), o, program, "1", "10")
		if res.Output == other || res.Incomplete != nil || len(res.File.Moved) != 0 || callsIn(t, res.Output) != 12 {
			t.Errorf("%+v", res)
		}
	}
	if b := must(os.ReadFile(other))(t); string(b) != "another" || len(names(t, dir)) != 3 {
		t.Errorf("%q, files %v", b, names(t, dir))
	}
}

// The trace's folder was removed during the recording, which then reported calls in a file that did not exist.
func TestRemovedFolder(t *testing.T) {
	program := threadsProgram(t)
	for _, c := range []struct {
		o     record.Options
		older bool
	}{{}, {older: true}, {o: record.Options{Ring: &record.Ring{}}}} {
		dir := filepath.Join(t.TempDir(), "folder")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		output := filepath.Join(dir, "run.aclt")
		if c.older {
			into(t, output, c.o, program, "1", "10")
		}
		res := into(t, output, c.o, "/bin/sh", "-c", fmt.Sprintf("%s 1 10; rm -r %s; exit 7", program, dir))
		if res.ExitCode != 7 || !strings.Contains(res.File.Missing, output+": the folder was removed") || res.File.Bytes != 0 {
			t.Errorf("%+v", res)
		}
		for _, l := range res.Left { // other tests may have left sessions too
			if session.ReadNote(l.Session).Output == output {
				os.RemoveAll(l.Session)
			}
		}
	}
	output := filepath.Join(t.TempDir(), "run.aclt")
	if res := into(t, output, record.Options{}, "/bin/sh", "-c", fmt.Sprintf("%s 1 10; rm %s", program, output)); !strings.Contains(res.File.Missing, "was removed or replaced") {
		t.Errorf("%+v", res)
	}
}

// On a disk without room for the trace's header, a recording reported "no call was seen" for a program with calls.
func TestDiskWithoutRoomForCalls(t *testing.T) {
	program := threadsProgram(t)
	dir := tmpfs(t, "330k")
	res := into(t, filepath.Join(dir, "run.aclt"), record.Options{}, program, "1", "30000")
	if res.ExitCode != 0 || res.Calls != 0 || res.File.NoRoom <= 0 || !res.File.DiskFull {
		t.Errorf("%+v", res)
	}
	res = into(t, filepath.Join(t.TempDir(), "run.aclt"), record.Options{Limits: record.Limits{MaxSize: 1024}}, program, "1", "30000")
	if res.ExitCode != 0 || res.Calls != 0 || res.File.NoRoom != 1024 || res.File.DiskFull {
		t.Errorf("%+v", res)
	}
}

// On a full disk a recording reported more calls than the file has. Now both agree, and the rest is counted.
func TestCallsOnFullDisk(t *testing.T) {
	program := threadsProgram(t)
	output := filepath.Join(tmpfs(t, "700k"), "run.aclt")
	res := into(t, output, record.Options{Capture: record.Capture{Replayable: true}}, program, "2", "500000")
	if res.ExitCode != 0 || !errors.Is(res.Incomplete, syscall.ENOSPC) {
		t.Errorf("exit code %d, %v", res.ExitCode, res.Incomplete)
	}
	r := open(t, output)
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	var gaps uint64
	for _, g := range r.Gaps() {
		if g.Reason == format.WriteFailed {
			gaps += g.Calls
		}
	}
	if res.Calls != counts.Calls || res.Unwritten != gaps || gaps == 0 {
		t.Errorf("%d calls and %d unwritten, the file has %d and %d", res.Calls, res.Unwritten, counts.Calls, gaps)
	}
}

// A recorder was killed, and the next recording with the same name moved its file aside. The written calls are found in the moved
// file.
func TestSalvageOfMovedTrace(t *testing.T) {
	program := threadsProgram(t)
	acltrace := testenv.Built(t, "bin/acltrace")
	dir := t.TempDir()
	output, begun, ahead := filepath.Join(dir, "run.aclt"), filepath.Join(dir, "begun"), filepath.Join(dir, "go")
	if err := syscall.Mkfifo(ahead, 0o600); err != nil {
		t.Skip(err)
	}
	c := exec.Command(acltrace, "record", "--sim", "-q", "-o", output, "--", "/bin/sh", "-c", fmt.Sprintf("%s 1 10; touch %s; read x <%s", program, begun, ahead))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Wait(t, "what was recorded", func() bool {
		_, err := os.Stat(begun)
		r, err2 := format.Open(output, nil)
		if err2 != nil {
			return false
		}
		defer r.Close()
		counts, err3 := r.Counts()
		return err == nil && err3 == nil && counts.Calls == 12
	})
	_ = c.Process.Kill()
	_ = c.Wait()
	res := into(t, output, record.Options{}, program, "1", "20") // the program of the killed recorder goes on
	if len(res.File.Moved) != 1 {
		t.Fatalf("%+v", res)
	}
	if err := os.WriteFile(ahead, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	recovered := filepath.Join(dir, "run.recovered.aclt")
	testenv.Wait(t, "a recorder, perhaps another test's, to salvage it", func() bool {
		into(t, filepath.Join(t.TempDir(), "next.aclt"), record.Options{}, program, "1", "10")
		_, err := os.Stat(recovered)
		return err == nil
	})
	if got := callsIn(t, recovered); got != 12 {
		t.Errorf("%d calls, want 12", got)
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
