package otlp

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
)

// Processes beyond the limit share one resource.
func TestProcessesOverTheLimitShareAResource(t *testing.T) {
	x, err := NewLiveResources(acl.Model, "")
	if err != nil {
		t.Fatal(err)
	}
	x.Meta = &format.Meta{}
	for i := range 3 * maxProcesses {
		x.Add(&format.Process{PID: 1000 + i, Exe: "/bin/worker"})
	}
	different := map[*Resource]bool{}
	for _, h := range x.Hosts {
		different[h] = true
	}
	devices := map[*Device]bool{}
	for i := range x.Hosts {
		devices[x.Device(uint32(i), 0)] = true
	}
	if len(devices) != maxProcesses+1 {
		t.Errorf("%d devices", len(devices))
	}
	if len(different) != maxProcesses+1 || x.Procs[len(x.Procs)-1].PID != 0 {
		t.Errorf("%d resources of processes", len(different))
	}
}

// Long attributes in a trace do not make every request long.
func TestResourcesAreShort(t *testing.T) {
	x, err := NewLiveResources(acl.Model, "")
	if err != nil {
		t.Fatal(err)
	}
	x.Meta = &format.Meta{}
	long := strings.Repeat("x", 1<<20)
	x.Add(&format.Process{PID: 1, Resource: map[string]string{"a": "b", "c": long, "service.name": long}, Devices: []format.ProcessDevice{{UUID: long, PCI: long}}})
	if n := len(x.Hosts[0].wire) + len(x.Device(0, 0).wire); n > 4<<10 {
		t.Errorf("resources of %d bytes", n)
	}
}
