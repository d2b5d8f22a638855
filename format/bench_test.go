package format

import (
	"encoding/binary"
	"os"
	"syscall"
	"testing"
	"time"
)

// launches is a stream as an LLM's decoding makes it: an iteration of about 400 launches of 40 kernels, with copies and synchronisations between,
// repeated with jitter in time. Argument blocks are 64 bytes, in which pointers differ by layer and most else repeats per kernel.
type launches struct {
	template []Call
	rng      *random
	now      int64
	at       int
	step     uint64
}

const (
	launchFunc = 1
	copyFunc   = 2
	syncFunc   = 3
	eventFunc  = 4
)

func launchSchema() *Schema {
	return &Schema{API: "acl", Functions: []Function{
		{ID: launchFunc, Name: "aclrtLaunchKernelWithConfig", Ret: "aclError", Words: 7},
		{ID: copyFunc, Name: "aclrtMemcpyAsync", Ret: "aclError", Words: 6},
		{ID: syncFunc, Name: "aclrtSynchronizeStream", Ret: "aclError", Words: 1},
		{ID: eventFunc, Name: "aclrtRecordEvent", Ret: "aclError", Words: 2},
	}}
}

func newLaunches() *launches {
	l := &launches{rng: newRandom(7)}
	r := l.rng
	const heap = 0x124000000000
	for i := range 400 {
		kernel := uint64(i % 10)
		if i%40 >= 30 {
			kernel = uint64(10 + i%30)
		}
		c := Call{Func: launchFunc, Args: []uint64{
			0x55550000 + kernel*192, 1 + kernel*3%32, 0xaaaa1000, 0x7ffc1000, 0x55560000 + kernel*64, 0, 0,
		}}
		block := make([]byte, 64)
		layer := uint64(i / 10)
		for k, v := range []uint64{
			heap + layer<<24, heap + 1<<32 + layer<<21, heap + 1<<36 + uint64(i%4)<<20, heap + 1<<37, 4096, 128<<32 | 64, kernel, 0x3f800000,
		} {
			binary.LittleEndian.PutUint64(block[k*8:], v)
		}
		c.Data = []Data{{Param: 4, Addr: 0x7ffc2000, Group: kernel, Len: 64, Bytes: block}}
		l.template = append(l.template, c)
		if i%25 == 24 {
			l.template = append(l.template, Call{Func: eventFunc, Args: []uint64{0xbbbb0000 + uint64(i%7)*64, 0xaaaa1000}})
		}
		if i%100 == 99 {
			l.template = append(l.template, Call{Func: copyFunc, Args: []uint64{
				0x7f1200000000 + uint64(i)*4096, 8192, heap + 1<<37, 8192, 2, 0xaaaa1000,
			}})
		}
	}
	l.template = append(l.template, Call{Func: syncFunc, Args: []uint64{0xaaaa1000}})
	for i := range l.template {
		l.template[i].End = 900 + int64(r.IntN(300)) // duration
		l.template[i].Start = 300 + int64(r.IntN(2000))
	}
	return l
}

