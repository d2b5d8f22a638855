package perfetto

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// An output compresses blocks of packets concurrently and writes each as one packet, in order.
type output struct {
	w         io.WriteCloser
	zstd      bool
	blockSize int
	queue     chan *block
	done      chan struct{}
	written   atomic.Int64
	pending   atomic.Int64 // bytes before compression, not written yet
	err       atomic.Pointer[error]
}

// A block passes from goroutine to goroutine, and is reused.
type block struct {
	in    []byte
	out   bytes.Buffer
	head  []byte
	err   error
	ready chan struct{}
	zlib  *zlib.Writer
}

var blocks = sync.Pool{New: func() any { return &block{ready: make(chan struct{}, 1)} }}

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithNoEntropyCompression(true), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

func newOutput(w io.WriteCloser, zstd bool, maxSize int64) *output {
	o := &output{w: w, zstd: zstd, blockSize: 256 << 10, done: make(chan struct{})}
	if maxSize > 0 {
		o.blockSize = int(min(int64(o.blockSize), maxSize/8))
	}
	o.queue = make(chan *block, runtime.GOMAXPROCS(0))
	go o.run()
	return o
}

// size returns an upper bound for the file's length.
func (o *output) size() int64 {
	pending := o.pending.Load() // load first: bytes written in between count twice, but never zero times
	return o.written.Load() + pending
}

// block takes over packets and returns another buffer.
func (o *output) block(packets []byte) []byte {
	b := blocks.Get().(*block)
	b.in, packets = packets, b.in[:0]
	o.pending.Add(int64(len(b.in)) + blockOverhead)
	o.queue <- b // limits the waiting blocks
	go b.compress(o.zstd)
	return packets
}

// blockOverhead exceeds the growth of an incompressible block.
const blockOverhead = 1 << 10

func (b *block) compress(useZstd bool) {
	b.out.Reset()
	tag := uint32(packetDeflate)
	if useZstd {
		tag = packetZstd
		buf := zstdEncoder().EncodeAll(b.in, b.out.AvailableBuffer())
		b.out.Write(buf)
		b.err = nil
	} else {
		if b.zlib == nil {
			b.zlib, b.err = zlib.NewWriterLevel(&b.out, zlib.BestSpeed)
		} else {
			b.zlib.Reset(&b.out)
		}
		if b.err == nil {
			_, b.err = b.zlib.Write(b.in)
		}
		if err := b.zlib.Close(); b.err == nil {
			b.err = err
		}
	}
	content := put(nil, tag, uint64(b.out.Len()))
	b.head = append(put(b.head[:0], tracePacket, uint64(len(content)+b.out.Len())), content...)
	b.ready <- struct{}{}
}

func (o *output) run() {
	defer close(o.done)
	for b := range o.queue {
		<-b.ready
		err := b.err
		if o.failed() == nil {
			for _, part := range [][]byte{b.head, b.out.Bytes()} {
				if err == nil {
					var n int
					n, err = o.w.Write(part)
					o.written.Add(int64(n))
				}
			}
			if err != nil {
				o.err.Store(&err)
			}
		}
		o.pending.Add(-int64(len(b.in)) - blockOverhead)
		blocks.Put(b)
	}
}

func (o *output) failed() error {
	if p := o.err.Load(); p != nil {
		return *p
	}
	return nil
}

// close waits until everything is written and returns the byte count.
func (o *output) close() (int64, error) {
	close(o.queue)
	<-o.done
	err := o.w.Close()
	if first := o.failed(); first != nil {
		err = first
	}
	return o.written.Load(), err
}
