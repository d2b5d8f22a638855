// Package model is the cost model of a simulated device: task durations, shared resources, and host costs of calls.
//
// Load and Parse read a model from JSON and check it. A Model never changes afterwards, so any number of goroutines
// may use it. The packages sim/device, sim/virtual and sim/acl query it, and cmd/acltrace prints it. The package
// never measures time.
//
// The presets name the source of their figures. This project has measured none on a device.
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

// Default is the default preset.
const Default = "ascend910b"

//go:embed presets/*.json
var presets embed.FS

// Model is a cost model, with the structure of its file. Times are in nanoseconds, rates in 10^9 bytes a second.
type Model struct {
	// Name is the name of the model in reports.
	Name string `json:"name"`
	// Source is the origin of the figures.
	Source string `json:"source"`
	// Host is how long calls take on the host, in virtual time.
	Host Host `json:"host_ns"`
	// Launch is the delay between a call and the device's work.
	Launch Launch `json:"launch_ns"`
	// Streams is how many streams may run tasks in parallel; 0 for any number.
	Streams int `json:"streams"`
	// Cores are the device's cores, shared by kernels on all streams.
	Cores Cores `json:"cores"`
	// Copies are costs by kind and size. The first entry with up_to_bytes not below the size applies.
	Copies map[CopyKind]Copy `json:"copies"`
	// Kernels are ordered rules. The first matching pattern applies; the last must be "*".
	Kernels []Kernel `json:"kernels"`
	// Jitter is the largest random change to a duration, as a fraction from 0 to 1. The seed determines it.
	Jitter float64 `json:"jitter"`
}

// Host has the cost per call, in nanoseconds.
type Host struct {
	// Call is any call that submits no task and does not wait.
	Call int64 `json:"call"`
	// Submit is a call that submits a task.
	Submit int64 `json:"submit"`
	// Sync is the extra time that a wait takes after the device is done.
	Sync int64 `json:"sync"`
	// Function is how long a host function takes, whatever its real time.
	Function int64 `json:"function"`
}

// Launch is the submission delay in nanoseconds.
type Launch struct {
	// Latency is the time between a call's end and the start on an idle stream.
	Latency int64 `json:"latency"`
	// Overhead is the time between two tasks on a busy stream.
	Overhead int64 `json:"overhead"`
}

// Cores are a device's core counts; 0 for no limit.
type Cores struct {
	Cube   int `json:"cube"`   // number of cube cores, 0 for no limit
	Vector int `json:"vector"` // number of vector cores, 0 for no limit
}

// CopyKind says between which memories a copy moves bytes.
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

