package uprobe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/testenv"
)

// FuzzSites searches functions in damaged and handmade libraries.
func FuzzSites(f *testing.F) {
	fn := trialFunc(acl.Model)
	program, err := newTrialProgram(fn, "amd64")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(program.file, true)
	f.Add(small(f, fn), true)
	f.Add(small(f, fn), false)
	f.Fuzz(func(t *testing.T, b []byte, amd64 bool) {
		e, err := elffile.New(bytes.NewReader(b))
		if err != nil {
			return
		}
		arch := "arm64"
		if amd64 {
			arch = "amd64"
		}
		e.Machine = machines[arch]
		sites, _, err := sitesIn(e, []*api.Func{fn}, arch)
		if err == nil && len(sites) > 2 {
			t.Errorf("%d sites of a function", len(sites))
		}
	})
}

// small returns a library with one function.
func small(t testing.TB, fn *api.Func) []byte {
	source := filepath.Join(t.TempDir(), "l.c")
	if err := os.WriteFile(source, []byte("int "+fn.Name+"(int x) { return x + 1; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(testenv.CompileC(t, "l.so", []string{source}, "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code", "-Wl,-s", "-g0"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Functions are found by dynamic symbols. A pipe in place of the library stopped the recorder.
func TestSitesAreOfRegularFiles(t *testing.T) {
	fn := trialFunc(acl.Model)
	lib := filepath.Join(t.TempDir(), "l.so")
	if err := os.WriteFile(lib, small(t, fn), 0o600); err != nil {
		t.Fatal(err)
	}
	arch := map[bool]string{true: "amd64", false: "arm64"}
	f, err := elffile.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sites, _, err := findSites(lib, []*api.Func{fn}, arch[f.Machine == machines["amd64"]])
	if err != nil || len(sites) != 1 || sites[0].symbol != fn.Name || sites[0].offset == 0 {
		t.Errorf("%+v, %v", sites, err)
	}
	pipe := lib + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if _, _, err := findSites(pipe, []*api.Func{fn}, "amd64"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// A library whose dynamic symbols have no names refers to no function below the runtime.
func TestBelowOfADamagedLibrary(t *testing.T) {
	damaged, err := os.ReadFile(testenv.Built(t, "lib/libacltrace.so"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(damaged))
	if err != nil {
		t.Fatal(err)
	}
	symbols := slices.IndexFunc(f.Sections, func(s *elf.Section) bool { return s.Type == elf.SHT_DYNSYM })
	if symbols < 0 {
		t.Fatal("the library has no dynamic symbols")
	}
	const link = 40 // of the names, in a section header of 64 bytes
	headers := binary.LittleEndian.Uint64(damaged[40:])
	damaged[headers+64*uint64(symbols)+link] = 0xff
	e, err := elffile.New(bytes.NewReader(damaged))
	if err != nil {
		t.Fatal(err)
	}
	below := &belowFile{defines: map[string]bool{}, wanted: map[string]bool{}}
	below.read(acl.Model, e)
	if len(below.defines)+len(below.wanted) > 0 {
		t.Errorf("%+v", below)
	}
}

// The cookie of a mark has the number of pages of its library's code before the probe, and after it.
func TestMarkKnowsTheCodeAroundIt(t *testing.T) {
	code := func(from, size uint64) *elffile.File {
		return &elffile.File{Progs: []elf.Prog64{{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X), Vaddr: from, Filesz: size}}}
	}
	for _, c := range []struct {
		file          *elffile.File
		entry, behind uint64
		want          uint64
	}{
		{code(0x1800, 0x3000), 0x2ffc, 4, 1<<48 | 2<<32},
		{code(0x1000, 0x3000), 0x1000, 0, 2<<48 | 0<<32},
		{code(0x1000, 0x3000), 0x3fff, 0, 0<<48 | 2<<32},
		{code(0, 1<<40), 1 << 39, 0, 0xffff<<48 | 0xffff<<32}, // more than fits
	} {
		s := site{cookie: 7}
		if s.mark(c.file, c.entry, c.behind); s.cookie != c.want|unhooked|7 {
			t.Errorf("%+v at %#x: cookie %#x, want %#x", c.file.Progs[0], c.entry, s.cookie, c.want|unhooked|7)
		}
	}
}
