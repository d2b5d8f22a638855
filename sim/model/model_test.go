package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPresets(t *testing.T) {
	for _, name := range Presets() {
		m, err := Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if m.Name != name {
			t.Errorf("preset %s calls itself %s", name, m.Name)
		}
	}
	if _, err := Load(""); err != nil {
		t.Error(err)
	}
}

func TestTimes(t *testing.T) {
	m, err := Parse("test", []byte(edit("", "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    uint64
		want int64
	}{{0, 100}, {1000, 200}, {1001, 601}} {
		if got := m.CopyTime(HostToDevice, c.n); got != c.want {
			t.Errorf("a copy of %d bytes takes %d ns, want %d", c.n, got, c.want)
		}
	}
	k := m.Rule("MatMulV3")
	if got := m.KernelTime(k, 5, 400); got != 2*(10+2*20+100) {
		t.Errorf("the kernel takes %d ns", got)
	}
	if d := m.Demand(k, 3); d != (Demand{Cube: 3}) {
		t.Errorf("3 blocks hold %v", d)
	}
	if d := m.Demand(k, 9); d != (Demand{Cube: 4}) {
		t.Errorf("9 blocks hold %v", d)
	}
	if got := m.KernelTime(m.Rule("x/y"), 1, 0); got != 7 {
		t.Errorf("another kernel takes %d ns", got)
	}
}

const small = `{"name": "t", "source": "a test", "host_ns": {}, "launch_ns": {}, "streams": 0, "cores": {"cube": 4, "vector": 8},
"copies": {"host_to_device": {"sizes": [{"up_to_bytes": 1000, "latency_ns": 100, "gb_per_s": 10}, {"latency_ns": 100, "gb_per_s": 2}]},
"device_to_host": {"sizes": [{"gb_per_s": 1}]}, "device_to_device": {"sizes": [{"gb_per_s": 1}]}, "peer_to_peer": {"sizes": [{"gb_per_s": 1}]},
"host_to_host": {"sizes": [{"gb_per_s": 1}]}, "fill": {"sizes": [{"gb_per_s": 1}]}},
"kernels": [{"name": "MatMul*", "cores": "cube", "fixed_ns": 10, "block_ns": 20, "gb_per_s": 4, "scale": 2}, {"name": "*", "duration_ns": 7}]}`

func edit(old, new string) string { return strings.Replace(small, old, new, 1) }

func TestErrorsNameFileAndKey(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"name": "t", `, ``, `"name" is missing`},
		{`"source": "a test"`, `"sauce": "a test"`, `"sauce"`},
		{`"cube": 4`, `"cube": -4`, "cores.cube is -4"},
		{`"cube": 4`, `"cube": "four"`, "cores.cube"},
		{`"gb_per_s": 2`, `"gb_per_s": 0`, "copies.host_to_device.sizes[1].gb_per_s is 0"},
		{`"up_to_bytes": 1000, `, ``, "copies.host_to_device.sizes[0].up_to_bytes is 0"},
		{`"fill"`, `"full"`, "copies.full: unknown kind of copy"},
		{`"fill": {"sizes": [{"gb_per_s": 1}]}`, `"fill": {}`, "copies.fill.sizes is missing"},
		{`"name": "*", "duration_ns": 7`, `"name": "A"`, "the last rule has to be for all"},
		{`"name": "MatMul*"`, `"name": "[x"`, "kernels[0].name"},
		{`"cores": "cube"`, `"cores": "cubes"`, "kernels[0].cores"},
		{`"fixed_ns": 10`, `"fixed_ns": -10`, "kernels[0].fixed_ns is -10"},
		{"\n\"kernels\"", "\n\n}\"kernels\"", "line 6"},
	} {
		_, err := Parse("m.json", []byte(edit(c.old, c.new)))
		if err == nil || !strings.HasPrefix(err.Error(), "m.json: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
	file := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err != nil {
		t.Error(err)
	}
	if _, err := Load("nowhere.json"); err == nil || !strings.Contains(err.Error(), "nowhere.json") || !strings.Contains(err.Error(), Default) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range Presets() {
		b, _ := presets.ReadFile("presets/" + name + ".json")
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse("fuzz", b)
		if err != nil {
			return
		}
		for k := range NumCopyKinds {
			if m.CopyTime(k, 1<<63) < 0 {
				t.Errorf("a copy takes less than no time: %s", b)
			}
		}
		k := m.Rule("MatMul")
		if m.KernelTime(k, 65535, 1<<63) < 0 {
			t.Errorf("a kernel takes less than no time: %s", b)
		}
		if d := m.Demand(k, 65535); d.Cube > max(m.Cores.Cube, 0) || d.Vector > max(m.Cores.Vector, 0) {
			t.Errorf("a kernel holds %v of %v", d, m.Cores)
		}
	})
}
