package access_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// BenchmarkFollow tracks device memory through a trace in which every launch has its arguments on the device.
func BenchmarkFollow(b *testing.B) {
	const calls = 1_000_000
	r := testtrace.Long(b, calls).Reader
	for b.Loop() {
		s, err := access.New(r, acl.Model, nil)
		if err != nil {
			b.Fatal(err)
		}
		for c, err := range r.CallsByStart(nil) {
			if err != nil {
				b.Fatal(err)
			}
			s.Apply(r.Threads()[c.Thread].Process, c)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/calls, "ns/call")
}

// BenchmarkWords searches payloads without addresses.
func BenchmarkWords(b *testing.B) {
	x := access.NewWords(timeline.NewState(acl.Model))
	x.Device = api.Window{From: 0x124041200000, To: 0x124a41200000}
	data := make([]byte, 1<<20)
	for name, below := range map[string]uint32{"random": 1<<32 - 1, "tokens": 32000} {
		b.Run(name, func(b *testing.B) {
			for i := 0; i < len(data); i += 4 {
				binary.LittleEndian.PutUint32(data[i:], rand.Uint32N(below))
			}
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				x.Find(&access.Payload{Len: uint64(len(data))}, data, 0)
			}
		})
	}
}
