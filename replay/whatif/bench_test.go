package whatif

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/model"
)

const us = 1000

// decoder has launches on streams in turn, each with the share of a synchronization.
func decoder(b *testing.B, tasks int64, streams int, measured bool) string {
	s := testtrace.New(b)
	stream := func(i int) uint64 { return testtrace.StreamA + uint64(i)*0x100 }
	for i := range streams {
		s.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", stream(i)))
	}
	at := int64(2 * us)
	times := func(i int64) testtrace.Mod {
		return func(_ *api.Func, c *format.Call) {
			if measured {
				c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(2*us + 3*us*i)}, format.Out{Param: api.TaskEndParam, Value: uint64(4*us + 3*us*i)})
			}
		}
	}
	for i := range tasks {
		s.Call(0, at, at+us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, stream(int(i)%streams)), times(i))
		at += us
		if i%400 == 399 {
			for k := range streams {
				s.Call(0, at, at+800*us, "aclrtSynchronizeStream", testtrace.A(stream(k)))
				at += 800 * us
			}
		}
	}
	return s.Load().Reader.Path()
}

func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRun measures the processor time for each task: reading the trace with the meaning of its calls, simulating it, which unmeasured
// durations need several times, and writing a new trace.
func BenchmarkRun(b *testing.B) {
	const tasks = 400_000
	for _, bb := range []struct {
		name     string
		streams  int
		measured bool
		model    string // of the changed device, "" for the default
	}{{"measured", 1, true, ""}, {"measured, 4 streams", 4, true, ""}, {"not measured", 1, false, ""}, {"not measured, another model", 1, false, "instant"},
		{"not measured, 4 streams", 4, false, ""}, {"not measured, 4 streams, another model", 4, false, "instant"}} {
		b.Run(bb.name, func(b *testing.B) {
			path := decoder(b, tasks, bb.streams, bb.measured)
			base, err := model.Load("")
			if err != nil {
				b.Fatal(err)
			}
			m := base
			if bb.model != "" {
				if m, err = model.Load(bb.model); err != nil {
					b.Fatal(err)
				}
			}
			o := Options{Output: filepath.Join(b.TempDir(), "new.aclt")}
			var spent [3]time.Duration
			for b.Loop() {
				r, err := format.Open(path, nil)
				if err != nil {
					b.Fatal(err)
				}
				began := processor()
				p, err := newProgram(r, acl.Model, nil)
				if err != nil {
					b.Fatal(err)
				}
				read := processor()
				v := &runner{o: o, rep: &Report{}, p: p, model: m, base: base, scale: 1}
				if err := v.run(); err != nil {
					b.Fatal(err)
				}
				v.report()
				ran := processor()
				if err := v.write(context.Background()); err != nil {
					b.Fatal(err)
				}
				spent[0], spent[1], spent[2] = spent[0]+read-began, spent[1]+ran-read, spent[2]+processor()-ran
				if v.rep.Tasks != tasks {
					b.Fatal(v.rep)
				}
				r.Close()
			}
			for i, name := range []string{"read", "simulated", "written"} {
				b.ReportMetric(float64(tasks*b.N)/spent[i].Seconds()/1e6, "M"+name+"/cpu-s")
			}
		})
	}
}
