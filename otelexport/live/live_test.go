package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/meter"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/otelexport/internal/spans"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// serving holds the arguments for testdata/serve.c.
type serving struct{ threads, steps, launches, fail, slow, requests int }

// program builds testdata/serve.c and returns its command line.
func (s *serving) program(t *testing.T) []string {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	kernels := testenv.Built(t, "lib/aclsim_kernels.o")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	lib := testenv.CompileC(t, "libms_tools_ext.so", []string{"testdata/serve.c"}, "-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libms_tools_ext.so")
	command := []string{testenv.CompileC(t, "serve", []string{"testdata/serve.c"}, lib, "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib)), kernels}
	for _, n := range []int{s.threads, s.steps, s.launches, s.fail, s.slow, s.requests} {
		command = append(command, strconv.Itoa(n))
	}
	return command
}

// serve records testdata/serve.c with a Follower and opens the trace.
func serve(t *testing.T, s serving, lo Options, o record.Options) (*Follower, *format.Reader, *record.Result) {
	t.Helper()
	lo.Model = acl.Model
	if !unreached {
		was := farewell
		farewell = testenv.Patience
		defer func() { farewell = was }()
	}
	l, err := New(&lo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if o.Follower == nil {
		o.Follower = l
	} else {
		o.Follower.(interface{ use(*Follower) }).use(l)
	}
	o.Model, o.Output, o.Sim, o.Stdout = acl.Model, filepath.Join(t.TempDir(), "run.aclt"), true, out
	o.Command = append(o.Command, s.program(t)...)
	if looks := watching; looks != nil {
		stop := make(chan struct{})
		go looks(l, stop)
		defer close(stop)
	}
	res, err := record.Run(context.Background(), &o)
	if err != nil {
		t.Fatal(err)
	}
	if said, _ := os.ReadFile(out.Name()); res.ExitCode != 0 || res.Incomplete != nil || string(said) != "done\n" {
		t.Fatalf("%+v, %q", res, said)
	}
	r, err := format.Open(o.Output, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return l, r, res
}

// unreached is true if no receiver answers: End then uses the normal farewell.
var unreached bool

// watching observes a Follower while its program runs, unless nil.
var watching func(l *Follower, stop <-chan struct{})

// A slowFollower slows the recorder, so that calls are lost.
type slowFollower struct {
	*Follower
	n int
}

func (s *slowFollower) use(l *Follower) { s.Follower = l }

func (s *slowFollower) Call(c *format.Call, timed bool) {
	if s.n++; s.n%256 == 0 {
		time.Sleep(20 * time.Millisecond)
	}
	s.Follower.Call(c, timed)
}

// A pushedFollower ends a recording only after metrics were pushed.
type pushedFollower struct {
	*Follower
	t *testing.T
}

func (p *pushedFollower) use(l *Follower) { p.Follower = l }

func (p *pushedFollower) End(at int64) {
	p.Drained(at)
	pushed := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.res.Pushed > 0
	}
	if !testenv.Await(pushed) {
		p.t.Error("nothing is pushed before the end")
	}
	p.Follower.End(at)
}

// A total is a metric value, times in nanoseconds.
type total struct {
	Sum      int64
	Count    uint64
	Min, Max int64
	Buckets  []uint64
}

// counted returns the values of a meter by resource, metric and attributes.
func counted(x *meter.Meter) map[string]total {
	out := map[string]total{}
	ns := func(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }
	for _, d := range x.Data(0) {
		of := attribute.NewSet(d.Attrs...)
		service, _ := of.Value("service.name")
		pid, _ := of.Value("process.pid")
		for _, m := range d.Metrics {
			set := func(attrs attribute.Set, v total) {
				k := service.String() + " " + pid.String() + " " + m.Name
				for _, a := range attrs.ToSlice() {
					k += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
				}
				out[k] = v
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					set(p.Attributes, total{Sum: p.Value})
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					set(p.Attributes, total{Sum: p.Value})
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					set(p.Attributes, total{Sum: ns(p.Value)})
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					least, _ := p.Min.Value()
					most, _ := p.Max.Value()
					set(p.Attributes, total{ns(p.Sum), p.Count, ns(least), ns(most), p.BucketCounts})
				}
			default:
				panic(fmt.Sprintf("%s has data of type %T", m.Name, data))
			}
		}
	}
	return out
}

// same checks that the live values equal those of the trace.
func same(t *testing.T, l *Follower, r *format.Reader) map[string]total {
	t.Helper()
	if _, err := l.Result(); err != nil {
		t.Fatal(err)
	}
	rs, err := otlp.NewLiveResources(acl.Model, "")
	if err != nil {
		t.Fatal(err)
	}
	rs.Meta = r.Meta()
	for _, p := range r.Processes() {
		rs.Add(&p)
	}
	x := meter.New(rs, acl.Model, r.Threads())
	for _, g := range r.Gaps() {
		x.Gap(&g)
	}
	if err := timeline.NewWalk(r, acl.Model, nil).Run(x.Visitor()); err != nil {
		t.Fatal(err)
	}
	want, got := counted(x), counted(l.meter)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("live values are not those of the trace (-trace +live):\n%.3000s", d)
	}
	return got
}

// Live metrics equal those of the trace, to the last call, nanosecond and bucket: with lost calls, with threads that
// share a device, and with measured device times.
func TestLiveMetricsAreTheTraces(t *testing.T) {
	// The shell runs the program twice, concurrently.
	twice := []string{"sh", "-c", `"$0" "$@" >/dev/null & "$0" "$@" >/dev/null & wait; echo done`}
	for name, c := range map[string]struct {
		serving
		o record.Options
	}{
		"processes":            {serving{2, 40, 30, 7, 0, 0}, record.Options{Command: twice, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}},
		"processes and losses": {serving{2, 300, 30, 5, 0, 0}, record.Options{Command: twice, Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10}}, Follower: &slowFollower{}}},
		"one thread":           {serving{1, 50, 40, 7, 0, 0}, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}},
		"threads":              {serving{6, 40, 60, 9, 0, 1}, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}},
		"losses":               {serving{3, 400, 30, 5, 0, 0}, record.Options{Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10}}, Follower: &slowFollower{}}},
		"measured":             {serving{2, 30, 20, 0, 0, 0}, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}},
		"no payloads":          {serving{2, 30, 20, 0, 0, 0}, record.Options{Capture: record.Capture{Payload: record.None}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}},
		"with a limit":         {serving{1, 3000, 20, 0, 0, 0}, record.Options{Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10, Block: true}, MaxSize: 64 << 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, r, res := serve(t, c.serving, Options{}, c.o)
			got := same(t, l, r)
			sums := sums(got)
			if sums["acl.calls"] != int64(res.Calls) || sums["acl.calls.lost"] != int64(res.Lost) || sums["acl.call.errors"] != int64(res.Failed) {
				t.Errorf("%v, want those of %+v", sums, res)
			}
			if (res.Lost > 0) != strings.HasSuffix(name, "losses") {
				t.Errorf("%d calls were lost", res.Lost)
			}
			processes := 1
			if c.o.Command != nil {
				processes = 2
			}
			if res.Processes != processes {
				t.Errorf("%d processes", res.Processes)
			}
			if all := int64(processes * c.threads * c.steps * c.launches); res.Lost == 0 && !res.File.Full && (sums["acl.launches"] != all || sums["acl.copies"] != int64(2*processes*c.threads*c.steps)) {
				t.Errorf("%d launches of %d, %d copies", sums["acl.launches"], all, sums["acl.copies"])
			}
			if res.File.Full != (name == "with a limit") {
				t.Errorf("recording ended at its limit: %v", res.File.Full)
			}
			if name == "measured" && sums["acl.kernel.duration"] == 0 {
				t.Error("no kernel was measured")
			}
		})
	}
}

