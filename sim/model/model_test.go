package model

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestPresetsLoadByName(t *testing.T) {
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

func TestTimesFollowTheModel(t *testing.T) {
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

// Limits are part of what a model may have, and the error names the key of what is beyond them.
func TestErrorsNameTheInvalidKey(t *testing.T) {
	for _, c := range []struct{ old, fine, wrong, key string }{
		{`"host_ns": {}`, `"host_ns": {"call": 86400000000000}`, `"host_ns": {"call": 86400000000001}`, "host_ns.call is 86400000000001"},
		{`"host_ns": {}`, `"host_ns": {"sync": 0}`, `"host_ns": {"sync": -1}`, "host_ns.sync is -1"},
		{`"streams": 0`, `"streams": 60000`, `"streams": 60001`, "streams is 60001"},
		{`"cube": 4`, `"cube": 1`, `"cube": -1`, "cores.cube is -1"},
		{`"streams": 0`, `"streams": 0, "jitter": 1`, `"streams": 0, "jitter": 1.01`, "jitter is 1.01"},
		{`"streams": 0`, `"streams": 0, "jitter": 0`, `"streams": 0, "jitter": -0.01`, "jitter is -0.01"},
		{`"up_to_bytes": 1000, `, `"up_to_bytes": 1, `, ``, "copies.host_to_device.sizes[0].up_to_bytes is 0: want ascending"},
		{`{"up_to_bytes": 1000, "latency_ns": 100, "gb_per_s": 10}`, `{"up_to_bytes": 1, "gb_per_s": 1}, {"up_to_bytes": 2, "gb_per_s": 1}`,
			`{"up_to_bytes": 2, "gb_per_s": 1}, {"up_to_bytes": 2, "gb_per_s": 1}`, "copies.host_to_device.sizes[1].up_to_bytes is 2: want ascending"},
		{`{"latency_ns": 100, "gb_per_s": 2}`, `{"gb_per_s": 0.0000011}`, `{"gb_per_s": 0.000001}`, "copies.host_to_device.sizes[1].gb_per_s is 1e-06"},
		{`{"latency_ns": 100, "gb_per_s": 2}`, `{"gb_per_s": 2}`, `{"gb_per_s": 2, "up_to_bytes": 9}`, "copies.host_to_device.sizes[1].up_to_bytes is 9: want none"},
		{`"scale": 2`, `"scale": 1000000`, `"scale": 1000001`, "kernels[0]: gb_per_s is 4 and scale is 1.000001e+06"},
		{`"gb_per_s": 4`, `"gb_per_s": 0`, `"gb_per_s": -1`, "kernels[0]: gb_per_s is -1"},
		{`"source": "a test"`, `"source": "x"`, `"source": ""`, `"source" is missing`},
		{`"cores": "cube"`, `"cores": "mix"`, `"cores": "both"`, `kernels[0].cores is "both"`},
		{`"MatMul*"`, `"[a-z]"`, `"[a-"`, `kernels[0].name is "[a-"`},
		{`"name": "*"`, `"name": "*", "scale": 0`, `"name": "**"`, "the last rule has to be for all"},
	} {
		if _, err := Parse("file", []byte(edit(c.old, c.fine))); err != nil {
			t.Errorf("%s: %v", c.fine, err)
		}
		if _, err := Parse("file", []byte(edit(c.old, c.wrong))); err == nil || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: %v, want %s", c.wrong, err, c.key)
		}
	}
}

// A launch holds one core for each block, as many as the device has. A block of a mixed kernel needs a cube core and two vector cores.
func TestBlocksHoldOneCoreEach(t *testing.T) {
	for _, c := range []struct {
		kind         string
		cube, vector int
		blocks       uint32
		want         Demand
		rows         int64
	}{
		{"cube", 4, 8, 0, Demand{Cube: 1}, 0}, {"cube", 4, 8, 5, Demand{Cube: 4}, 2}, {"cube", 0, 8, 5, Demand{}, 0},
		{"vector", 4, 8, 7, Demand{Vector: 7}, 1}, {"", 4, 8, 17, Demand{Vector: 8}, 3}, {"", 4, 0, 17, Demand{}, 0},
		{"mix", 4, 8, 3, Demand{Cube: 3, Vector: 6}, 1}, {"mix", 4, 8, 9, Demand{Cube: 4, Vector: 8}, 3}, {"mix", 4, 6, 9, Demand{Cube: 3, Vector: 6}, 3},
		{"mix", 4, 1, 9, Demand{Cube: 1, Vector: 1}, 9}, {"mix", 4, 11, 9, Demand{Cube: 4, Vector: 8}, 3}, {"mix", 4, 100, 9, Demand{Cube: 4, Vector: 8}, 3}, {"mix", 0, 8, 9, Demand{Vector: 8}, 3}, {"mix", 4, 0, 9, Demand{Cube: 4}, 3}, {"mix", 0, 0, 9, Demand{}, 0},
	} {
		m := Model{Cores: Cores{Cube: c.cube, Vector: c.vector}}
		k := &Kernel{Cores: c.kind}
		if got := m.Demand(k, c.blocks); got != c.want {
			t.Errorf("%+v: holds %+v", c, got)
		}
		if got := m.Rows(k, c.blocks); got != c.rows {
			t.Errorf("%+v: %d rows", c, got)
		}
	}
}

// Times follow the first rule whose pattern matches. They are at most a day.
func TestKernelTime(t *testing.T) {
	const day = 24 * 3600e9
	m := Model{Cores: Cores{Vector: 2}, Kernels: []Kernel{{Name: "plain", Fixed: 10, Block: 3}, {Name: "rate", Fixed: 10, Rate: 2}, {Name: "fixed", Duration: 50, Fixed: 1, Scale: 0.5}, {Name: "slow*", Rate: 1e-9},
		{Name: "scaled", Duration: day - 1, Scale: 2}, {Name: "last", Fixed: 1}}}
	for _, c := range []struct {
		name   string
		blocks uint32
		bytes  uint64
		want   int64
	}{{"plain", 0, 100, 13}, {"plain", 2, 100, 13}, {"plain", 3, 0, 16}, {"rate", 9, 101, 61}, {"fixed", 100, 100, 25}, {"slow_x", 1, 1 << 60, day}, {"slow/x", 1, 1, 1e9}, {"scaled", 1, 1, day}, {"none", 1, 1, 1}} {
		if got := m.KernelTime(m.Rule(c.name), c.blocks, c.bytes); got != c.want {
			t.Errorf("%+v: %d ns", c, got)
		}
	}
}

// A setting keeps its meaning where its file is not: the file's content is in its place.
func TestContentReplacesTheFileName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, same := range []string{"", Presets()[0], small} {
		if got, err := Content(same); err != nil || got != same {
			t.Errorf("%q, %v", got, err)
		}
	}
	got, err := Content(file)
	if err != nil {
		t.Fatal(err)
	}
	a, errA := Load(file)
	b, errB := Load(got)
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) || !strings.HasPrefix(got, "{") {
		t.Errorf("%s: %v, %v", got, errA, errB)
	}
	for _, wrong := range []string{"gone", filepath.Dir(file), "{}"} {
		if got, err := Content(wrong); err == nil {
			t.Errorf("%s is %s", wrong, got)
		}
	}
}
