package record_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/timeline"
)

// ffmpeg returns a command line that filters generated pictures and prints a hash of the result.
func ffmpeg(filter string, device bool, sizes ...string) []string {
	args := []string{"ffmpeg", "-nostdin", "-v", "error"}
	if device {
		args = append(args, "-init_hw_device", "cuda=c", "-filter_hw_device", "c")
	}
	for i, size := range sizes {
		args = append(args, "-f", "lavfi", "-i", []string{"testsrc", "testsrc2"}[i]+"=duration=1:rate=5:size="+size)
	}
	return append(args, "-filter_complex", filter, "-f", "md5", "-")
}

// Third-party programs compute the same results on the fake driver as without it. Host functions stand for their kernels. The
// replay of a recording copies the same results to the host.
func TestCUDAPrograms(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	t.Setenv("FAKECUDA_KERNELS", testenv.CompileC(t, "kernels.so", []string{source("cuda_programs.c")}, "-shared", "-fPIC", "-I"+filepath.Join(testenv.Root(t), "sim/cuda/include")))
	for _, c := range []struct {
		name            string
		host, device    func(t *testing.T) []string // the same work by the program itself, and by the device
		launches        int
		copies, results int
		stubs           int // host functions on streams
	}{
		{name: "ffmpeg, frames there and back", launches: 0, copies: 20, results: 10,
			host: func(t *testing.T) []string { return ffmpeg("format=nv12", false, "320x240") },
			device: func(t *testing.T) []string {
				return ffmpeg("format=nv12,hwupload,hwdownload,format=nv12", true, "320x240")
			}},
		{name: "ffmpeg, overlay_cuda", launches: 15, copies: 60, results: 15,
			host: func(t *testing.T) []string {
				return ffmpeg("[0]format=yuv420p[a];[1]format=yuv420p[b];[a][b]overlay=x=32:y=16,format=yuv420p", false, "256x192", "128x96")
			},
			device: func(t *testing.T) []string {
				return ffmpeg("[0]format=yuv420p,hwupload[a];[1]format=yuv420p,hwupload[b];[a][b]overlay_cuda=x=32:y=16,hwdownload,format=yuv420p", true, "256x192", "128x96")
			}},
		{name: "ffmpeg, scale_cuda", launches: 10, copies: 25, results: 10, // it reads textures
			host: func(t *testing.T) []string { return ffmpeg("format=yuv420p,format=nv12", false, "256x192") },
			device: func(t *testing.T) []string {
				return ffmpeg("format=yuv420p,hwupload,scale_cuda=format=nv12:interp_algo=nearest,hwdownload,format=nv12", true, "256x192")
			}},
		{name: "OpenACC", launches: 2, copies: 4, results: 1, stubs: 4,
			host:   func(t *testing.T) []string { return []string{"env", "ACC_DEVICE_TYPE=host", offloaded(t)} },
			device: func(t *testing.T) []string { return []string{offloaded(t)} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := c.host(t)
			if _, err := exec.LookPath(host[0]); err != nil {
				t.Skipf("%s is not installed: run `scripts/setup.sh test`", host[0])
			}
			if host[0] == "ffmpeg" {
				if b, err := exec.Command("ffmpeg", "-hide_banner", "-filters").Output(); err != nil || !strings.Contains(string(b), "overlay_cuda") {
					t.Skip("ffmpeg is built without CUDA here")
				}
			}
			want, err := exec.Command(host[0], host[1:]...).Output()
			if err != nil {
				t.Fatalf("%v: %v", host, err)
			}
			device := c.device(t)
			for _, o := range []record.Options{{Capture: record.Capture{Replayable: true}}, {Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}} {
				o.Model = cuda.Model
				r, res, out := run(t, o, device...)
				if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || out != string(want) {
					t.Fatalf("%+v\n%s, want %s", res, out, want)
				}
				tl, err := timeline.Load(r, cuda.Model)
				if err != nil {
					t.Fatal(err)
				}
				launches, copies, last := 0, 0, uint64(0) // last launch
				for i := range tl.Tasks {
					k := &tl.Tasks[i]
					switch k.Fn.Task {
					case api.Kernel:
						launches, last = launches+1, max(last, k.Call)
					case api.Copy:
						copies++
					default:
						continue
					}
					if k.Measured != (o.Capture.DeviceTime != 0) && k.Fn.Stream >= 0 {
						t.Errorf("call %d, %s: measured %t", k.Call, k.Fn.Name, k.Measured)
					}
				}
				if launches != c.launches || copies != c.copies {
					t.Errorf("%d launches and %d copies", launches, copies)
				}
				if !o.Capture.Replayable {
					continue
				}
				alone := filepath.Join(t.TempDir(), "alone.aclt")
				if launches > 0 {
					if _, err := lab.Extract(t.Context(), r.Path(), cuda.Model, last, alone, nil); err != nil {
						t.Fatal(err)
					}
				}
				for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
					rep, err := replay.Run(t.Context(), r.Path(), cuda.Model, &replay.Options{Verify: true, Place: place})
					if err != nil || !rep.Identical || rep.Verified.Results != uint64(c.results) || len(rep.Stubs) != c.stubs || rep.DifferingTotal > 0 {
						t.Errorf("%s: %v, %+v", place, err, rep)
					}
					if launches == 0 {
						continue
					}
					// Replay the last launch by itself.
					if rep, err = replay.Run(t.Context(), alone, cuda.Model, &replay.Options{Verify: true, Place: place}); err != nil || !rep.Identical || rep.Verified.Results == 0 {
						t.Errorf("alone, %s: %v, %+v", place, err, rep)
					}
				}
			}
		})
	}
}

// offloaded is a program whose loops GCC has offloaded to the device.
func offloaded(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "acc")
	if b, err := exec.Command("gcc", "-O2", "-fopenacc", "-foffload=nvptx-none", "-o", out, source("cuda_acc.c")).CombinedOutput(); err != nil {
		t.Skipf("GCC compiles nothing for CUDA here: run `scripts/setup.sh test`: %s", b)
	}
	return out
}
