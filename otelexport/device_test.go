package otelexport

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

const (
	testUUID = "0f0e0d0c-0b0a-0908-0706-050403020100"
	testPCI  = "0000:db:00.0" // exporters print capital letters
	aicore   = 507015         // ACL_ERROR_RT_AICORE_EXCEPTION
)

// devices returns a trace of two processes with a device 0 each. The first process learned its identity and its memory, the
// second one only its number on the host. Its stream fails twice, and both faults are reported several times.
func devices(t *testing.T, simulated bool) *timeline.Timeline {
	t.Helper()
	five := 5
	b := testtrace.New(t)
	b.Meta(func(m *format.Meta) {
		m.Simulated = simulated
		m.Device = format.Device{Name: "Ascend910B3", DriverVersion: "25.2.0"}
	})
	b.Process(0, format.Process{PID: 4001, Exe: "/opt/app/train", Resource: map[string]string{"container.id": "c0ffee", "k8s.namespace.name": "ml", "k8s.pod.name": "train-0", "host.id": "h1", "service.name": "trainer"},
		Devices: []format.ProcessDevice{{Number: 0, UUID: testUUID, PCI: testPCI, MemoryBytes: 64 << 20}}})
	b.Process(1, format.Process{PID: 4002, Exe: "/opt/app/loader", Devices: []format.ProcessDevice{{Number: 0, HostNumber: &five}}})
	for i, thread := range []uint32{0, 2} {
		at, stream := int64(1_000*i), uint64(testtrace.StreamA+i)
		b.Call(thread, at+10, at+20, "aclrtSetDevice", testtrace.A(0))
		b.Call(thread, at+30, at+40, "aclrtMalloc", testtrace.A(0x7000, 16<<20, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
		b.Call(thread, at+50, at+60, "aclrtCreateStream", testtrace.A(0x7100), testtrace.Outs("stream", stream))
		b.Call(thread, at+70, at+80, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, stream))
		if i == 0 {
			b.Call(thread, at+100, at+110, "aclrtSynchronizeStream", testtrace.A(stream))
			continue
		}
		for range 2 {
			b.Call(thread, at+100, at+110, "aclrtSynchronizeStream", testtrace.A(stream), testtrace.Fails(aicore))
			b.Call(thread, at+120, at+130, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, stream), testtrace.Fails(aicore))
			b.Call(thread, at+140, at+150, "aclrtSynchronizeDevice", nil)
			at += 100
		}
		b.Call(thread, at+200, at+210, "aclrtSynchronizeStream", testtrace.A(stream), testtrace.Fails(100_000)) // an invalid call
	}
	return b.Load()
}

// value is a metric value as a collector has it.
type value struct {
	Resource, Attrs map[string]any
	Value           float64
}

// deviceMetrics returns the values of hw.* metrics in a collector's file, by name and service.
func deviceMetrics(t *testing.T, file string) map[string]value {
	t.Helper()
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]value{}
	for line := range bytes.Lines(lines) {
		md, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, rm := range md.ResourceMetrics().All() {
			for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
				var points pmetric.NumberDataPointSlice
				switch m.Type() {
				case pmetric.MetricTypeSum:
					points = m.Sum().DataPoints()
				case pmetric.MetricTypeGauge:
					points = m.Gauge().DataPoints()
				default:
					continue
				}
				for _, p := range points.All() {
					v := value{rm.Resource().Attributes().AsRaw(), p.Attributes().AsRaw(), p.DoubleValue()}
					if p.ValueType() == pmetric.NumberDataPointValueTypeInt {
						v.Value = float64(p.IntValue())
					}
					out[m.Name()+" "+text(rm.Resource().Attributes(), "service.name")+text(p.Attributes(), "error.type")] = v
				}
			}
		}
	}
	return out
}

