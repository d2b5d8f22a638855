package format

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/acltrace/acltrace/format/container"
	"github.com/acltrace/acltrace/internal/testenv"
)

// watched is a file whose reader reports the chunks that it reads.
type watched struct {
	*bytes.Reader
	mu     sync.Mutex
	chunks map[int64]int // by offset, how often it was read
	read   func()
}

func (w *watched) ReadAt(b []byte, at int64) (int, error) {
	w.mu.Lock()
	w.chunks[at]++
	w.mu.Unlock()
	if w.read != nil {
		w.read()
	}
	return w.Reader.ReadAt(b, at)
}

func watch(t *testing.T, path string) (*Reader, *watched) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Reader: bytes.NewReader(b), chunks: map[int64]int{}}
	f, err := container.NewFile(path, w, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := newReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// chunked writes a trace of chunks with different contents: chunk k has function 3+7*(k%3) on thread k%4, names handle k%5 where the
// function has one, and makes tasks 100*k to 100*k+9 of stream 7.
func chunked(t *testing.T, chunks int) string {
	t.Helper()
	path := tempFile(t)
	w := create(t, path, nil)
	for k := range chunks {
		for i := range 10 {
			start := int64(1000*k + 10*i)
			c := &Call{Func: uint16(3 + 7*(k%3)), Thread: uint32(k % 4), Start: start, End: start + 5}
			c.Args = make([]uint64, []int{0, 1, 3}[k%3])
			if k%3 == 1 {
				c.Args[0] = uint64(0x5000 + k%5)
			}
			c.Outs = []Out{{Param: TaskParam, Value: 7<<32 | uint64(100*k+i)}}
			if _, err := w.Call(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// An iterator with a filter reads the chunks that can match, and no others.
func TestFilterReadsMatchingChunksOnly(t *testing.T) {
	const chunks = 60
	r, w := watch(t, chunked(t, chunks))
	every := func(which func(k int) bool) []int {
		var ks []int
		for k := range chunks {
			if which(k) {
				ks = append(ks, k)
			}
		}
		return ks
	}
	for name, c := range map[string]struct {
		f    Filter
		want []int
	}{
		"function":  {Filter{Funcs: []uint16{10}}, every(func(k int) bool { return k%3 == 1 })},
		"thread":    {Filter{Threads: []uint32{2}}, every(func(k int) bool { return k%4 == 2 })},
		"handle":    {Filter{Handles: []Handle{{Kind: 1, Value: 0x5003}}}, every(func(k int) bool { return k%3 == 1 && k%5 == 3 })},
		"task":      {Filter{Task: &TaskID{Stream: 7, Task: 1205}}, []int{12}},
		"no task":   {Filter{Task: &TaskID{Stream: 8, Task: 1205}}, nil},
		"time":      {Filter{From: 5050, To: 8001}, []int{5, 6, 7, 8}},
		"all three": {Filter{Funcs: []uint16{3, 17}, Threads: []uint32{0}, From: 20000}, every(func(k int) bool { return k >= 20 && k%3 != 1 && k%4 == 0 })},
	} {
		for how, calls := range map[string]func(*Filter) int{
			"in the file's order": func(f *Filter) int { return len(collect(t, r, f)) },
			"by start": func(f *Filter) int {
				n := 0
				for _, err := range r.CallsByStart(f) {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				return n
			},
			"in batches": func(f *Filter) int {
				n := 0
				for b, err := range r.Batches(f, FuncColumn) {
					if err != nil {
						t.Fatal(err)
					}
					n += b.N
				}
				return n
			},
		} {
			clear(w.chunks)
			if n := calls(&c.f); n == 0 && c.want != nil {
				t.Errorf("%s, %s: no calls", name, how)
			}
			var got []int
			for k := range r.events {
				if w.chunks[r.events[k].entry.Offset] > 0 {
					got = append(got, k)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: chunks %v are read, want %v", name, how, got, c.want)
			}
		}
	}
}

// With spare processors a few chunks are decoded at the same time, and returned in order.
func TestChunksAreDecodedInParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const chunks = 60
	r, w := watch(t, chunked(t, chunks))
	clear(w.chunks)
	// Each read waits until another one is under way.
	var mu sync.Mutex
	reading, together := 0, make(chan struct{})
	w.read = func() {
		mu.Lock()
		if reading++; reading == 2 {
			close(together)
		}
		mu.Unlock()
		select {
		case <-together:
		case <-time.After(testenv.Patience):
			t.Error("one chunk is read at a time")
		}
	}
	next := uint64(0)
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Index != next {
			t.Fatalf("call %d comes behind call %d", c.Index, next-1)
		}
		next++
		w.mu.Lock()
		read := len(w.chunks)
		w.mu.Unlock()
		if at := int(c.Index / 10); read > at+1+maxAhead {
			t.Fatalf("%d chunks are read when the calls of chunk %d are given out", read, at)
		}
	}
	if next != 10*chunks {
		t.Fatalf("%d calls", next)
	}
}

// Requested columns are unpacked, and others are not.
func TestUnpacksLittle(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, &WriterOptions{Compression: Zstd})
	rnd := newRandom(3)
	for i := range 5000 {
		start := int64(100*i + rnd.IntN(40))
		c := &Call{Func: []uint16{3, 10}[rnd.IntN(2)], Start: start, End: start + 7 + int64(rnd.IntN(50)), Ret: uint64(rnd.IntN(9))}
		if c.Func == 10 {
			c.Args = []uint64{uint64(rnd.IntN(3))}
		}
		if _, err := w.Call(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	unpacked := func(w want) int {
		b := block{unknown: r.skip}
		if ok, err := r.load(&b, &r.events[0], w); !ok || err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range b.content.Bytes() {
			if x != 0 {
				n++
			}
		}
		return n
	}
	all := unpacked(want{columns: AllColumns, whole: true})
	for name, c := range map[string]struct {
		w    want
		most int
	}{
		"function": {want{columns: FuncColumn, noArgs: true, noData: true, batches: true}, 3000}, // zeros for one of the two functions
		"result":   {want{columns: RetColumn, noArgs: true, noData: true, batches: true}, 5100},
		"nothing":  {want{noArgs: true, noData: true, batches: true}, 100},
		"calls":    {want{columns: AllColumns, noArgs: true, noData: true}, all - 1000},
	} {
		if n := unpacked(c.w); n > c.most {
			t.Errorf("%s: %d bytes of %d are unpacked, want at most %d", name, n, all, c.most)
		}
	}
}
