package yardsticks

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/stream"
	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
)

// events is how many calls a round has: more than any of the three buffers.
const events = 1 << 17

// head is the length of a call as a structure: the fields of every call, room for ten words, and address and length of
// the argument block after it.
const head = 8*6 + 10*8 + 8*2

func appendRecord(b []byte, c *format.Call) []byte {
	at := len(b)
	b = append(b, make([]byte, head)...)
	le := binary.LittleEndian
	r := b[at:]
	le.PutUint64(r, uint64(c.Start))
	le.PutUint64(r[8:], uint64(c.End))
	le.PutUint16(r[16:], c.Func)
	le.PutUint32(r[20:], c.Thread)
	le.PutUint64(r[24:], c.Ret)
	r[32] = byte(c.Flags)
	r[33] = byte(len(c.Args))
	if len(c.Outs) > 0 {
		le.PutUint64(r[40:], c.Outs[0].Value)
	}
	for i, a := range c.Args {
		le.PutUint64(r[48+8*i:], a)
	}
	if len(c.Data) > 0 {
		le.PutUint64(r[128:], c.Data[0].Addr)
		le.PutUint64(r[136:], uint64(len(c.Data[0].Bytes)))
		b = append(b, c.Data[0].Bytes...)
	}
	return b
}

// readRecord returns appendRecord's input, in reused memory. block returns the argument block.
func readRecord(r []byte, c *format.Call, block func(n int) []byte) {
	le := binary.LittleEndian
	c.Start, c.End = int64(le.Uint64(r)), int64(le.Uint64(r[8:]))
	c.Func, c.Thread, c.Ret, c.Flags = le.Uint16(r[16:]), le.Uint32(r[20:]), le.Uint64(r[24:]), format.CallFlags(r[32])
	c.Args, c.Outs = c.Args[:0], c.Outs[:0]
	if out := le.Uint64(r[40:]); out != 0 {
		c.Outs = append(c.Outs, format.Out{Param: format.TaskParam, Value: out})
	}
	for i := range int(r[33]) {
		c.Args = append(c.Args, le.Uint64(r[48+8*i:]))
	}
	c.Data = c.Data[:0]
	if n := int(le.Uint64(r[136:])); n > 0 {
		c.Data = append(c.Data, format.Data{Addr: le.Uint64(r[128:]), Bytes: block(n)})
	}
}