// sums adds up the values of each metric.
func sums(values map[string]total) map[string]int64 {
	sums := map[string]int64{}
	for k, v := range values {
		for w := range strings.FieldsSeq(k) {
			if strings.HasPrefix(w, "acl.") && !strings.Contains(w, "=") {
				sums[w] += v.Sum
			}
		}
	}
	return sums
}

// A flight recorder counts all calls, including those that its ring discarded.
func TestLiveMetricsOfARing(t *testing.T) {
	l, _, res := serve(t, serving{2, 300, 30, 50, 0, 0}, Options{}, record.Options{Ring: &record.Ring{Bytes: 64 << 10}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}})
	got := sums(counted(l.meter))
	if got["acl.calls"] != int64(res.Calls) || got["acl.calls.lost"] != 0 || got["acl.launches"] != 2*300*30 || got["acl.call.errors"] != int64(res.Failed) || res.Failed != 10 {
		t.Errorf("%v of %+v", got, res)
	}
}

// A collector counts programs that it did not start.
func TestLiveMetricsOfACollector(t *testing.T) {
	s := serving{2, 50, 20, 7, 0, 0}
	command := s.program(t)
	l, err := New(&Options{Model: acl.Model})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "session")
	o := record.CollectOptions{Options: record.Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "run.aclt"), Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Follower: l}, Dir: dir, UntilGone: 300 * time.Millisecond}
	o.Sim = true
	if err := record.Install(dir, &o.Options, &o.Share); err != nil {
		t.Fatal(err)
	}
	variables := record.Environment(dir, &o.Options)
	cmd := exec.Command(command[0], command[1:]...)
	for _, v := range variables {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Env = append(cmd.Env, "ACLSIM_KERNELS="+os.Getenv("ACLSIM_KERNELS"))
	ran := make(chan error, 1)
	go func() { ran <- cmd.Run() }()
	res, err := record.Collect(t.Context(), &o)
	if err := errors.Join(err, <-ran); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(res.Output, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := sums(same(t, l, r)); got["acl.launches"] != 2*50*20 || got["acl.calls"] != int64(res.Calls) {
		t.Errorf("%v of %+v", got, res)
	}
}

// Prometheus' own parser and linter accept the metrics and see them increase.
func TestLivePrometheus(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	seen := make(chan []map[string]*dto.MetricFamily, 1)
	watching = func(l *Follower, stop <-chan struct{}) {
		var all []map[string]*dto.MetricFamily
		defer func() { seen <- all }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			resp, err := http.Get("http://" + l.Address() + "/metrics")
			if err != nil {
				continue // the recording has not begun or has ended
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%s, %v: %.500s", resp.Status, err, body)
				return
			}
			p := expfmt.NewTextParser(model.UTF8Validation)
			f, err := p.TextToMetricFamilies(bytes.NewReader(body))
			if err != nil {
				t.Errorf("%v in\n%.2000s", err, body)
				return
			}
			problems, err := promlint.New(bytes.NewReader(body)).Lint()
			if err != nil || len(problems) > 0 {
				t.Errorf("promlint: %v, %v", problems, err)
				return
			}
			all = append(all, f)
		}
	}
	defer func() { watching = nil }()
	var all []map[string]*dto.MetricFamily
	var r *format.Reader
	steps := 60
	for ; ; steps *= 4 { // on a busy machine the program may end before the second scrape
		var l *Follower
		l, r, _ = serve(t, serving{2, steps, 20, 5, 10, 0}, Options{Prometheus: "127.0.0.1:0"}, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}})
		same(t, l, r)
		if all = <-seen; len(all) >= 2 || steps > 1e4 {
			break
		}
	}
	last := map[string]float64{}
	for _, f := range all {
		for _, name := range []string{"acl_launches_total", "acl_calls_total", "acl_copies_total"} {
			sum := 0.0
			for _, m := range f[name].GetMetric() {
				sum += m.GetCounter().GetValue()
			}
			if sum < last[name] {
				t.Errorf("%s fell from %v to %v", name, last[name], sum)
			}
			last[name] = sum
		}
	}
	if len(all) < 2 || last["acl_launches_total"] == 0 || last["acl_launches_total"] > float64(2*20*steps) {
		t.Fatalf("%d scrapes, the last of %v", len(all), last)
	}
	end := all[len(all)-1]
	for _, name := range []string{"acl_launch_duration_seconds", "acl_synchronize_time_seconds_total", "acl_copy_io_bytes_total", "acl_call_errors_total", "hw_gpu_memory_usage_bytes"} {
		if end[name] == nil {
			t.Errorf("no %s among %v", name, slices.Sorted(func(yield func(string) bool) {
				for k := range end {
					if !yield(k) {
						return
					}
				}
			}))
		}
	}
	labels := map[string]string{}
	for _, p := range end["acl_launches_total"].GetMetric()[0].GetLabel() {
		labels[p.GetName()] = p.GetValue()
	}
	if labels["service_name"] != "serve/npu:0" || labels["acl_stream"] == "" || labels["process_pid"] == "" || labels["deployment_environment_name"] != "test" || labels["service_instance_id"] != r.Meta().UUID {
		t.Errorf("labels %v", labels)
	}
}

