// Package model is the cost model of a simulated device: how long its tasks take, what they share, and what the calls
// cost the host. A model is data, in one JSON file; package sim and package sim/virtual ask it. It is a value: Load and
// Parse check it and it never changes afterwards, so that any number of goroutines may ask it at once.
//
// The presets say in their "source" what their figures stand on. None was measured on a device by this project.
package model

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Default is the name of the preset that is used where a user names none.
const Default = "ascend910b"

//go:embed presets/*.json
var presets embed.FS

// Model is a cost model as its file holds it. Times are in nanoseconds, rates in 10^9 bytes a second.
type Model struct {
	// Name is how reports call the model.
	Name string `json:"name"`
	// Source says what the figures stand on.
	Source string `json:"source"`
	// Host is the time that calls take on the host in virtual time.
	Host Host `json:"host_ns"`
	// Launch is the time between the host's call and the device's work.
	Launch Launch `json:"launch_ns"`
	// Streams is the number of streams whose tasks may run at the same moment; 0 for any number.
	Streams int `json:"streams"`
	// Cores are what kernels of all streams share.
	Cores Cores `json:"cores"`
	// Copies by kind, each a list by size: the first whose up_to_bytes is not below the size counts.
	Copies map[CopyKind]Copy `json:"copies"`
	// Kernels are rules in order: the first whose pattern matches a kernel's name counts. The last must match all ("*").
	Kernels []Kernel `json:"kernels"`
	// Jitter is the largest part of a modelled duration that chance adds or takes, 0 to 1. The chance comes from a seed.
	Jitter float64 `json:"jitter"`
}

// Host is what the program's calls cost, in nanoseconds.
type Host struct {
	// Call is any call that puts no task on a stream and waits for none.
	Call int64 `json:"call"`
	// Submit is a call that puts a task on a stream.
	Submit int64 `json:"submit"`
	// Sync is what a wait takes on top of the time until the device is done.
	Sync int64 `json:"sync"`
	// Function is the time that a host function takes, since what the host really needs differs from run to run.
	Function int64 `json:"function"`
}

// Launch is the way of a task to the device, in nanoseconds.
type Launch struct {
	// Latency is the time from the end of the call until an idle stream can begin the task.
	Latency int64 `json:"latency"`
	// Overhead is the time between two tasks of a busy stream.
	Overhead int64 `json:"overhead"`
}

// Cores are the two kinds of cores of a device; 0 for as many as anybody wants.
type Cores struct {
	Cube   int `json:"cube"`
	Vector int `json:"vector"`
}

// CopyKind is where the bytes of a copy come from and go to.
type CopyKind uint8

const (
	HostToDevice CopyKind = iota
	DeviceToHost
	DeviceToDevice
	PeerToPeer // between two devices
	HostToHost
	Fill
	NumCopyKinds
)

var copyNames = [NumCopyKinds]string{"host_to_device", "device_to_host", "device_to_device", "peer_to_peer", "host_to_host", "fill"}

func (k CopyKind) String() string { return copyNames[k] }

