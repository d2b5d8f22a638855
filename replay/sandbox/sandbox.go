// Package sandbox describes the sandbox that the player of a replay enters: see replay/player/sandbox.c.
package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/private"
)

// Word is what the player reports: a bit for each layer, and Landlock's ABI version.
type Word uint32

// abiShift is SANDBOX_ABI of replay/player/sandbox.h.
const abiShift = 8

// layers are the bits of a Word, as in replay/player/sandbox.h.
var layers = []struct {
	bit  Word
	name string
	from string // what of the kernel has it
}{
	{1, "descriptors", "/proc"},
	{2, "privileges", "capabilities"},
	{4, "files", "Landlock"},
	{8, "tcp", "Landlock ABI 4"},
	{16, "signals", "Landlock ABI 6"},
	{32, "system calls", "seccomp"},
}

// Sandbox is the sandbox that a replay ran in.
type Sandbox struct {
	Landlock int      `json:"landlock_abi"` // 0 if the kernel has none
	Layers   []string `json:"layers"`       // that the player has entered
	Missing  []string `json:"missing"`      // that the kernel lacks
	from     []string // what has the missing ones
}

// Describe returns the sandbox of a Word, nil for 0: the player has entered none.
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

// Whole reports whether a stranger's trace may be replayed in it: it lacks no layer but those of newer kernels.
func (s *Sandbox) Whole() bool {
	for _, m := range s.Missing {
		if m != "tcp" && m != "signals" {
			return false
		}
	}
	return true
}

// Try has a player enter the sandbox and end.
func Try() (*Sandbox, error) {
	b, err := artifacts.Bytes(artifacts.Player)
	if err != nil {
		return nil, err
	}
	dir, err := private.MkdirTemp("acltrace-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, artifacts.Player)
	if err := os.WriteFile(path, b, 0o700); err != nil {
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