// A real collector ends with the trace's values.
func TestLiveMetricsToCollector(t *testing.T) {
	for _, protocol := range []string{endpoint.GRPC, endpoint.HTTP} {
		t.Run(protocol[:4], func(t *testing.T) {
			t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
			s, url, file := oteltest.StartCollector(t, "file")
			l, r, res := serve(t, serving{2, 40, 20, 5, 10, 0}, Options{Metrics: true, Endpoint: url[protocol], Protocol: protocol}, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Follower: &pushedFollower{t: t}})
			same(t, l, r)
			if out, _ := l.Result(); out.Pushed < 2 || out.PushesFailed > 0 || !strings.HasPrefix(out.MetricsTo, url[protocol]) {
				t.Errorf("%+v", out)
			}
			s.Stop()
			lines, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// A push that the end of the recording cancels may reach the file after the last push.
			pushes := map[pcommon.Timestamp]int64{}
			for line := range bytes.Lines(lines) {
				md, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
				if err != nil {
					t.Fatal(err)
				}
				for _, rm := range md.ResourceMetrics().All() {
					for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
						if m.Name() != "acl.calls" {
							continue
						}
						sum, at := int64(0), pcommon.Timestamp(0)
						for _, p := range m.Sum().DataPoints().All() {
							sum += p.IntValue()
							at = max(at, p.Timestamp())
						}
						pushes[at] = sum
					}
				}
			}
			last := int64(0)
			for _, at := range slices.Sorted(maps.Keys(pushes)) {
				if pushes[at] < last {
					t.Errorf("calls fell from %d to %d", last, pushes[at])
				}
				last = pushes[at]
			}
			if last != int64(res.Calls) || len(pushes) < 2 {
				t.Errorf("%d calls in the last of %d pushes, want %d", last, len(pushes), res.Calls)
			}
		})
	}
}

