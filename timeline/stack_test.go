package timeline

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/format"
)

// Only addresses in code are frames, and a stack says why it ends. Regression: handles and addresses of the stack, which the chain of frame pointers
// finds in code without them, were frames.
func TestFramesAreInCode(t *testing.T) {
	maps := []format.Mapping{{Start: 0x1000, End: 0x2000, Path: "/app/train"}, {Start: 0x3000, End: 0x4000, Path: "/lib/libtorch.so"}, {Start: 0x5000, End: 0x6000, Path: "/lib/libc.so.6"},
		{Start: 0x7000, End: 0x8000}}
	for _, c := range []struct {
		pcs  []uint64
		maps []format.Mapping
		most int
		want string
	}{
		{[]uint64{0x3010, 0x1010, 0x5010}, maps, 0, "[libtorch.so+0x10 train+0x10 libc.so.6+0x10]"},
		{[]uint64{0x3010, 0x7ffe12345678, 0x1010}, maps, 0, "[libtorch.so+0x10 (cut: no frame pointers in libtorch.so)]"},
		{[]uint64{0x3010, 0x1010, 0x40}, maps, 0, "[libtorch.so+0x10 train+0x10 (cut: no frame pointers in train)]"},
		{[]uint64{0x3010, 0x7010, 0x1010, 0x5010}, maps, 0, "[libtorch.so+0x10 0x7010 train+0x10 libc.so.6+0x10]"},
		{[]uint64{0x7010, 0x40}, maps, 0, "[0x7010 (cut: no frame pointers in the code at 0x7010)]"},
		{[]uint64{0x3010}, maps, 0, "[libtorch.so+0x10 (cut: no frame pointers in libtorch.so, or more frames than the recording keeps)]"},
		{[]uint64{0x3010}, maps, 1, "[libtorch.so+0x10 (cut: the recording keeps at most 1)]"},
		{[]uint64{0x3010}, maps, 2, "[libtorch.so+0x10 (cut: no frame pointers in libtorch.so)]"},
		{[]uint64{0x3010, 0x40}, nil, 0, "[0x3010 0x40]"},
	} {
		s := &Stacks{most: c.most, processes: []format.Process{{Maps: c.maps}}, known: map[stackKey][]uint64{{0, 1}: c.pcs}, files: map[fileKey]*symbols{}}
		if got := fmt.Sprint(s.Frames(0, 1)); got != c.want {
			t.Errorf("%#x: %s, want %s", c.pcs, got, c.want)
		}
	}
}

// In code without frame pointers a recorder finds any words. Allocations by one line were those of many sites.
func TestStacksThatShowTheSameFrames(t *testing.T) {
	maps := []format.Mapping{{Start: 0x1000, End: 0x2000, Path: "/opt/train"}}
	s := &Stacks{processes: []format.Process{{Maps: maps}, {Maps: maps}}, files: map[fileKey]*symbols{}, shown: map[stackKey]uint64{}, alike: map[string]uint64{}, known: map[stackKey][]uint64{
		{0, 1}: {0x1010, 0x40}, {0, 2}: {0x1010, 0x7fff0000, 0x1020}, {0, 3}: {0x1010, 0x1020, 0x40}, {0, 4}: {0x1014, 0x40}, {1, 5}: {0x1010, 0x40}}}
	for _, c := range [][3]uint64{{0, 2, 2}, {0, 1, 2}, {0, 3, 3}, {0, 4, 4}, {1, 5, 5}, {0, 1, 2}} {
		if got := s.Shown(uint32(c[0]), c[1]); got != c[2] {
			t.Errorf("process %d: stack %d is stack %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

// A stack whose last frame is in a function of the C library that calls the program, as qsort does, is cut there. It looked whole.
func TestThreadsBeginInFewFunctionsOfTheCLibrary(t *testing.T) {
	s := &symbols{loads: []elf.Prog64{{Filesz: 0x1000}}, funcs: []function{{0x100, 0x10, "gnu_get_libc_version"}, {0x200, 0x40, "__libc_start_main"}, {0x300, 0x40, "qsort_r"}, {0x400, 0x40, "qsort"},
		{0x600, 0x40, "pthread_create"}, {0x700, 0x10, "__clone"}}}
	for offset, want := range map[uint64]bool{0x108: false, 0x180: true, 0x220: true, 0x2f0: false, 0x320: false, 0x3f0: false, 0x5f0: true, 0x708: true, 0x800: false} {
		if got := s.begins("libc.so.6", offset); got != want {
			t.Errorf("a thread begins at %#x: %v", offset, got)
		}
		if s.begins("libtorch.so", offset) || !s.begins("ld-musl-x86_64.so.1", offset) || !(&symbols{}).begins("libc.so.6", offset) {
			t.Errorf("other files at %#x", offset)
		}
	}
	real := readSymbols(fileKey{path: "/lib/x86_64-linux-gnu/libc.so.6"})
	if at := slices.IndexFunc(real.funcs, func(f function) bool { return f.name == "qsort" }); at >= 0 {
		load := real.loads[slices.IndexFunc(real.loads, func(p elf.Prog64) bool { return real.funcs[at].addr-p.Vaddr < p.Filesz })]
		if real.begins("libc.so.6", real.funcs[at].addr+4-load.Vaddr+load.Off) {
			t.Error("a thread begins in the qsort of this machine")
		}
	}
}

// A reader of stacks hung if the trace named a pipe as the file of the program.
func TestSymbolsOfRegularFilesAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", "/dev/tty", t.TempDir(), "none"} {
		if s := readSymbols(fileKey{path: path}); len(s.funcs)+len(s.loads) > 0 || s.rebuilt {
			t.Errorf("%s: %+v", path, s)
		}
	}
}

// Views showed the functions of C++ programs under the names of the linker.
func TestFramesHaveNamesOfTheSource(t *testing.T) {
	for name, want := range map[string]string{"_ZN2my6Engine4stepEPv": "my::Engine::step(void*)+0xc (app)", "main": "main+0xc (app)"} {
		if got := (Frame{Name: name, Offset: 12, Module: "/opt/app"}).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
