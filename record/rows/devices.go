package rows

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A deviceFact says which output of a function is a fact about a device.
type deviceFact struct {
	*api.DeviceFact
	value, device, selector int // parameters, -1 for none
}

// deviceFacts returns a function's facts.
func deviceFacts(m *api.Model, f *api.Func) (all []deviceFact) {
	for i := range m.DeviceFacts {
		d := &m.DeviceFacts[i]
		if d.Function == f.Name {
			all = append(all, deviceFact{d, f.Param(d.Value), f.Param(d.Device), f.Param(d.Selector)})
		}
	}
	return all
}

// selectsDevice returns the parameter with the device number that a call selects, -1 if it selects a context, or nothing.
func selectsDevice(f *api.Func) int {
	if f.Selects >= 0 && f.Params[f.Selects].Role == api.Value {
		return int(f.Selects)
	}
	return -1
}

// noDevice means that the thread's device is unknown.
const noDevice = -1

// argument returns a parameter's first word, as a 32-bit number.
func argument(f *api.Func, c *format.Call, param int) int {
	return int(int32(c.Args[f.Params[param].Word]))
}

// learnDevice keeps the facts about devices in a successful call.
func (b *Builder) learnDevice(r *rules, t *thread, c *format.Call) error {
	if r.fn.Selects >= 0 {
		if t.device = noDevice; r.selects >= 0 {
			t.device = argument(r.fn, c, r.selects)
		}
	}
	for i := range r.facts {
		d := &r.facts[i]
		number := t.device
		if d.device >= 0 {
			number = argument(r.fn, c, d.device)
		}
		if number < 0 || d.selector >= 0 && uint64(argument(r.fn, c, d.selector)) != d.Selects || d.Unless != "" && b.Processes.has(t.process, d.Unless) {
			continue
		}
		if err := b.describe(t.process, number, func(p *format.ProcessDevice) { d.set(p, c) }); err != nil {
			return fmt.Errorf("device %d: %w", number, err)
		}
	}
	return nil
}

// set sets the fact's field from a call's output. It does nothing if the output is missing.
func (d *deviceFact) set(p *format.ProcessDevice, c *format.Call) {
	number, known := uint64(0), false
	for _, o := range c.Outs {
		if int(o.Param) == d.value {
			number, known = o.Value, true
		}
	}
	var bytes []byte
	for i := range c.Data {
		if int(c.Data[i].Param) == d.value && c.Data[i].Status == format.Whole {
			bytes = c.Data[i].Bytes
		}
	}
	switch {
	case d.Fact == "uuid" && len(bytes) == 16:
		p.UUID = fmt.Sprintf("%s%x-%x-%x-%x-%x", d.Prefix, bytes[:4], bytes[4:6], bytes[6:8], bytes[8:10], bytes[10:])
	case d.Fact == "pci" && bytes != nil:
		text, _, _ := strings.Cut(string(bytes), "\x00")
		p.PCI = strings.ToValidUTF8(text, "\uFFFD")
	case d.Fact == "host_number" && known:
		n := int(int32(number))
		p.HostNumber = &n
	case d.Fact == "memory_bytes" && known:
		p.MemoryBytes = number
	}
}

// maxDevices limits the devices that a process describes: their numbers are the program's.
const maxDevices = 1024

// describe changes a device of a process, if its facts are new.
func (b *Builder) describe(process uint32, number int, change func(*format.ProcessDevice)) error {
	row := &b.Processes.rows[process]
	i, found := slices.BinarySearchFunc(row.Devices, number, func(d format.ProcessDevice, n int) int { return cmp.Compare(d.Number, n) })
	if !found && len(row.Devices) == maxDevices {
		return nil
	}
	d := format.ProcessDevice{Number: number}
	if found {
		d = row.Devices[i]
	}
	before := d
	if change(&d); reflect.DeepEqual(d, before) {
		return nil
	}
	devices := slices.Clone(row.Devices) // the writer may hold the old ones
	if found {
		devices[i] = d
	} else {
		devices = slices.Insert(devices, i, d)
	}
	row.Devices = devices
	b.follower.Device(process, &d)
	return b.seg.W.UpdateProcess(process, *row)
}
