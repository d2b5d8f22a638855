package format

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/format/container"
	"github.com/acltrace/acltrace/internal/human"
)

// soak reports whether the tests may take minutes.
func soak() bool { return os.Getenv("ACLTRACE_SOAK") != "" }

// largeTrace has many chunks of all types and checkpoints on the way.
func largeTrace(t testing.TB, calls int, end bool) string {
	t.Helper()
	path := tempFile(t)
	w := create(t, path, &WriterOptions{container: &container.Options{CheckpointChunks: 64}})
	r := newRandom(9)
	for i := range calls {
		c := r.call()
		if i%900 == 0 {
			c.Data = append(c.Data, Data{Bytes: r.bytes(5000 + i%100000), Time: c.Start})
		}
		if _, err := w.Call(c); err != nil {
			t.Fatal(err)
		}
		if i%150 == 149 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var err error
	if end {
		err = w.Close()
	} else {
		err = errors.Join(w.Flush(), w.Abort())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A large file that is cut anywhere reads as exactly the whole chunks before, also if opened from a checkpoint.
func TestTruncationOfLarge(t *testing.T) {
	places := 100
	if soak() {
		places = 10_000
	}
	path := largeTrace(t, 60_000, true)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spans := layout(t, b)
	rng := rand.New(rand.NewPCG(1, 2))
	for range places {
		n := 64 + rng.Int64N(int64(len(b))-64)
		r, err := readBytes(t, path, b[:n])
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		calls := uint64(0)
		chunks := 0
		for _, s := range spans {
			if s.last > n {
				break
			}
			if s.Type != container.Index && s.Type != container.End {
				chunks++
			}
			if s.Type == container.Events {
				calls += uint64(s.Records)
			}
		}
		rec := r.Recovered()
		if rec == nil || rec.Chunks != chunks || rec.LostChunks != 0 || len(r.Damage()) != 0 {
			t.Fatalf("%d bytes: %+v, want %d chunks; damage %v", n, rec, chunks, r.Damage())
		}
		counts, err := r.Counts()
		if err != nil || counts.Calls != calls {
			t.Fatalf("%d bytes: %+v, want %d calls, %v", n, counts, calls, err)
		}
	}
}

// One flipped bit anywhere in a large file costs at most the calls of its chunk, which is named.
func TestFlippedBitOfLarge(t *testing.T) {
	places := 60
	if soak() {
		places = 3000
	}
	path := largeTrace(t, 20_000, false)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spans := layout(t, b)
	rng := rand.New(rand.NewPCG(3, 4))
	for range places {
		at := rng.IntN(len(b))
		b[at] ^= 1 << (at % 8)
		r, err := readBytes(t, path, b)
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		got, want := len(indexes(t, r)), 20_000
		for _, s := range spans {
			if s.Type == container.Events && int64(at) >= s.Offset && int64(at) < s.next && got != want {
				want -= int(s.Records)
				if d := r.Damage(); len(d) != 1 || d[0].Offset != s.Offset {
					t.Fatalf("byte %d, in the chunk at %d: damage %v", at, s.Offset, d)
				}
			}
		}
		if got != want {
			t.Fatalf("byte %d: %d calls, want %d", at, got, want)
		}
		b[at] ^= 1 << (at % 8)
	}
}

// A writer that is killed at any moment leaves all that it has flushed, and every chunk in the file is whole.
func TestKilledWriter(t *testing.T) {
	if path := os.Getenv("ACLTRACE_TEST_WRITER"); path != "" {
		killedWriter(path)
		return
	}
	kills := 12
	if soak() {
		kills = 200
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for i := range kills {
		path := filepath.Join(t.TempDir(), "run.aclt")
		cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledWriter$")
		cmd.Env = append(os.Environ(), "ACLTRACE_TEST_WRITER="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		wait := rng.IntN(40)
		flushed := uint64(0)
		for n := 0; lines.Scan(); n++ {
			if v, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
				flushed = v
			}
			if n == wait {
				time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended by itself")
		}
		r := open(t, path)
		got := indexes(t, r)
		for k, index := range got {
			if index != uint64(k) {
				t.Fatalf("kill %d: call %d at place %d", i, index, k)
			}
		}
		if uint64(len(got)) < flushed || r.Complete() {
			t.Errorf("kill %d: %d calls, %d were flushed; complete %v", i, len(got), flushed, r.Complete())
		}
		for d, err := range r.Data(nil) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Blob != 0 {
				if _, err := r.Blob(d.Blob); err != nil {
					t.Errorf("kill %d: %v", i, err)
				}
			}
		}
		if len(r.Damage()) != 0 {
			t.Errorf("kill %d: damage %v", i, r.Damage())
		}
		// The file may end with half a chunk, and nothing else.
		report, err := Check(path, nil)
		if err != nil || len(report.Problems) != 1 || report.Problems[0].Remedy != human.Plural(report.Chunks, "whole chunk")+" can be read" {
			t.Errorf("kill %d: %+v, %v", i, report, err)
		}
	}
}

// killedWriter writes for ever, and says how many calls it has flushed.
func killedWriter(path string) {
	w, err := Create(path, testMeta(), testSchema(), &WriterOptions{container: &container.Options{CheckpointChunks: 16}})
	if err != nil {
		panic(err)
	}
	_, _ = w.Process(Process{PID: 1})
	for i := range 4 {
		_, _ = w.Thread(Thread{TID: i})
	}
	r := newRandom(1)
	for i := 0; ; i++ {
		c := r.call()
		if i%50 == 0 {
			c.Data = append(c.Data, Data{Bytes: r.bytes(6000), Time: c.Start})
		}
		if _, err := w.Call(c); err != nil {
			panic(err)
		}
		if i%200 == 0 {
			if err := w.Flush(); err != nil {
				panic(err)
			}
			fmt.Println(w.Calls())
		}
	}
}

// fullDisk mounts a file system of a size.
func fullDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A disk that is full costs the calls that find no room: the file gets its end all the same, and a gap that counts them.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(fullDisk(t, 2<<20), "run.aclt")
	w := create(t, path, nil)
	r := newRandom(2)
	failed := 0
	const calls = 60_000
	for i := range calls {
		if _, err := w.Call(r.call()); err != nil {
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
				t.Fatal(err)
			}
			failed++
		}
		if i%1000 == 0 {
			_ = w.Flush() // as the recorder does
		}
	}
	if err := w.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("closing: %v", err)
	}
	rd := open(t, path)
	counts, err := rd.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if !rd.Complete() || counts.Calls+counts.GapCalls != calls || counts.Calls < 1000 || counts.GapCalls < 1000 {
		t.Fatalf("complete %v, %d calls and %d in gaps of %d", rd.Complete(), counts.Calls, counts.GapCalls, calls)
	}
	if n := len(rd.Gaps()); n != 1 || rd.Gaps()[0].Reason != WriteFailed {
		b, _ := json.Marshal(rd.Gaps())
		t.Errorf("%d gaps: %s", n, b)
	}
	if report, err := Check(path, nil); err != nil || len(report.Problems) != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
