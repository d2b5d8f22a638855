package otlp

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// DeviceAs says how spans and metrics show devices.
type DeviceAs string

const (
	// DeviceAsService makes each device of a process a service, named after the process's service: train/npu:0.
	DeviceAsService DeviceAs = "service"
	// DeviceAsAttribute puts the device's tasks into the process's service, with the device as an attribute.
	DeviceAsAttribute DeviceAs = "attribute"
)

// A deviceKey identifies a device. Processes count their devices separately.
type deviceKey struct{ process, number int }

// A Device is a device of one process.
type Device struct {
	*Resource                      // for its spans and metrics
	Points    []attribute.KeyValue // for its metrics' data points
	Span      []byte               // encoded attributes for its spans, if the resource does not have them
	key       deviceKey
}

// Device returns a device of a process. number is its number in the process or timeline.NoDevice.
func (x *Resources) Device(process uint32, number int) *Device {
	key := deviceKey{x.Process(process), number}
	if key.process > maxProcesses && x.Hosts[key.process] == x.Hosts[maxProcesses] {
		key.process = maxProcesses
	}
	if d := x.devices[key]; d != nil {
		return d
	}
	own := x.deviceAttributes(key)
	d := &Device{key: key}
	for _, a := range own {
		switch string(a.Key) {
		case string(semconv.HwIDKey), x.Keys[KeyDevice], x.Keys[KeyDeviceHostNumber], x.Keys[KeyDevicePCI], x.Keys[KeyDeviceUUID]:
			d.Points = append(d.Points, a)
		}
	}
	if p := &x.Procs[key.process]; x.as == DeviceAsService {
		attrs := []attribute.KeyValue{semconv.ServiceName(x.names[key.process] + "/" + timeline.DeviceName(x.model, number))}
		if p.PID != 0 {
			attrs = append(attrs, semconv.ProcessPID(p.PID))
		}
		d.Resource = x.resource(slices.Concat(attrs, own, x.surroundings(p))...)
	} else {
		d.Resource = x.Hosts[key.process]
		for _, a := range d.Points {
			if a.Key == semconv.HwIDKey || string(a.Key) == x.Keys[KeyDevice] {
				d.Span = appendAttribute(d.Span, SpanAttributes, a)
			}
		}
	}
	x.devices[key] = d
	return d
}

// Facts returns the recorded facts about a device, which may arrive after its first task.
func (x *Resources) Facts(d *Device) format.ProcessDevice {
	for _, f := range x.Procs[d.key.process].Devices {
		if f.Number == d.key.number {
			return f
		}
	}
	return format.ProcessDevice{Number: d.key.number}
}

// Learn replaces the facts about a device of a process in a recording in progress.
func (x *Resources) Learn(process uint32, f *format.ProcessDevice) {
	p := &x.Procs[x.Process(process)]
	p.Devices = append(slices.DeleteFunc(slices.Clone(p.Devices), func(d format.ProcessDevice) bool { return d.Number == f.Number }), *f)
}

// deviceAttributes returns the attributes that describe a device, hw.id first.
func (x *Resources) deviceAttributes(key deviceKey) []attribute.KeyValue {
	f := x.Facts(&Device{key: key})
	f.UUID, f.PCI = short(f.UUID), short(f.PCI)
	name := timeline.DeviceName(x.model, key.number)
	pci := strings.ToUpper(f.PCI) // as the exporters of the vendors print it
	id := cmp.Or(f.UUID, pci)
	simulated := x.Meta.Simulated || x.Procs[key.process].Simulated
	if simulated {
		id = x.dieID(key)
	}
	if id == "" && f.HostNumber != nil {
		id = timeline.DeviceName(x.model, *f.HostNumber)
	}
	attrs := []attribute.KeyValue{
		semconv.HwID(cmp.Or(id, name)),
		semconv.HwTypeGpu, // the nearest type in the conventions
		semconv.HwName(name),
		semconv.HwModel(x.Meta.Device.Name),
		semconv.HwDriverVersion(x.Meta.Device.DriverVersion),
	}
	if f.UUID != "" {
		attrs = append(attrs, attribute.String(x.Keys[KeyDeviceUUID], f.UUID))
	}
	if pci != "" {
		attrs = append(attrs, attribute.String(x.Keys[KeyDevicePCI], pci))
	}
	if key.number != timeline.NoDevice {
		attrs = append(attrs, attribute.Int(x.Keys[KeyDevice], key.number))
	}
	if f.HostNumber != nil {
		attrs = append(attrs, attribute.Int(x.Keys[KeyDeviceHostNumber], *f.HostNumber))
	}
	if simulated {
		return append(attrs, attribute.Bool(x.Keys[KeySimulated], true))
	}
	return append(attrs, semconv.HwVendor(x.model.Accelerator.Vendor))
}

// dieID makes up the die id of a simulated device, in the form that npu-exporter prints. It is the same in each recording of
// a host.
func (x *Resources) dieID(key deviceKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "acltrace simulator %s %d", cmp.Or(x.Procs[key.process].Host, x.Meta.Host), key.number))
	return fmt.Sprintf("%X-%X-%X-%X-%X", sum[:4], sum[4:8], sum[8:12], sum[12:16], sum[16:20])
}
