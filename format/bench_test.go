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

// A meter measures rounds of a benchmark by the clock and by the time for which the process had a processor, and after
// each round a yardstick, to distinguish a slow machine from slow code. The best round shows the code's speed on
// a machine that others use too.
type meter struct {
	start           time.Time
	last            time.Duration
	wall, cpu, best time.Duration
	rounds          int
	yard            yard
}

func newMeter() *meter { return (&meter{best: 1 << 62, yard: newYard()}).begin() }

func (m *meter) begin() *meter {
	m.start, m.last = time.Now(), used()
	return m
}

func (m *meter) round() {
	cpu := used() - m.last
	m.wall, m.cpu, m.best = m.wall+time.Since(m.start), m.cpu+cpu, min(m.best, cpu)
	m.rounds++
	m.yard.round()
	m.begin()
}

// report prints millions of events a second: mean by the clock and by processor time, and by processor
// time in the best round; and the yardstick's best round.
func (m *meter) report(b *testing.B, events int) {
	all := float64(m.rounds) * float64(events) / 1e6
	b.ReportMetric(all/m.wall.Seconds(), "wall-Mevents/s")
	b.ReportMetric(all/m.cpu.Seconds(), "cpu-Mevents/s")
	b.ReportMetric(float64(events)/1e6/m.best.Seconds(), "best-Mevents/s")
	b.ReportMetric(yardRows/1e6/m.yard.best.Seconds(), "yard-Mrows/s")
}

// A yard does a fixed piece of work like the measured one, with instructions and memory near the
// processor: it turns rows of 24 words into columns and back.
type yard struct {
	rows, cols []uint64
	best       time.Duration
}

const (
	yardTile  = 64 // rows, which stay in the first cache
	yardTimes = 16
	yardRows  = yardTile * yardTimes
	yardWords = 24
)

func newYard() yard {
	y := yard{rows: make([]uint64, yardTile*yardWords), cols: make([]uint64, yardTile*yardWords), best: 1 << 62}
	for i := range y.rows {
		y.rows[i] = uint64(i) * 0x9E3779B97F4A7C15
	}
	return y
}

func (y *yard) round() {
	begin := used()
	for range yardTimes {
		for k := range yardWords {
			at := k
			for i := range y.cols[k*yardTile:][:yardTile] {
				y.cols[k*yardTile+i] = y.rows[at]
				at += yardWords
			}
		}
		for k := range yardWords {
			at := k
			for _, x := range y.cols[k*yardTile:][:yardTile] {
				y.rows[at] = x + 1
				at += yardWords
			}
		}
	}
	y.best = min(y.best, used()-begin)
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
	// The stream is made beforehand: its cost is not the writer's. Its calls are few enough to stay near the processor, like those of a
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
	m.report(b, events)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSize prints the bytes in the file for a call and a launch.
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

func benchFile(b *testing.B, shape string, opts *format.WriterOptions, n int) string {
	path := filepath.Join(b.TempDir(), "run.aclt")
	w := benchWriter(b, path, opts)
	l := stream.Shapes[shape](stream.Schema())
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
	for shape := range stream.Shapes {
		for name, opts := range compressions {
			b.Run(shape+"/"+name, func(b *testing.B) { benchRead(b, benchFile(b, shape, opts, readEvents)) })
		}
	}
}

const readEvents = 1 << 17

func benchRead(b *testing.B, path string) {
	for what, f := range map[string]*format.Filter{
		"all": nil, "nodata": {NoData: true}, "times": {NoData: true, NoArgs: true}, "syncs": {Funcs: []uint16{3, 8}},
	} {
		b.Run(what, func(b *testing.B) {
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
			m.report(b, readEvents)
			if sum == 0 {
				b.Fatal("nothing read")
			}
		})
	}
}

// BenchmarkProjection adds up the durations of one function.
func BenchmarkProjection(b *testing.B) {
	for name, opts := range compressions {
		b.Run(name, func(b *testing.B) {
			r := openBench(b, benchFile(b, "train", opts, readEvents))
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
			m.report(b, readEvents)
			if sum == 0 {
				b.Fatal("nothing read")
			}
		})
	}
}

// BenchmarkReadByStart reads calls of one thread, and of two threads whose rings were read in turn.
func BenchmarkReadByStart(b *testing.B) {
	for name, threads := range map[string]int{"one": 1, "two": 2} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "run.aclt")
			w := benchWriter(b, path, nil)
			var sources []stream.Source
			for range threads {
				sources = append(sources, stream.New(stream.Schema()))
			}
			var c format.Call
			for i := range readEvents {
				thread := i / 512 % threads
				sources[thread].Next(&c)
				c.Thread = uint32(thread)
				if _, err := w.Call(&c); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			r := openBench(b, path)
			m := newMeter()
			for b.Loop() {
				for _, err := range r.CallsByStart(nil) {
					if err != nil {
						b.Fatal(err)
					}
				}
				m.round()
			}
			m.report(b, readEvents)
		})
	}
}