// MarshalText is the name of the kind in a model's file.
func (k CopyKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the name of a kind.
func (k *CopyKind) UnmarshalText(b []byte) error {
	i := slices.Index(copyNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("copies.%s: no such kind of copy; there are %s", b, strings.Join(copyNames[:], ", "))
	}
	*k = CopyKind(i)
	return nil
}

// Copy is the cost of one kind of copies.
type Copy struct {
	// Engines is the number of copies of the kind that may run at the same moment; 0 for any number.
	Engines int        `json:"engines"`
	Sizes   []CopySize `json:"sizes"`
}

// CopySize is the cost of copies up to a size.
type CopySize struct {
	// UpTo is the largest size in bytes; 0, allowed for the last alone, stands for any.
	UpTo    uint64  `json:"up_to_bytes"`
	Latency int64   `json:"latency_ns"`
	Rate    float64 `json:"gb_per_s"` // 10^9 bytes a second
}

// Kernel is the rule for the kernels whose names match. A kernel takes Fixed, and Block for each row of blocks (as many as
// there are cores run at once), and the time of its bytes; or Duration where that is given.
type Kernel struct {
	// Name is a pattern as in path.Match: * stands for any characters but '/'.
	Name string `json:"name"`
	// Cores is the kind that it needs, one for each block: "cube", "vector" (the default) or "mix" (for each block a cube
	// core and two vector cores).
	Cores string `json:"cores"`
	Fixed int64  `json:"fixed_ns"`
	Block int64  `json:"block_ns"`
	// Rate is 10^9 bytes a second; 0 where the bytes don't matter.
	Rate float64 `json:"gb_per_s"`
	// Duration is the whole time; 0 where the others say.
	Duration int64 `json:"duration_ns"`
	// Scale multiplies the duration, also one that was recorded or that a kernel library gives; 0 stands for 1.
	Scale float64 `json:"scale"`
}

// Demand is how many cores a launch holds while it runs.
type Demand struct{ Cube, Vector int }

// Presets are the names of the models that are built in.
func Presets() []string {
	entries, err := presets.ReadDir("presets")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// maxFile is the size of the largest file of a model.
const maxFile = 1 << 20

// Load returns the model that a setting names: the content of a model's file, which begins with "{", the name of a preset, or else the path
// of a file. "" is Default.
func Load(setting string) (*Model, error) {
	if strings.HasPrefix(setting, "{") {
		return Parse("model", []byte(setting))
	}
	if setting == "" {
		setting = Default
	}
	if b, err := presets.ReadFile("presets/" + setting + ".json"); err == nil {
		return Parse("preset "+setting, b)
	}
	b, err := readFile(setting)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model %s: there is no such file, and the presets are %s", setting, strings.Join(Presets(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return Parse(setting, b)
}

// Content returns a setting for Load that names no file: the content of the file that it names, or else the setting itself.
func Content(setting string) (string, error) {
	m, err := Load(setting)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(setting, "{") || setting == "" || slices.Contains(Presets(), setting) {
		return setting, nil
	}
	b, err := json.Marshal(m)
	return string(b), err
}

// readFile reads a regular file of at most maxFile bytes. It does not wait for a pipe's writer.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch st, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case st.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes: a model has at most %d", path, st.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// Parse reads a model. Errors begin with the name of the file and name the key.
func Parse(file string, b []byte) (*Model, error) {
	m := &Model{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%s: line %d: %w", file, 1+bytes.Count(b[:min(syntax.Offset, int64(len(b)))], []byte("\n")), err)
		}
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: there is text behind the model", file)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// maxTime bounds every time of a model, a day, so that sums don't overflow.
const maxTime = int64(24 * time.Hour)

func (m *Model) check() error {
	if m.Name == "" {
		return errors.New(`"name" is missing`)
	}
	if m.Source == "" {
		return errors.New(`"source" is missing: say what the figures stand on`)
	}
	times := func(key string, v int64) error {
		if v < 0 || v > maxTime {
			return fmt.Errorf("%s is %d: nanoseconds from 0 to a day", key, v)
		}
		return nil
	}
	counts := func(key string, v int) error {
		if v < 0 || v > 60000 {
			return fmt.Errorf("%s is %d: a number from 0 (no limit) to 60000", key, v)
		}
		return nil
	}
	err := errors.Join(times("host_ns.call", m.Host.Call), times("host_ns.submit", m.Host.Submit), times("host_ns.sync", m.Host.Sync),
		times("host_ns.function", m.Host.Function), times("launch_ns.latency", m.Launch.Latency), times("launch_ns.overhead", m.Launch.Overhead),
		counts("streams", m.Streams), counts("cores.cube", m.Cores.Cube), counts("cores.vector", m.Cores.Vector))
	if m.Jitter < 0 || m.Jitter > 1 || m.Jitter != m.Jitter {
		err = errors.Join(err, fmt.Errorf("jitter is %v: a part from 0 to 1", m.Jitter))
	}
	for k := range NumCopyKinds {
		c, ok := m.Copies[k]
		if !ok || len(c.Sizes) == 0 {
			err = errors.Join(err, fmt.Errorf("copies.%s.sizes is missing", k))
		}
		err = errors.Join(err, counts(fmt.Sprintf("copies.%s.engines", k), c.Engines))
		for i, s := range c.Sizes {
			key := fmt.Sprintf("copies.%s.sizes[%d]", k, i)
			err = errors.Join(err, times(key+".latency_ns", s.Latency))
			if !(s.Rate > 1e-6) {
				err = errors.Join(err, fmt.Errorf("%s.gb_per_s is %v: a rate above 0.000001", key, s.Rate))
			}
			last := i == len(c.Sizes)-1
			switch {
			case last && s.UpTo != 0:
				err = errors.Join(err, fmt.Errorf("%s.up_to_bytes is %d: the last one stands for all sizes and has none", key, s.UpTo))
			case !last && (s.UpTo == 0 || i > 0 && s.UpTo <= c.Sizes[i-1].UpTo):
				err = errors.Join(err, fmt.Errorf("%s.up_to_bytes is %d: sizes ascend", key, s.UpTo))
			}
		}
	}
	if n := len(m.Kernels); n == 0 || m.Kernels[n-1].Name != "*" {
		err = errors.Join(err, errors.New(`kernels: the last rule has to be for all: "name": "*"`))
	}
	for i, k := range m.Kernels {
		key := fmt.Sprintf("kernels[%d]", i)
		if _, bad := path.Match(k.Name, ""); bad != nil || k.Name == "" {
			err = errors.Join(err, fmt.Errorf("%s.name is %q: a name, with * for any characters", key, k.Name))
		}
		if k.Cores != "" && k.Cores != "cube" && k.Cores != "vector" && k.Cores != "mix" {
			err = errors.Join(err, fmt.Errorf(`%s.cores is %q: "cube", "vector" or "mix"`, key, k.Cores))
		}
		err = errors.Join(err, times(key+".fixed_ns", k.Fixed), times(key+".block_ns", k.Block), times(key+".duration_ns", k.Duration))
		if k.Rate < 0 || k.Rate != k.Rate || k.Scale < 0 || k.Scale != k.Scale || k.Scale > 1e6 {
			err = errors.Join(err, fmt.Errorf("%s: gb_per_s is %v and scale %v: neither is below 0", key, k.Rate, k.Scale))
		}
	}
	return err
}

// CopyTime is the device time of a copy in nanoseconds.
func (m *Model) CopyTime(kind CopyKind, n uint64) int64 {
	sizes := m.Copies[kind].Sizes
	for i := range sizes {
		if s := &sizes[i]; s.UpTo == 0 || n <= s.UpTo {
			return s.Latency + bytesTime(n, s.Rate)
		}
	}
	return 0
}

// bytesTime is the time of n bytes at a rate, in nanoseconds, and at most a day.
func bytesTime(n uint64, rate float64) int64 {
	return int64(min(math.Ceil(float64(n)/rate), float64(maxTime)))
}

// Rule returns the rule for a kernel.
func (m *Model) Rule(name string) *Kernel {
	name = strings.ReplaceAll(name, "/", "_")
	for i := range m.Kernels {
		if ok, _ := path.Match(m.Kernels[i].Name, name); ok {
			return &m.Kernels[i]
		}
	}
	return &m.Kernels[len(m.Kernels)-1]
}

// KernelTime is the device time of a launch in nanoseconds, from the number of its blocks and the bytes that it touches.
func (m *Model) KernelTime(k *Kernel, blocks uint32, bytes uint64) int64 {
	d := k.Duration
	if d == 0 {
		d = k.Fixed + k.Block*max(m.Rows(k, blocks), 1)
		if k.Rate > 0 {
			d += bytesTime(bytes, k.Rate)
		}
	}
	return k.Scaled(min(d, maxTime))
}

// Rows is how often the cores are filled by so many blocks, one row of them after the other; 0 where there is no limit.
func (m *Model) Rows(k *Kernel, blocks uint32) int64 {
	n := m.width(k)
	if n == 0 {
		return 0
	}
	return (int64(blocks) + n - 1) / n
}

// Scaled is a given duration as the rule changes it.
func (k *Kernel) Scaled(d int64) int64 {
	if k.Scale == 0 || k.Scale == 1 {
		return d
	}
	return int64(min(float64(d)*k.Scale, float64(maxTime)))
}

// width is the number of blocks that run at once; 0 for any number.
func (m *Model) width(k *Kernel) int64 {
	switch k.Cores {
	case "cube":
		return int64(m.Cores.Cube)
	case "mix":
		n := m.Cores.Cube
		if v := m.Cores.Vector; v > 0 && (n == 0 || v/2 < n) {
			n = max(1, v/2)
		}
		return int64(n)
	}
	return int64(m.Cores.Vector)
}

// Demand is how many cores a launch of so many blocks holds: one for each block, and all for more blocks than cores.
func (m *Model) Demand(k *Kernel, blocks uint32) Demand {
	n := int(min(int64(max(blocks, 1)), max(m.width(k), 1)))
	if m.width(k) == 0 {
		return Demand{}
	}
	switch k.Cores {
	case "cube":
		return Demand{Cube: min(n, m.Cores.Cube)}
	case "mix":
		return Demand{Cube: min(n, m.Cores.Cube), Vector: min(2*n, m.Cores.Vector)}
	}
	return Demand{Vector: min(n, m.Cores.Vector)}
}
