package format_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/stream"
)

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchWriter(b *testing.B, path string, opts *format.WriterOptions) *format.Writer {
	b.Helper()
	w, err := format.Create(path, &format.Meta{API: "acl"}, stream.Schema(), opts)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := w.Process(format.Process{PID: 42}); err != nil {
		b.Fatal(err)
	}
	for tid := range 2 {
		if _, err := w.Thread(format.Thread{TID: 42 + tid}); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

func openBench(b testing.TB, path string) *format.Reader {
	b.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	return r
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
	for shape, source := range stream.Shapes {
		for name, opts := range compressions {
			b.Run(shape+"/"+name, func(b *testing.B) { benchWrite(b, source(stream.Schema()), opts) })
		}
	}
}

func benchWrite(b *testing.B, s stream.Source, opts *format.WriterOptions) {
	w := benchWriter(b, filepath.Join(b.TempDir(), "run.aclt"), opts)
	// The stream is made beforehand: what it costs is not the writer's. Its calls are few enough to stay near the processor, as those of a
	// recorder do, which come one after another in the same memory; their times are not, since noise that repeats would pack.
	const ahead, events = 1 << 9, 1 << 16
	calls := make([]format.Call, ahead)
	var starts, ends [events]int64
	for i := range events {
		var c format.Call
		s.Next(&c)
		starts[i], ends[i] = c.Start, c.End
		if i < ahead {
			calls[i] = *c.Clone()
		}
	}
	length := s.Now()
	span := int64(0)
	b.ReportAllocs()
	m := newMeter()
	for step := uint64(0); b.Loop(); step++ {
		for i := range starts {
			c := &calls[i%ahead]
			c.Start, c.End = starts[i]+span, ends[i]+span
			if len(c.Data) > 0 {
				binary.LittleEndian.PutUint64(c.Data[0].Bytes[32:], step)
			}
			if _, err := w.Call(c); err != nil {
				b.Fatal(err)
			}
		}
		span += length
		m.round()
	}
	perEvent(b, m, b.N, events)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSize tells how many bytes of the file a call and a launch take.
func BenchmarkSize(b *testing.B) {
	for shape, source := range stream.Shapes {
		for name, opts := range compressions {
			b.Run(shape+"/"+name, func(b *testing.B) {
				const events = 1 << 18
				var size, launches int64
				for b.Loop() {
					path := filepath.Join(b.TempDir(), "run.aclt")
					w := benchWriter(b, path, opts)
					s := source(stream.Schema())
					var c format.Call
					launches = 0
					for range events {
						s.Next(&c)
						if len(c.Data) > 0 {
							launches++
						}
						if _, err := w.Call(&c); err != nil {
							b.Fatal(err)
						}
					}
					if err := w.Close(); err != nil {
						b.Fatal(err)
					}
					info, err := os.Stat(path)
					if err != nil {
						b.Fatal(err)
					}
					size = info.Size()
				}
				b.ReportMetric(float64(size)/events, "B/event")
				b.ReportMetric(float64(size)/float64(launches), "B/launch")
			})
		}
	}
}

var compressions = map[string]*format.WriterOptions{"lz4": nil, "zstd": {Compression: format.Zstd}}

func benchFile(b *testing.B, opts *format.WriterOptions, n int) string {
	path := filepath.Join(b.TempDir(), "run.aclt")
	w := benchWriter(b, path, opts)
	l := stream.New(stream.Schema())
	var c format.Call
	for range n {
		l.Next(&c)
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
		for what, f := range map[string]*format.Filter{
			"all": nil, "nodata": {NoData: true}, "times": {NoData: true, NoArgs: true}, "syncs": {Funcs: []uint16{3}},
		} {
			b.Run(name+"/"+what, func(b *testing.B) {
				r := openBench(b, path)
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
			r := openBench(b, benchFile(b, opts, events))
			var sum uint64
			m := newMeter()
			for b.Loop() {
				for c, err := range r.Batches(nil, format.FuncColumn|format.DurColumn) {
					if err != nil {
						b.Fatal(err)
					}
					durs := c.Dur[:len(c.Func)]
					for i, fn := range c.Func {
						if fn == 1 {
							sum += uint64(durs[i])
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
	r := openBench(b, benchFile(b, nil, events))
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
