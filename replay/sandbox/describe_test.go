package sandbox

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A stranger's trace runs only in a sandbox that lacks at most the layers of newer kernels. What a report says about it names the features that are missing.
func TestMissingLayersAreNamed(t *testing.T) {
	if s := Describe(0); s != nil || s.String() != "none" {
		t.Errorf("no sandbox is %v", s)
	}
	s := Describe(127 | 6<<abiShift)
	if got := s.String(); got != "descriptors, privileges, files, tcp, signals, system calls, names (Landlock ABI 6, seccomp)" || s.Landlock != 6 || len(s.Missing) != 0 {
		t.Errorf("%s, %+v", got, s)
	}
	for i, l := range layers {
		s := Describe(127&^l.bit | 3<<abiShift)
		if want := "; this kernel lacks " + l.name + " (" + l.from + ")"; !strings.HasSuffix(s.String(), want) || s.Landlock != 3 || !slices.Equal(s.Missing, []string{l.name}) || len(s.Layers) != len(layers)-1 {
			t.Errorf("without layer %d: %s, %+v", i, s, s)
		}
		if want := l.name == "tcp" || l.name == "signals" || l.name == "names"; s.Whole() != want {
			t.Errorf("without %s it suffices for a stranger's trace: %v", l.name, s.Whole())
		}
	}
	if s := Describe(1 | 2 | 4 | 32); !s.Whole() || s.String() != "descriptors, privileges, files, system calls; this kernel lacks tcp (Landlock ABI 4), signals (Landlock ABI 6), names (mount namespaces)" {
		t.Errorf("%s", s)
	}
}

// The bits are those of the player.
func TestBitsAreThoseOfThePlayer(t *testing.T) {
	b, err := os.ReadFile("../player/sandbox.h")
	if err != nil {
		t.Fatal(err)
	}
	bits := map[string]string{}
	for _, m := range regexp.MustCompile(`SANDBOX_(\w+) = (\d+)`).FindAllStringSubmatch(string(b), -1) {
		bits[m[1]] = m[2]
	}
	want := map[string]string{"ABI": strconv.Itoa(abiShift)}
	for name, layer := range map[string]string{"DESCRIPTORS": "descriptors", "PRIVILEGES": "privileges", "FILES": "files", "TCP": "tcp", "SIGNALS": "signals", "CALLS": "system calls", "NAMES": "names"} {
		for _, l := range layers {
			if l.name == layer {
				want[name] = strconv.Itoa(int(l.bit))
			}
		}
	}
	if !maps.Equal(bits, want) {
		t.Errorf("the player has %v, want %v", bits, want)
	}
}