// next gives the next call; it is valid until the one after.
func (l *launches) next(c *Call) {
	t := &l.template[l.at]
	noise := l.rng.Uint64()
	*c = *t
	l.now += t.Start + int64(noise&255)
	c.Start = l.now
	l.now += t.End + int64(noise>>8&127)
	c.End = l.now
	if len(t.Data) > 0 {
		t.Data[0].Time = 0
		// One word counts the steps, as a position in the sequence does.
		binary.LittleEndian.PutUint64(t.Data[0].Bytes[32:], 4096+l.step)
	}
	if l.at++; l.at == len(l.template) {
		l.at = 0
		l.step++
	}
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchWriter(b *testing.B, path string, opts *WriterOptions) *Writer {
	w, err := Create(path, testMeta(), launchSchema(), opts)
	if err != nil {
		b.Fatal(err)
	}
	addThreads(b, w)
	return w
}

// A meter measures rounds of a benchmark by the time for which the process had a processor. The best round is what the code can do on a machine
// that others use too.
type meter struct {
	last, best time.Duration
}

func newMeter() *meter { return &meter{last: used(), best: 1 << 62} }

func (m *meter) round() {
	now := used()
	m.best = min(m.best, now-m.last)
	m.last = now
}

// perEvent reports events by the wall clock on average, and by the processor's time in the best round.
func perEvent(b *testing.B, m *meter, rounds, events int) {
	b.ReportMetric(float64(rounds)*float64(events)/1e6/b.Elapsed().Seconds(), "Mevents/s")
	b.ReportMetric(float64(events)/1e6/m.best.Seconds(), "best-Mevents/s")
}

func BenchmarkWrite(b *testing.B) {
	for name, opts := range compressions {
		b.Run(name, func(b *testing.B) {
			path := tempFile(b)
			w := benchWriter(b, path, opts)
			// The stream is made beforehand: what it costs is not the writer's.
			const ahead = 1 << 16
			l := newLaunches()
			calls := make([]Call, ahead)
			for i := range calls {
				l.next(&calls[i])
			}
			span := l.now
			var c Call
			b.ReportAllocs()
			m := newMeter()
			rounds := 0
			for b.Loop() {
				for i := range calls {
					c = calls[i]
					shift := int64(rounds) * span
					c.Start += shift
					c.End += shift
					for k := range c.Data {
						c.Data[k].Time = 0
					}
					if _, err := w.Call(&c); err != nil {
						b.Fatal(err)
					}
				}
				m.round()
				rounds++
			}
			perEvent(b, m, rounds, ahead)
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(info.Size())/float64(rounds*ahead), "B/event")
		})
	}
}

var compressions = map[string]*WriterOptions{"lz4": nil, "zstd": {Compression: Zstd}}

func benchFile(b *testing.B, opts *WriterOptions, n int) string {
	path := tempFile(b)
	w := benchWriter(b, path, opts)
	l := newLaunches()
	var c Call
	for range n {
		l.next(&c)
		if _, err := w.Call(&c); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

func BenchmarkRead(b *testing.B) {
	const events = 1 << 17
	for name, opts := range compressions {
		path := benchFile(b, opts, events)
		for what, f := range map[string]*Filter{
			"all": nil, "nodata": {NoData: true}, "times": {NoData: true, NoArgs: true}, "syncs": {Funcs: []uint16{syncFunc}},
		} {
			b.Run(name+"/"+what, func(b *testing.B) {
				r := open(b, path)
				b.ReportAllocs()
				var sum uint64
				m := newMeter()
				for b.Loop() {
					for c, err := range r.Calls(f) {
						if err != nil {
							b.Fatal(err)
						}
						sum += uint64(c.End) + uint64(len(c.Args)) + uint64(len(c.Data))
					}
					m.round()
				}
				perEvent(b, m, b.N, events)
				if sum == 0 {
					b.Fatal("nothing read")
				}
			})
		}
	}
}

// BenchmarkProjection adds up the durations of one function.
func BenchmarkProjection(b *testing.B) {
	const events = 1 << 17
	for name, opts := range compressions {
		b.Run(name, func(b *testing.B) {
			r := open(b, benchFile(b, opts, events))
			var sum uint64
			m := newMeter()
			for b.Loop() {
				for c, err := range r.Columns(nil) {
					if err != nil {
						b.Fatal(err)
					}
					fn, dur := c.Column(FuncColumn), c.Column(DurColumn)
					for i := range c.N {
						if fn.At(i) == launchFunc {
							sum += dur.At(i)
						}
					}
				}
				m.round()
			}
			perEvent(b, m, b.N, events)
			if sum == 0 {
				b.Fatal("nothing read")
			}
		})
	}
}

func BenchmarkReadByStart(b *testing.B) {
	const events = 1 << 17
	r := open(b, benchFile(b, nil, events))
	m := newMeter()
	for b.Loop() {
		for _, err := range r.CallsByStart(nil) {
			if err != nil {
				b.Fatal(err)
			}
		}
		m.round()
	}
	perEvent(b, m, b.N, events)
}
