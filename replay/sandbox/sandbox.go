// Package sandbox describes the sandbox that the player enters: see replay/player/sandbox.c. Package replay puts the description into its
// report, and package doctor calls Try. The package itself restricts no process.
package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/private"
)

// Word is the player's report: a bit for each layer, and Landlock's ABI version.
type Word uint32

// abiShift is SANDBOX_ABI of replay/player/sandbox.h.
const abiShift = 8

// layers are the bits in a Word, as in replay/player/sandbox.h.
var layers = []struct {
	bit  Word
	name string
	from string // required kernel feature
}{
	{1, "descriptors", "/proc"},
	{2, "privileges", "capabilities"},
	{4, "files", "Landlock"},
	{8, "tcp", "Landlock ABI 4"},
	{16, "signals", "Landlock ABI 6"},
	{32, "system calls", "seccomp"},
	{64, "names", "mount namespaces"},
}

// Sandbox is a replay's sandbox.
type Sandbox struct {
	Landlock int      `json:"landlock_abi"` // the kernel's Landlock version, 0 for none
	Layers   []string `json:"layers"`       // layers that the replay entered
	Missing  []string `json:"missing"`      // layers that the kernel lacks
	from     []string // features that the missing layers need
}

// Describe returns the sandbox for a Word, nil for 0, which means that the player entered none.
func Describe(w Word) *Sandbox {
	if w == 0 {
		return nil
	}
	s := &Sandbox{Landlock: int(w >> abiShift), Layers: []string{}, Missing: []string{}}
	for _, l := range layers {
		if w&l.bit != 0 {
			s.Layers = append(s.Layers, l.name)
		} else {
			s.Missing = append(s.Missing, l.name)
			s.from = append(s.from, l.name+" ("+l.from+")")
		}
	}
	return s
}

func (s *Sandbox) String() string {
	if s == nil {
		return "none"
	}
	if len(s.Missing) > 0 {
		return fmt.Sprintf("%s; this kernel lacks %s", strings.Join(s.Layers, ", "), strings.Join(s.from, ", "))
	}
	return fmt.Sprintf("%s (Landlock ABI %d, seccomp)", strings.Join(s.Layers, ", "), s.Landlock)
}

// Whole reports whether a stranger's trace may be replayed in it. Only layers of newer kernels, and the names of files, may be missing.
func (s *Sandbox) Whole() bool {
	return !slices.ContainsFunc(s.Missing, func(m string) bool { return m != "tcp" && m != "signals" && m != "names" })
}

// Try runs a player that enters the sandbox and exits.
func Try() (*Sandbox, error) {
	dir, err := private.MkdirTemp("acltrace-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, err := artifacts.Install(artifacts.Player, dir)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(path, "--sandbox").CombinedOutput()
	w, bad := strconv.ParseUint(string(bytes.TrimSpace(out)), 10, 32)
	if err != nil || bad != nil {
		return nil, fmt.Errorf("start the player: %v %s", err, bytes.TrimSpace(out))
	}
	if w == 0 {
		return &Sandbox{from: []string{"no_new_privs"}}, nil
	}
	return Describe(Word(w)), nil
}