// checkLive compares the spans of chosen steps with the trace and returns the roots.
func checkLive(t *testing.T, spans []oteltest.Span, r *format.Reader) []oteltest.Span {
	t.Helper()
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	all := oteltest.ByID(t, spans)
	wall := r.Meta().StartWall
	var roots []oteltest.Span
	tasks := 0
	for _, s := range spans {
		n, isTask, ok := oteltest.CallOf(all, s)
		switch {
		case s.Attrs["acl.part"] != nil:
			roots = append(roots, s)
		case !ok:
		case !isTask:
			c := &tl.Calls[slices.IndexFunc(tl.Calls, func(c timeline.HostCall) bool { return c.Index == uint64(n) })]
			if s.Attrs["code.function.name"] != c.Name || s.Start != wall+c.Start || s.End != wall+max(c.End, c.Start+1) || c.Kernel != "" && s.Name != "launch "+c.Kernel {
				t.Errorf("call %d is %+v, in the trace %+v", n, s, c)
			}
		default:
			k := &tl.Tasks[slices.IndexFunc(tl.Tasks, func(k timeline.Task) bool { return k.Call == uint64(n) })]
			tasks++
			if !strings.HasPrefix(s.Name, k.Name) || s.Start != wall+k.Issued || s.End != wall+k.Issued+1 {
				t.Errorf("task of call %d is %+v, in the trace %+v", n, s, k)
			}
		}
	}
	if tasks == 0 {
		t.Error("no tasks")
	}
	slices.SortFunc(roots, func(a, b oteltest.Span) int { return int(a.Start - b.Start) })
	return roots
}