func text(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// Device resources and metrics follow the conventions: an id that is unique on the host, usage, limit and utilization of
// memory, and one error a fault.
func TestDeviceConventions(t *testing.T) {
	tl := devices(t, false)
	for _, as := range []DeviceAs{DeviceAsService, DeviceAsAttribute} {
		t.Run(string(as), func(t *testing.T) {
			s, url, file := oteltest.StartCollector(t, "file")
			if _, err := SendMetrics(t.Context(), tl.Reader, tl.Model, &Options{Endpoint: url[GRPC], Protocol: GRPC, DeviceAs: as}); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			got := deviceMetrics(t, file)
			first, second := "trainer", "loader"
			if as == DeviceAsService {
				first, second = "trainer/npu:0", "loader/npu:0"
			}
			points := map[string]any{"hw.id": testUUID, "acl.device": int64(0), "acl.device.uuid": testUUID, "acl.device.pci": "0000:DB:00.0"}
			other := map[string]any{"hw.id": "npu:5", "acl.device": int64(0), "acl.device.host_number": int64(5)}
			for _, c := range []struct {
				key    string
				value  float64
				points map[string]any
			}{
				{"hw.gpu.memory.usage " + first, 16 << 20, points},
				{"hw.gpu.memory.limit " + first, 64 << 20, points},
				{"hw.gpu.memory.utilization " + first, 0.25, points},
				{"acl.memory.peak " + first, 16 << 20, points},
				{"hw.gpu.memory.usage " + second, 16 << 20, other},
			} {
				if d := cmp.Diff(c.points, got[c.key].Attrs); got[c.key].Value != c.value || d != "" {
					t.Errorf("%s is %v (-want +got):\n%s", c.key, got[c.key].Value, d)
				}
			}
			if _, known := got["hw.gpu.memory.limit "+second]; known {
				t.Error("a limit that the runtime has not reported")
			}
			faults := got["hw.errors "+second+acl.Model.ErrorName(aicore)]
			want := map[string]any{"hw.id": "npu:5", "hw.type": "gpu", "acl.device": int64(0), "acl.device.host_number": int64(5), "error.type": acl.Model.ErrorName(aicore)}
			if d := cmp.Diff(want, faults.Attrs); faults.Value != 2 || d != "" {
				t.Errorf("%v faults (-want +got):\n%s", faults.Value, d)
			}
			around := map[string]any{"service.name": first, "service.instance.id": testtrace.UUID, "host.name": "node7", "process.pid": int64(4001),
				"container.id": "c0ffee", "k8s.namespace.name": "ml", "k8s.pod.name": "train-0", "host.id": "h1"}
			if as == DeviceAsService {
				for k, v := range map[string]any{"hw.id": testUUID, "hw.type": "gpu", "hw.name": "npu:0", "hw.model": "Ascend910B3", "hw.vendor": "Huawei", "hw.driver_version": "25.2.0",
					"acl.device": int64(0), "acl.device.uuid": testUUID, "acl.device.pci": "0000:DB:00.0"} {
					around[k] = v
				}
			} else {
				around["process.executable.name"], around["process.executable.path"] = "train", "/opt/app/train"
			}
			if d := cmp.Diff(around, got["hw.gpu.memory.usage "+first].Resource); d != "" {
				t.Errorf("resource (-want +got):\n%s", d)
			}
		})
	}
}

// A synchronization that is not selected ends a fault too: the selected calls report two.
func TestFaultsOfSelection(t *testing.T) {
	tl := devices(t, false)
	s, url, file := oteltest.StartCollector(t, "file")
	if _, err := SendMetrics(t.Context(), tl.Reader, tl.Model, &Options{Endpoint: url[GRPC], Protocol: GRPC, Select: &timeline.Selection{Failed: true}}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if n := deviceMetrics(t, file)["hw.errors loader/npu:0"+acl.Model.ErrorName(aicore)].Value; n != 2 {
		t.Errorf("%v faults", n)
	}
}

// Services in a real Jaeger are grouped by program. With the device as an attribute there are only programs.
func TestDeviceAs(t *testing.T) {
	tl := devices(t, false)
	for as, want := range map[DeviceAs][]string{DeviceAsService: {"loader", "loader/npu:0", "trainer", "trainer/npu:0"}, DeviceAsAttribute: {"loader", "trainer"}} {
		j := oteltest.StartJaeger(t)
		res, err := send(t.Context(), tl, &Options{Endpoint: j.GRPC, Protocol: GRPC, DeviceAs: as})
		if err != nil {
			t.Fatal(err)
		}
		var services struct{ Data []string }
		if err := json.Unmarshal(oteltest.Get(t, j.Query+"/api/services"), &services); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(services.Data); !slices.Equal(services.Data, want) {
			t.Errorf("device as %s: services %q, want %q", as, services.Data, want)
		}
		tasks := 0
		for _, s := range j.Spans(t, res.FirstTraceID) {
			if s.Attrs["acl.task"] == nil || s.Kind != "Consumer" {
				continue
			}
			tasks++
			where := s.Resource
			if as == DeviceAsAttribute {
				where = s.Attrs
			}
			if id := where["hw.id"]; id != testUUID && id != "npu:5" || where["acl.device"] != int64(0) {
				t.Errorf("device as %s: task %v of %v", as, s.Attrs, s.Resource)
			}
		}
		if tasks != 2 {
			t.Errorf("%d tasks", tasks)
		}
	}
	if _, err := send(t.Context(), tl, &Options{DeviceAs: "span"}); err == nil || err.Error() != `device as "span": want service or attribute` {
		t.Error(err)
	}
}

// A simulated device has a made-up die id, which two recordings on a host share.
func TestSimulatedDieID(t *testing.T) {
	ids := map[any]bool{}
	for range 2 {
		spans, _ := written(t, devices(t, true), nil)
		for _, s := range spans {
			if id := s.Resource["hw.id"]; id != nil {
				ids[id] = true
			}
		}
	}
	for id := range ids {
		if len(ids) != 1 || !dieID.MatchString(id.(string)) {
			t.Errorf("ids %v", ids)
		}
	}
	if len(ids) == 0 {
		t.Error("no device has an id")
	}
}

// dieID is the form of the label vdie_id of npu-exporter.
var dieID = regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{8}){4}$`)
