package compile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline/access"
)

// A launch that repeats an earlier one has the same relocations and its own numbers. It is no repetition if an address among its arguments
// means another allocation, or if a number has become an address. On the default stream it is on the stream of the current device.
func TestRepeatedLaunches(t *testing.T) {
	const (
		stream, binaryHandle, function = 0x584000000010, 0x58a000000000, 0x58c000000000
		first, second, size, stack     = 0x124000000000, 0x124000100000, 1 << 16, 0x7ffdaea70000
		number                         = 0xabcd_0000_0000_0000
	)
	path := filepath.Join(t.TempDir(), "t.aclt")
	w, err := format.Create(path, &format.Meta{API: acl.Model.Name}, schema.Of(acl.Model), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Process(format.Process{PID: 1})
	_, _ = w.Thread(format.Thread{TID: 1})
	now := int64(1000)
	call := func(name string, outs []format.Out, data []format.Data, args ...uint64) uint64 {
		f := acl.Model.Lookup(name)
		c := format.Call{Func: uint16(f.ID), Start: now, End: now + 300, Args: make([]uint64, f.Words), Outs: outs, Data: data}
		copy(c.Args, args)
		for i := range c.Data {
			c.Data[i].Len = uint64(len(c.Data[i].Bytes))
		}
		now += 350
		i, err := w.Call(&c)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	out := func(param uint8, v uint64) []format.Out { return []format.Out{{Param: param, Value: v}} }
	call("aclrtSetDevice", nil, nil, 0)
	call("aclrtCreateStream", out(0, stream), nil, stack)
	call("aclrtBinaryLoadFromData", out(3, binaryHandle), []format.Data{{Param: 0, Bytes: make([]byte, 64)}}, stack, 64, 0, stack)
	call("aclrtBinaryGetFunction", out(2, function), []format.Data{{Param: 1, Bytes: []byte("kernel")}}, binaryHandle, stack, stack)
	want := map[uint64]string{}
	on := uint64(stream)
	devices := map[uint64]int{} // of launches on default streams
	launch := func(words ...uint64) uint64 {
		b := []byte{}
		for _, v := range words {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		n := call("aclrtLaunchKernelWithHostArgs", nil, []format.Data{{Param: 4, Bytes: b}}, function, 1, on, 0, stack, uint64(len(b)))
		for i, v := range words {
			if v>>40 == first>>40 {
				want[n] += fmt.Sprintf(" %d:%#x", 8*i, v)
			}
		}
		return n
	}
	a := call("aclrtMalloc", out(0, first), nil, stack, size, 0)
	b := call("aclrtMalloc", out(0, second), nil, stack, size, 0)
	for i := range uint64(MaxListed) {
		launch(first+i%3, number+i, second)
	}
	launch(first, second, second)
	call("aclrtFree", nil, nil, first)
	c := call("aclrtMalloc", out(0, first), nil, stack, size, 0)
	moved := now
	for i := range uint64(10) {
		launch(first+i%3, number+MaxListed+i, second)
	}
	on = 0
	for i := range uint64(8) {
		call("aclrtSetDevice", nil, nil, i%2)
		devices[launch(first, number+MaxListed+10+i, second)] = int(i % 2)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Trace(r, acl.Model, t.TempDir(), &Options{Backend: backend.New("", acl.Model), Compare: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	launches, last := 0, uint64(0)
	for _, in := range p.File.Instructions(0) {
		if in.Kernel == 0 {
			continue
		}
		launches++
		got, at := "", p.File.Operand(in, int(p.File.Funcs[in.Fn].Params[4].Word))
		for _, r := range p.File.Relocs(in) {
			o := p.slots[r.Slot].object
			got += fmt.Sprintf(" %d:%#x", r.At-at.Addend, o.Handle+r.Addend)
			made := a
			switch {
			case o.Handle == second:
				made = b
			case p.Found.From+int64(in.At) >= moved:
				made = c
			}
			if o.Created != made {
				t.Errorf("call %d has an address of call %d's allocation, want call %d's", in.Call, o.Created, made)
			}
		}
		if device, ok := devices[in.Call]; ok && p.Streams[in.Stream].Lane.Device != device {
			t.Errorf("call %d is on the stream of device %d, want %d", in.Call, p.Streams[in.Stream].Lane.Device, device)
		}
		if at.Addend <= last {
			t.Errorf("call %d has the arguments of an earlier call", in.Call)
		}
		last = at.Addend
		if at.Slot != plan.SlotData || got != want[in.Call] {
			t.Errorf("call %d has the addresses%s in slot %d, want%s", in.Call, got, at.Slot, want[in.Call])
		}
	}
	if launches != len(want) || p.Found.Relocations != 2*len(want)+1 {
		t.Errorf("%d launches with %d relocations, want %d", launches, p.Found.Relocations, len(want))
	}
	file, err := os.ReadFile(p.File.Path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(MaxListed + 18) {
		if n := bytes.Count(file, binary.LittleEndian.AppendUint64(nil, number+i)); n != 1 {
			t.Errorf("number %d is in the plan %d times", i, n)
		}
	}
}

// A launch repeats none if a word at an odd multiple of 4 in its argument block may be an address.
func TestLaunchKeyRefusesPackedAddresses(t *testing.T) {
	const address = 0x124000000100
	p := &callCompiler{compiler: &compiler{accesses: &access.Calls{Words: access.NewWords(nil)}}}
	p.accesses.Words.Device = api.Window{From: 0x124000000000, To: 0x124000010000}
	p.f = acl.Model.Lookup("aclrtLaunchKernelWithHostArgs")
	p.facts = newFacts(acl.Model, p.f)
	for n := 1; n <= 64; n++ {
		for at := -1; at+8 <= n; at++ {
			b := make([]byte, n)
			if at >= 0 {
				binary.LittleEndian.PutUint64(b[at:], address)
			}
			p.c = &format.Call{Args: make([]uint64, p.f.Words)}
			p.c.Args[p.f.Params[4].Word] = 1
			p.a = &access.Call{Calls: &access.Calls{}}
			p.a.Data = []format.Data{{Param: 4, Bytes: b, Len: uint64(n)}}
			if got, want := p.launchKey(), at < 0 || at%8 != 4; got != want {
				t.Errorf("%d bytes with an address at %d: %t, want %t", n, at, got, want)
			}
			if words := len(p.launches.key) - 1 - int(p.f.Words); p.launchKey() && words != 2*max(0, 1-(at&7)) {
				t.Errorf("%d bytes with an address at %d: %d words in the key", n, at, words)
			}
		}
	}
}

// Operators that differ in a number are different launches: dims say what they access.
func TestLaunchKeyOfOperators(t *testing.T) {
	p := &callCompiler{compiler: &compiler{accesses: &access.Calls{Words: access.NewWords(nil)}}}
	p.accesses.Words.Device = api.Window{From: 0x124000000000, To: 0x124000010000}
	p.f = acl.Model.Lookup("aclrtLaunchKernelWithHostArgs")
	p.facts = newFacts(acl.Model, p.f)
	keys := map[string]bool{}
	for _, n := range []int64{4, 8, 4} {
		b := testtrace.OnTensors("aclnnAbs", testtrace.Contiguous(0x124000000000, block.In, 0, n), testtrace.Contiguous(0x124000000100, block.Out, 0, n)).Bytes()
		p.c = &format.Call{Args: make([]uint64, p.f.Words)}
		p.c.Args[p.f.Params[4].Word] = 1
		p.a = &access.Call{Calls: &access.Calls{}}
		p.a.Data = []format.Data{{Param: 4, Bytes: b, Len: uint64(len(b))}}
		if !p.launchKey() {
			t.Error("an operator can't be repeated")
		}
		keys[fmt.Sprint(p.launches.key)] = true
	}
	if len(keys) != 2 {
		t.Errorf("%d different launches, want 2", len(keys))
	}
}