// A real collector receives the chosen steps while the program runs: one of ten, and all with an error or a pause.
func TestLiveSteps(t *testing.T) {
	for _, protocol := range []string{endpoint.GRPC, endpoint.HTTP} {
		for _, layout := range []string{spans.Lanes, spans.Nested} {
			t.Run(protocol[:4]+" "+layout, func(t *testing.T) {
				s, url, file := oteltest.StartCollector(t, "file")
				env := append(os.Environ(), "TRACEPARENT=00-"+oteltest.Upstream+"-"+oteltest.Caller+"-01")
				l, r, _ := serve(t, serving{1, 120, 30, 17, 40, 0}, Options{Spans: true, Every: 10, Slow: 50 * time.Millisecond, Layout: layout,
					Endpoint: url[protocol], Protocol: protocol}, record.Options{Env: env, Limits: record.Limits{Buffers: record.Buffers{Block: true}}})
				same(t, l, r)
				out, _ := l.Result()
				if out.Dropped+out.Unsent > 0 || out.Sent != out.Chosen || out.Steps < 80 || out.StepsSource != step.Found || out.FirstTrace != oteltest.Upstream || out.Warnings() != nil {
					t.Errorf("%+v", out)
				}
				s.Stop()
				lines, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				spans := oteltest.Parse(t, lines)
				if len(spans) != out.Spans {
					t.Errorf("%d spans arrived, of %d", len(spans), out.Spans)
				}
				roots := checkLive(t, spans, r)
				why, tenth := map[string]int{}, 0
				for _, root := range roots {
					kind := root.Attrs["acl.sampled"].(string)
					why[kind]++
					if root.Attrs["acl.step"].(int64)%10 == 0 {
						tenth++ // whichever reason: on a busy machine many are slow
					}
					if root.Trace != oteltest.Upstream || root.Parent != oteltest.Caller || root.Attrs["acl.layout"] != layout || root.Attrs["acl.step.source"] != "found" {
						t.Errorf("root %+v", root)
					}
					if entries, ok := root.Attrs["acl.critical_path"].([]any); !ok || len(entries) == 0 || len(entries) > 5 {
						t.Errorf("critical path %v", root.Attrs["acl.critical_path"])
					}
					if kind == "sampled" && root.Attrs["acl.step"].(int64)%10 != 0 || kind == "slow" && root.End-root.Start < 50e6 {
						t.Errorf("%s: %+v", kind, root)
					}
				}
				critical := 0
				for _, s := range spans {
					if ns, ok := s.Attrs["acl.critical_ns"].(int64); ok && ns > 0 && ns <= s.End-s.Start {
						critical++
					} else if ok {
						t.Errorf("%d ns on the critical path: %+v", ns, s)
					}
				}
				if critical < len(roots) {
					t.Errorf("%d spans on critical paths of %d roots", critical, len(roots))
				}
				// Of the last 80 or more steps, 17 divides four or five numbers, and 40 at least one.
				if len(roots) != out.Chosen || why["error"] < 3 || why["slow"] < 1 || tenth < 6 {
					t.Errorf("%d roots: %v, of %+v", len(roots), why, out)
				}
			})
		}
	}
}

