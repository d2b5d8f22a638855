package otlp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	sdkresource "go.opentelemetry.io/otel/sdk/resource"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// maxArgs limits the command line and the recorded attributes, because every request repeats them.
const maxArgs = 16 << 10

// short limits a text in a trace that many spans or names contain.
func short(s string) string { return s[:min(len(s), 256)] }

// A Resource is the process or device that spans belong to.
type Resource struct {
	Index int // its group in a batch
	Attrs []attribute.KeyValue
	// wire is the encoded ResourceSpans up to the length of its ScopeSpans.
	wire []byte
}

// newResource encodes the attributes. It skips empty values and repeated keys.
func newResource(index int, attrs ...attribute.KeyValue) *Resource {
	r := &Resource{Index: index}
	var b []byte
	seen := map[attribute.Key]bool{}
	for _, a := range attrs {
		if seen[a.Key] || a.Value.Type() == attribute.STRING && a.Value.AsString() == "" {
			continue
		}
		seen[a.Key] = true
		r.Attrs = append(r.Attrs, a)
		b = appendAttribute(b, resourceAttributes, a)
	}
	r.wire = append(putLen(nil, resourceSpansResource, len(b)), b...)
	return r
}

// environment holds the resource variables.
type environment struct {
	service    string
	attributes []attribute.KeyValue
}

func readEnvironment() (environment, error) {
	var e environment
	r, err := sdkresource.New(context.Background(), sdkresource.WithFromEnv())
	if err != nil {
		return e, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES %q: %w", os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), err)
	}
	e.attributes = r.Attributes()
	if v, ok := r.Set().Value(semconv.ServiceNameKey); ok {
		e.service = v.AsString()
	}
	return e, nil
}

// Resources are a recording's processes and devices.
type Resources struct {
	Meta    *format.Meta
	Keys    *Keys
	model   *api.Model
	env     environment
	Procs   []format.Process // at least one
	Hosts   []*Resource      // by process
	names   []string         // service names by process
	as      DeviceAs
	devices map[deviceKey]*Device
	made    int // resources made
}

// NewResources returns the resources of a trace file.
func NewResources(r *format.Reader, m *api.Model, as DeviceAs) (*Resources, error) {
	x, err := NewLiveResources(m, as)
	if err != nil {
		return nil, err
	}
	x.Meta, x.Procs = r.Meta(), r.Processes()
	if len(x.Procs) == 0 {
		x.Procs = []format.Process{{Argv: x.Meta.Argv}}
	}
	for i, service := range x.serviceNames() {
		x.addHost(&x.Procs[i], service)
	}
	return x, nil
}

// maxProcesses limits the processes with their own resource while recording.
const maxProcesses = 256

// NewLiveResources returns empty resources for a recording in progress. Add each process as it starts.
func NewLiveResources(m *api.Model, as DeviceAs) (*Resources, error) {
	env, err := readEnvironment()
	if err != nil {
		return nil, err
	}
	if as == "" {
		as = DeviceAsService
	}
	if as != DeviceAsService && as != DeviceAsAttribute {
		return nil, fmt.Errorf("device as %q: want %s or %s", as, DeviceAsService, DeviceAsAttribute)
	}
	return &Resources{Keys: NewKeys(m), model: m, env: env, as: as, devices: map[deviceKey]*Device{}}, nil
}

// Add adds the next process. Processes beyond maxProcesses share one resource.
func (x *Resources) Add(p *format.Process) {
	x.Procs = append(x.Procs, *p)
	n := len(x.Procs) - 1
	switch {
	case n < maxProcesses:
		x.addHost(p, x.serviceNames()[n])
	case n == maxProcesses:
		x.Procs[n] = format.Process{}
		x.addHost(&x.Procs[n], "other processes")
	default:
		x.Procs[n] = format.Process{}
		x.Hosts, x.names = append(x.Hosts, x.Hosts[maxProcesses]), append(x.names, x.names[maxProcesses])
	}
}

// Extra returns the attributes from OTEL_RESOURCE_ATTRIBUTES.
func (x *Resources) Extra() []attribute.KeyValue { return x.env.attributes }

// Process returns a process's index in Procs and Hosts.
func (x *Resources) Process(p uint32) int {
	if int(p) >= len(x.Procs) {
		return 0
	}
	return int(p)
}

// addHost makes a process's resource.
func (x *Resources) addHost(p *format.Process, service string) {
	attrs := []attribute.KeyValue{semconv.ServiceName(service)}
	if p.PID != 0 {
		attrs = append(attrs, semconv.ProcessPID(p.PID))
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
	x.Hosts, x.names = append(x.Hosts, x.resource(append(attrs, x.surroundings(p)...)...)), append(x.names, service)
}

// surroundings returns the attributes that a process shares with its devices. The recorded ones come before those of the
// environment of acltrace, which may run on another machine.
func (x *Resources) surroundings(p *format.Process) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	n := 0
	for _, key := range slices.Sorted(maps.Keys(p.Resource)) {
		if n += len(key) + len(p.Resource[key]); n > maxArgs {
			break // not made by a recorder
		}
		attrs = append(attrs, attribute.String(key, p.Resource[key]))
	}
	attrs = append(attrs, semconv.ServiceInstanceID(x.Meta.UUID), semconv.HostName(cmp.Or(p.Host, x.Meta.Host)))
	return append(attrs, x.env.attributes...)
}

// resource makes the next resource.
func (x *Resources) resource(attrs ...attribute.KeyValue) *Resource {
	x.made++
	return newResource(x.made-1, attrs...)
}

// serviceNames returns a service name for each process: OTEL_SERVICE_NAME of acltrace, else of the process, else the
// program's base name. Shared names get a number.
func (x *Resources) serviceNames() []string {
	names := make([]string, len(x.Procs))
	count := map[string]int{}
	ranks := map[int]bool{}
	for i := range x.Procs {
		p := &x.Procs[i]
		switch {
		case x.env.service != "":
			names[i] = x.env.service
		case p.Resource[string(semconv.ServiceNameKey)] != "":
			names[i] = short(p.Resource[string(semconv.ServiceNameKey)])
		default:
			names[i] = filepath.Base(p.Program())
		}
		count[names[i]]++
		ranks[p.Rank] = true
	}
	for i, n := range names {
		if count[n] == 1 {
			continue
		}
		number := i
		if len(ranks) == len(x.Procs) {
			number = x.Procs[i].Rank
		}
		names[i] = fmt.Sprintf("%s:%d", n, number)
	}
	return names
}
