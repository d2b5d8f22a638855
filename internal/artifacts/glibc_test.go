package artifacts

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// Embedded parts run with glibc 2.17 and newer. Before 2.30 it finds a function only in the library that the symbol's version names.
func TestPartsRunWithOldC(t *testing.T) {
	root := testenv.Root(t)
	testenv.Built(t, "lib/libascendcl.so")
	moved := map[string]string{} // functions that glibc moved, with the library that had them
	for lib, name := range map[string]string{"libdl": "libdl.so.2", "libpthread": "libpthread.so.0"} {
		b, err := os.ReadFile(filepath.Join(root, "internal/glibc", lib+".c"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^void (\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			moved[m[1]] = name
		}
	}
	for _, part := range []string{
		"lib/libacltrace.so", "lib/libacltrace-cuda.so", "lib/libacltrace-audit.so", "lib/acltrace-player", "lib/libascendcl.so", "lib/libaclsim.so",
		"lib/libhccl.so", "lib/libprofapi.so", "lib/libascend_hal.so", "lib/libmspti.so", "lib/libge_runner.so", "lib/libnnopbase.so", "lib/libopapi.so",
		"lib/fakecuda/libcuda.so.1", "bin/examples/tiny_decoder", "bin/examples/decoder_kernels.so",
	} {
		paths := []string{part}
		if os.Getenv("ACLTRACE_SOAK") != "" { // after make cross
			paths = append(paths, strings.NewReplacer("lib/", "lib/arm64/", "examples/", "examples/arm64/").Replace(part))
		}
		for _, path := range paths {
			f, err := elf.Open(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			symbols, err := f.ImportedSymbols()
			f.Close()
			if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
				t.Fatal(err)
			}
			for _, s := range symbols {
				var major, minor int
				if n, _ := fmt.Sscanf(s.Version, "GLIBC_%d.%d", &major, &minor); n == 2 && (major > 2 || minor > 17) {
					t.Errorf("%s needs %s of %s", path, s.Name, s.Version)
				}
				if lib := moved[s.Name]; lib != "" && s.Library != lib {
					t.Errorf("%s needs %s of %s, not of %s", path, s.Name, s.Library, lib)
				}
			}
		}
	}
}