// With a marker, steps are numbered as by --steps: the first marker ends step 0.
func TestLiveStepMarker(t *testing.T) {
	s, url, file := oteltest.StartCollector(t, "file")
	l, r, _ := serve(t, serving{1, 25, 5, 0, 0, 0}, Options{Spans: true, Every: 1, StepMarker: "aclrtMemcpy", Layout: spans.Lanes, Endpoint: url[endpoint.GRPC], Protocol: endpoint.GRPC}, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}})
	same(t, l, r)
	out, _ := l.Result()
	if out.Steps != 24 || out.Sent != 24 || out.StepsSource != step.ByMarker {
		t.Errorf("%+v", out)
	}
	s.Stop()
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	spans := oteltest.Parse(t, lines)
	for i, root := range checkLive(t, spans, r) {
		launches := 0
		for _, s := range spans {
			if s.Trace == root.Trace && s.Attrs["code.function.name"] == "aclrtLaunchKernelWithHostArgs" {
				launches++
			}
		}
		if launches != 5 || root.Attrs["acl.step"].(int64) != int64(i)+1 || root.Attrs["acl.step.source"] != "told" {
			t.Errorf("step %d has %d launches: %+v", i, launches, root)
		}
	}
}

// In a real Jaeger, a request from elsewhere and its device work form one trace.
func TestLiveRequestsInJaeger(t *testing.T) {
	j := oteltest.StartJaeger(t)
	l, r, _ := serve(t, serving{2, 12, 6, 5, 0, 1}, Options{Spans: true, Endpoint: j.GRPC, Protocol: endpoint.GRPC}, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}})
	same(t, l, r)
	out, _ := l.Result()
	if out.Dropped+out.Unsent > 0 || out.Sent != out.Chosen {
		t.Fatalf("%+v", out)
	}
	chosen := 0
	for thread := 1; thread <= 2; thread++ {
		for step := 1; step <= 12; step++ {
			id := fmt.Sprintf("%016x%016x", thread, step)
			fails := step > 1 && (step-1)%5 == 0
			if !fails && step%2 == 0 { // not sampled by the caller
				if resp, err := http.Get(j.Query + "/api/v3/traces/" + id); err == nil {
					if resp.StatusCode == http.StatusOK {
						t.Errorf("%s is there", id)
					}
					resp.Body.Close()
				}
				continue
			}
			chosen++
			spans := j.Spans(t, id)
			roots := checkLive(t, spans, r)
			if len(roots) != 1 || roots[0].Name != "request" || roots[0].Parent != "0000000000000abc" {
				t.Fatalf("trace %s has the roots %+v", id, roots)
			}
			kinds := map[string]int{}
			threads := map[any]bool{}
			for _, s := range spans {
				kinds[s.Name]++
				if s.Attrs["thread.id"] != nil {
					threads[s.Attrs["thread.id"]] = true
				}
			}
			if kinds["launch add"] != 6 || kinds["add (not measured)"] != 6 || len(threads) != 1 {
				t.Errorf("trace %s: %v on threads %v", id, kinds, threads)
			}
			if want := map[bool]string{true: "error", false: "requested"}[fails]; roots[0].Attrs["acl.sampled"] != want {
				t.Errorf("trace %s: %v", id, roots[0].Attrs)
			}
		}
	}
	if out.Chosen < chosen { // steps with an error are chosen too
		t.Errorf("%d requests were chosen, want %d", out.Chosen, chosen)
	}
}