// MarshalText returns the kind's name in a model file.
func (k CopyKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses a kind's name.
func (k *CopyKind) UnmarshalText(b []byte) error {
	i := slices.Index(copyNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("copies.%s: unknown kind of copy: want one of %s", b, strings.Join(copyNames[:], ", "))
	}
	*k = CopyKind(i)
	return nil
}

// Copy is the cost for one copy kind.
type Copy struct {
	// Engines is how many copies may run in parallel; 0 for any number.
	Engines int        `json:"engines"`
	Sizes   []CopySize `json:"sizes"`
}

// CopySize is the cost for copies up to a size.
type CopySize struct {
	// UpTo is the largest size in bytes; 0 for any, in the last entry only.
	UpTo    uint64  `json:"up_to_bytes"`
	Latency int64   `json:"latency_ns"` // fixed time of a copy
	Rate    float64 `json:"gb_per_s"`   // 10^9 bytes a second, added to the fixed time
}

// Kernel is a rule for kernels by name. A kernel takes Fixed, plus Block for each row of blocks (as many as run in
// parallel), plus the time for its bytes; or Duration if that is set.
type Kernel struct {
	// Name is a pattern for path.Match: * matches any characters except '/'.
	Name string `json:"name"`
	// Cores are the cores for each block: "cube", "vector" (default) or "mix" (one cube core and two vector cores).
	Cores string  `json:"cores"`
	Fixed int64   `json:"fixed_ns"` // fixed time of a launch
	Block int64   `json:"block_ns"` // time of a block; blocks beyond the cores run after them
	Rate  float64 `json:"gb_per_s"` // 10^9 bytes a second, added to these times; 0 to ignore the bytes
	// Duration is the whole time; 0 to use the other fields.
	Duration int64 `json:"duration_ns"`
	// Scale is the factor on the duration, also on one that was recorded or set by a kernel library; 0 for 1.
	Scale float64 `json:"scale"`
}

// Demand is how many cores a launch holds.
type Demand struct{ Cube, Vector int }

// Presets are the embedded models by name.
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

// maxFile is the largest model file.
const maxFile = 1 << 20

// Load returns the model of a setting: the content of a model file, which begins with "{", a preset name, or a file
// path. "" is Default.
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
		return nil, fmt.Errorf("model %s: not a file, and not a preset: want one of %s", setting, strings.Join(Presets(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return Parse(setting, b)
}

// Content replaces a file path in a setting by the file's content.
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

// readFile reads a regular file of at most maxFile bytes. It does not block on a pipe.
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
		return nil, fmt.Errorf("%s has %d bytes: want at most %d", path, st.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// Parse parses a model. Errors begin with the file name and name the key.
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
		return nil, fmt.Errorf("%s: there is text after the model", file)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// maxTime is the largest time in a model, one day, so that sums don't overflow.
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
			return fmt.Errorf("%s is %d: want nanoseconds, from 0 to a day", key, v)
		}
		return nil
	}
	counts := func(key string, v int) error {
		if v < 0 || v > 60000 {
			return fmt.Errorf("%s is %d: want 1 to 60000, or 0 for no limit", key, v)
		}
		return nil
	}
	err := errors.Join(times("host_ns.call", m.Host.Call), times("host_ns.submit", m.Host.Submit), times("host_ns.sync", m.Host.Sync),
		times("host_ns.function", m.Host.Function), times("launch_ns.latency", m.Launch.Latency), times("launch_ns.overhead", m.Launch.Overhead),
		counts("streams", m.Streams), counts("cores.cube", m.Cores.Cube), counts("cores.vector", m.Cores.Vector))
	if m.Jitter < 0 || m.Jitter > 1 || m.Jitter != m.Jitter {
		err = errors.Join(err, fmt.Errorf("jitter is %v: want 0 to 1", m.Jitter))
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
				err = errors.Join(err, fmt.Errorf("%s.gb_per_s is %v: want more than 0.000001", key, s.Rate))
			}
			last := i == len(c.Sizes)-1
			switch {
			case last && s.UpTo != 0:
				err = errors.Join(err, fmt.Errorf("%s.up_to_bytes is %d: want none, because the last entry is for all sizes", key, s.UpTo))
			case !last && (s.UpTo == 0 || i > 0 && s.UpTo <= c.Sizes[i-1].UpTo):
				err = errors.Join(err, fmt.Errorf("%s.up_to_bytes is %d: want ascending sizes", key, s.UpTo))
			}
		}
	}
	if n := len(m.Kernels); n == 0 || m.Kernels[n-1].Name != "*" {
		err = errors.Join(err, errors.New(`kernels: the last rule has to be for all: "name": "*"`))
	}
	for i, k := range m.Kernels {
		key := fmt.Sprintf("kernels[%d]", i)
		if _, bad := path.Match(k.Name, ""); bad != nil || k.Name == "" {
			err = errors.Join(err, fmt.Errorf("%s.name is %q: want a name, with * for any characters", key, k.Name))
		}
		if k.Cores != "" && k.Cores != "cube" && k.Cores != "vector" && k.Cores != "mix" {
			err = errors.Join(err, fmt.Errorf(`%s.cores is %q: "cube", "vector" or "mix"`, key, k.Cores))
		}
		err = errors.Join(err, times(key+".fixed_ns", k.Fixed), times(key+".block_ns", k.Block), times(key+".duration_ns", k.Duration))
		if k.Rate < 0 || k.Rate != k.Rate || k.Scale < 0 || k.Scale != k.Scale || k.Scale > 1e6 {
			err = errors.Join(err, fmt.Errorf("%s: gb_per_s is %v and scale is %v: want 0 or more for both", key, k.Rate, k.Scale))
		}
	}
	return err
}

// CopyTime returns a copy's device time in nanoseconds.
func (m *Model) CopyTime(kind CopyKind, n uint64) int64 {
	sizes := m.Copies[kind].Sizes
	for i := range sizes {
		if s := &sizes[i]; s.UpTo == 0 || n <= s.UpTo {
			return s.Latency + bytesTime(n, s.Rate)
		}
	}
	return 0
}

// bytesTime returns the time for n bytes at a rate, in nanoseconds and at most a day.
func bytesTime(n uint64, rate float64) int64 {
	return int64(min(math.Ceil(float64(n)/rate), float64(maxTime)))
}

func (m *Model) Rule(name string) *Kernel {
	name = strings.ReplaceAll(name, "/", "_")
	for i := range m.Kernels {
		if ok, _ := path.Match(m.Kernels[i].Name, name); ok {
			return &m.Kernels[i]
		}
	}
	return &m.Kernels[len(m.Kernels)-1]
}

// KernelTime returns a launch's device time in nanoseconds.
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

// Rows returns how many rows of blocks run one after the other; 0 without a core limit.
func (m *Model) Rows(k *Kernel, blocks uint32) int64 {
	n := m.width(k)
	if n == 0 {
		return 0
	}
	return (int64(blocks) + n - 1) / n
}

// Scaled applies the rule's scale to a duration.
func (k *Kernel) Scaled(d int64) int64 {
	if k.Scale == 0 || k.Scale == 1 {
		return d
	}
	return int64(min(float64(d)*k.Scale, float64(maxTime)))
}

// width returns how many blocks run in parallel; 0 for any number.
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

// Demand returns the cores for a launch: one for each block, at most all.
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