type meter struct {
	last, cpu, best time.Duration
	rounds          int
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func newMeter() *meter { return &meter{last: used(), best: 1 << 62} }

func (m *meter) round() {
	now := used()
	m.cpu += now - m.last
	m.best = min(m.best, now-m.last)
	m.last = now
	m.rounds++
}

func (m *meter) report(b *testing.B) {
	b.ReportMetric(events/1e6*float64(m.rounds)/m.cpu.Seconds(), "cpu-Mevents/s")
	b.ReportMetric(events/1e6/m.best.Seconds(), "best-Mevents/s")
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// A store is a way to write and read calls.
type store struct {
	write func(b *testing.B, path string, calls []format.Call)
	read  func(b *testing.B, path string, use func(*format.Call))
}

var stores = map[string]store{
	"mcap-lz4":  {writeMCAP(mcap.CompressionLZ4), readMCAP},
	"mcap-zstd": {writeMCAP(mcap.CompressionZSTD), readMCAP},
	"structs-zstd": {
		write: func(b *testing.B, path string, calls []format.Call) {
			f, err := os.Create(path)
			check(b, err)
			w, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
			check(b, err)
			var buf []byte
			for i := range calls {
				if buf = appendRecord(buf, &calls[i]); len(buf) > 1<<20 {
					_, err := w.Write(buf)
					check(b, err)
					buf = buf[:0]
				}
			}
			_, err = w.Write(buf)
			check(b, errors.Join(err, w.Close(), f.Close()))
		},
		read: func(b *testing.B, path string, use func(*format.Call)) {
			f, err := os.Open(path)
			check(b, err)
			defer f.Close()
			z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
			check(b, err)
			defer z.Close()
			r := bufio.NewReaderSize(z, 1<<20)
			var rec [head + format.InlineLimit]byte
			var c format.Call
			for {
				if _, err := io.ReadFull(r, rec[:head]); err == io.EOF {
					return
				} else {
					check(b, err)
				}
				readRecord(rec[:head], &c, func(n int) []byte {
					_, err := io.ReadFull(r, rec[head:head+n])
					check(b, err)
					return rec[head : head+n]
				})
				use(&c)
			}
		},
	},
}

func writeMCAP(compression mcap.CompressionFormat) func(*testing.B, string, []format.Call) {
	return func(b *testing.B, path string, calls []format.Call) {
		f, err := os.Create(path)
		check(b, err)
		w, err := mcap.NewWriter(f, &mcap.WriterOptions{Chunked: true, ChunkSize: 1 << 20, Compression: compression, IncludeCRC: true})
		check(b, err)
		check(b, w.WriteHeader(&mcap.Header{}))
		check(b, w.WriteSchema(&mcap.Schema{ID: 1, Name: "call", Encoding: "x"}))
		for id := range uint16(10) {
			check(b, w.WriteChannel(&mcap.Channel{ID: id, SchemaID: 1, Topic: "f", MessageEncoding: "x"}))
		}
		var buf []byte
		for i := range calls {
			c := &calls[i]
			buf = appendRecord(buf[:0], c)
			check(b, w.WriteMessage(&mcap.Message{ChannelID: c.Func, Sequence: uint32(i), LogTime: uint64(c.Start), PublishTime: uint64(c.Start), Data: buf}))
		}
		check(b, errors.Join(w.Close(), f.Close()))
	}
}

func readMCAP(b *testing.B, path string, use func(*format.Call)) {
	f, err := os.Open(path)
	check(b, err)
	defer f.Close()
	l, err := mcap.NewLexer(f, &mcap.LexerOptions{ValidateChunkCRCs: true})
	check(b, err)
	var buf []byte
	var c format.Call
	for {
		token, rec, err := l.Next(buf)
		if errors.Is(err, io.EOF) {
			return
		}
		check(b, err)
		if cap(rec) > cap(buf) {
			buf = rec
		}
		if token == mcap.TokenMessage {
			m, err := mcap.ParseMessage(rec)
			check(b, err)
			readRecord(m.Data, &c, func(n int) []byte { return m.Data[head : head+n] })
			use(&c)
		}
	}
}

// made returns a round's calls and how many of them are launches.
func made(shape string) (calls []format.Call, launches int) {
	s := stream.Shapes[shape](stream.Schema())
	calls = make([]format.Call, events)
	for i := range calls {
		s.Next(&calls[i])
		calls[i] = *calls[i].Clone()
		if len(calls[i].Data) > 0 {
			launches++
		}
	}
	return calls, launches
}

func BenchmarkWrite(b *testing.B) {
	for shape := range stream.Shapes {
		for name, s := range stores {
			b.Run(shape+"/"+name, func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "file")
				calls, launches := made(shape)
				m := newMeter()
				for b.Loop() {
					s.write(b, path, calls)
					m.round()
				}
				m.report(b)
				info, err := os.Stat(path)
				check(b, err)
				b.ReportMetric(float64(info.Size())/events, "B/event")
				b.ReportMetric(float64(info.Size())/float64(launches), "B/launch")
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for shape := range stream.Shapes {
		for name, s := range stores {
			b.Run(shape+"/"+name, func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "file")
				calls, _ := made(shape)
				s.write(b, path, calls)
				m := newMeter()
				for b.Loop() {
					n, sum := 0, uint64(0)
					s.read(b, path, func(c *format.Call) {
						n++
						sum += uint64(c.End) + uint64(len(c.Args)) + uint64(len(c.Data))
					})
					if n != events || sum == 0 {
						b.Fatalf("%d calls read", n)
					}
					m.round()
				}
				m.report(b)
			})
		}
	}
}