// A receiver that is missing, silent or slow only loses its data, and the loss is reported.
func TestLiveReceiversFail(t *testing.T) {
	hole := func(t *testing.T) string { // accepts connections and never answers
		n, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return "http://" + n.Addr().String()
	}
	slow := func(t *testing.T) string {
		n, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(testenv.Patience):
			case <-r.Context().Done():
			}
		})}
		go s.Serve(n)
		t.Cleanup(func() { s.Close() })
		return "http://" + n.Addr().String()
	}
	unreached = true
	defer func() { unreached = false }()
	for name, where := range map[string]func(t *testing.T) string{"nobody": func(*testing.T) string { return "http://127.0.0.1:1" }, "hole": hole, "slow": slow} {
		for _, protocol := range []string{endpoint.GRPC, endpoint.HTTP} {
			t.Run(name+" "+protocol[:4], func(t *testing.T) {
				t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
				t.Setenv("OTEL_METRIC_EXPORT_TIMEOUT", "200")
				l, r, res := serve(t, serving{1, 60, 30, 0, 25, 0}, Options{Metrics: true, Spans: true, Every: 1, Endpoint: where(t), Protocol: protocol, Prometheus: "127.0.0.1:0"}, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}})
				same(t, l, r)
				out, _ := l.Result()
				if res.Lost != 0 || out.Pushed != 0 || out.PushesFailed == 0 || out.Sent != 0 || out.Chosen < 10 || out.Unsent+out.Dropped != out.Chosen || len(out.Warnings()) < 2 {
					t.Errorf("%+v: %q", out, out.Warnings())
				}
			})
		}
	}
}

// The receivers that refuse are named, each once.
func TestTryNamesReceiversThatRefuse(t *testing.T) {
	const nowhere = "http://127.0.0.1:1"
	for want, o := range map[string]Options{
		"":                             {Prometheus: "127.0.0.1:0"},
		"metrics " + nowhere:           {Metrics: true, Endpoint: nowhere},
		"spans " + nowhere:             {Spans: true, Every: 1, Endpoint: nowhere},
		"metrics and spans " + nowhere: {Metrics: true, Spans: true, Every: 1, Endpoint: nowhere},
		"metrics " + nowhere + "/v1/metrics, spans " + nowhere + "/v1/traces": {Metrics: true, Spans: true, Every: 1, Endpoint: nowhere, Protocol: endpoint.HTTP},
	} {
		o.Model = acl.Model
		l, err := New(&o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range l.Try(t.Context()) {
			got = append(got, r.What+" "+r.To)
			if !errors.Is(r.Err, syscall.ECONNREFUSED) {
				t.Errorf("%+v", r)
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%q, want %q", text, want)
		}
		l.Close()
	}
}

// Regression: an address without a host served metrics to every machine that could reach this one.
func TestMetricsAreServedToThisMachine(t *testing.T) {
	l, err := New(&Options{Model: acl.Model, Prometheus: ":0"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, _, err := net.SplitHostPort(l.Address())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		t.Errorf("served at %s, %v", l.Address(), err)
	}
}

// Invalid options fail before the program starts.
func TestLiveRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, o := range map[string]Options{
		"address already in use": {Prometheus: taken.Addr().String()},
		"want a URL":             {Metrics: true, Endpoint: "grpc://collector"},
		"want nested":            {Spans: true, Layout: "flat"},
		"neither grpc":           {Spans: true, Protocol: "smoke"},
	} {
		o.Model = acl.Model
		if _, err := New(&o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "soon")
	if _, err := New(&Options{Model: acl.Model, Metrics: true}); err == nil || !strings.Contains(err.Error(), "OTEL_METRIC_EXPORT_INTERVAL") {
		t.Error(err)
	}
}

// An unreachable receiver is retried at growing intervals up to one minute, a reachable one at the configured interval.
func TestPushPauses(t *testing.T) {
	gone := errors.New("gone")
	p := &metricPusher{interval: 10 * time.Second}
	var got []time.Duration
	pause := p.interval
	for _, err := range []error{nil, gone, gone, gone, gone, nil, gone} {
		pause = p.after(pause, err)
		got = append(got, pause/time.Second)
	}
	if want := []time.Duration{10, 20, 40, 60, 60, 10, 20}; !slices.Equal(got, want) {
		t.Errorf("%d seconds, want %d", got, want)
	}
	if p.interval = time.Hour; p.after(time.Hour, gone) != time.Hour {
		t.Error("what is pushed once an hour is pushed more often when that fails")
	}
}
