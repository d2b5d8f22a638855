package otelexport

import (
	"fmt"
	"path/filepath"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Keys of the semantic conventions, as strings.
var (
	keyThreadID   = string(semconv.ThreadIDKey)
	keyThreadName = string(semconv.ThreadNameKey)
	keyPID        = string(semconv.ProcessPIDKey)
)

// maxArgs bounds what is kept of a command line, which every request repeats.
const maxArgs = 16 << 10

// resources are the processes and devices of a recording.
type resources struct {
	meta    *format.Meta
	kind    api.Accelerator
	env     environment
	procs   []format.Process     // at least one
	hosts   []*resource          // by process
	devices map[string]*resource // by name
	made    int                  // resources so far
}

func newResources(r *format.Reader, m *api.Model) (*resources, error) {
	x := &resources{meta: r.Meta(), kind: m.Accelerator, procs: r.Processes(), devices: map[string]*resource{}}
	if len(x.procs) == 0 {
		x.procs = []format.Process{{Argv: x.meta.Argv}}
	}
	var err error
	if x.env, err = readEnvironment(); err != nil {
		return nil, err
	}
	x.hosts = x.hostResources()
	return x, nil
}

// process is the row of a process.
func (x *resources) process(p uint32) int {
	if int(p) >= len(x.procs) {
		return 0
	}
	return int(p)
}

// hostResources returns a resource for each process.
func (x *resources) hostResources() []*resource {
	var out []*resource
	for i, service := range x.serviceNames() {
		out = append(out, x.host(&x.procs[i], service))
	}
	return out
}

// host makes the resource of a process.
func (x *resources) host(p *format.Process, service string) *resource {
	attrs := []attribute.KeyValue{
		semconv.ServiceName(service),
		semconv.ServiceInstanceID(x.meta.UUID),
		semconv.HostName(x.meta.Host),
	}
	if p.PID != 0 {
		attrs = append(attrs, semconv.ProcessPID(int(p.PID)))
	}
	if p.Exe != "" {
		attrs = append(attrs, semconv.ProcessExecutableName(filepath.Base(p.Exe)), semconv.ProcessExecutablePath(p.Exe))
	}
	if len(p.Argv) > 0 {
		list, n := []string{}, 0
		for j, v := range p.Argv {
			if n += len(v); n > maxArgs {
				list = append(list, fmt.Sprintf("(%d more)", len(p.Argv)-j))
				break
			}
			list = append(list, v)
		}
		attrs = append(attrs, semconv.ProcessCommandArgs(list...))
	}
	return x.resource(append(attrs, x.env.attributes...)...)
}

// resource makes the next resource.
func (x *resources) resource(attrs ...attribute.KeyValue) *resource {
	x.made++
	return newResource(x.made-1, attrs...)
}

// device returns the resource of a device, which processes share.
func (x *resources) device(number int) *resource {
	name, id := x.kind.Kind, ""
	if name == "" {
		name = "device"
	}
	if number != timeline.NoDevice {
		id = strconv.Itoa(number)
		name += ":" + id
	}
	if r := x.devices[name]; r != nil {
		return r
	}
	attrs := []attribute.KeyValue{
		semconv.ServiceName(name),
		semconv.ServiceInstanceID(x.meta.UUID),
		semconv.HostName(x.meta.Host),
		semconv.HwID(id),
		semconv.HwTypeGpu,
		semconv.HwName(x.meta.Device.Name),
		semconv.HwDriverVersion(x.meta.Device.DriverVersion),
	}
	if x.meta.Simulated {
		attrs = append(attrs, attribute.Bool("acl.simulated", true))
	} else {
		attrs = append(attrs, semconv.HwVendor(x.kind.Vendor))
	}
	r := x.resource(append(attrs, x.env.attributes...)...)
	x.devices[name] = r
	return r
}

// serviceNames returns a short name for each process: that of its program, or the one that the environment gives, with a number where
// several share it.
func (x *resources) serviceNames() []string {
	names := make([]string, len(x.procs))
	count := map[string]int{}
	ranks := map[int]bool{}
	for i := range x.procs {
		p := &x.procs[i]
		switch {
		case x.env.service != "":
			names[i] = x.env.service
		case p.Exe != "":
			names[i] = filepath.Base(p.Exe)
		case len(p.Argv) > 0:
			names[i] = filepath.Base(p.Argv[0])
		default:
			names[i] = "program"
		}
		count[names[i]]++
		ranks[p.Rank] = true
	}
	for i, n := range names {
		if count[n] == 1 {
			continue
		}
		number := i
		if len(ranks) == len(x.procs) {
			number = x.procs[i].Rank
		}
		names[i] = fmt.Sprintf("%s:%d", n, number)
	}
	return names
}
