package shimtest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// root is an unpacked system with another C library.
type root struct {
	dir, triplet string
	loader       string   // path
	command      []string // prefix to run a program
	shim, player string
}

// inside resolves a path with dir as the root.
func inside(t *testing.T, dir, path string) string {
	t.Helper()
	for range 10 {
		to, err := os.Readlink(filepath.Join(dir, path))
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, path)
}

// compiler returns this machine's compiler, set up to link with the root's libraries.
func (r *root) compiler(t *testing.T) string {
	t.Helper()
	lib, dev := filepath.Join("/lib", r.triplet), filepath.Join(r.dir, "usr/lib", r.triplet)
	own := t.TempDir() // absolute links and linker scripts in the root are rewritten here
	script := fmt.Sprintf("GROUP ( %s %s AS_NEEDED ( %s ) )\n", inside(t, r.dir, lib+"/libc.so.6"), dev+"/libc_nonshared.a", r.loader)
	if err := os.WriteFile(filepath.Join(own, "libc.so"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libdl.so", "libpthread.so"} {
		if err := os.Symlink(inside(t, r.dir, lib+"/"+name+map[string]string{"libdl.so": ".2", "libpthread.so": ".0"}[name]), filepath.Join(own, name)); err != nil {
			t.Fatal(err)
		}
	}
	cc := "cc"
	if r.triplet == "aarch64-linux-gnu" {
		cc = "aarch64-linux-gnu-gcc"
	}
	include := filepath.Join(r.dir, "usr/include")
	return strings.Join([]string{cc, "-B" + dev, "-L" + own, "-isystem", include, "-isystem", filepath.Join(include, r.triplet),
		"-Wl,--dynamic-linker=" + r.loader, "-Wl,-rpath," + r.dir + lib}, " ")
}

// oldRoots returns the systems in ACLTRACE_OLD_ROOT.
func oldRoots(t *testing.T) (roots []*root) {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("ACLTRACE_OLD_ROOT")) {
		r := &root{dir: dir, triplet: "x86_64-linux-gnu", shim: testenv.Built(t, "lib/libacltrace.so"), player: testenv.Built(t, "lib/acltrace-player")}
		loader := "/lib64/ld-linux-x86-64.so.2"
		if _, err := os.Stat(filepath.Join(dir, "lib/aarch64-linux-gnu")); err == nil {
			qemu, err := exec.LookPath("qemu-aarch64")
			if err != nil {
				t.Skip(err)
			}
			r.triplet, r.command = "aarch64-linux-gnu", []string{qemu, "-L", dir}
			r.shim, r.player = testenv.Built(t, "lib/arm64/libacltrace.so"), testenv.Built(t, "lib/arm64/acltrace-player")
			loader = "/lib/ld-linux-aarch64.so.1"
		}
		r.loader = inside(t, dir, loader)
		roots = append(roots, r)
	}
	return roots
}

// The shim and the player work with older C libraries. ACLTRACE_OLD_ROOT lists systems from scripts/roots.sh, separated by
// colons, for this processor or, with qemu, for aarch64.
func TestOldRoot(t *testing.T) {
	roots := oldRoots(t)
	if len(roots) == 0 {
		t.Skip("ACLTRACE_OLD_ROOT names no system with an older C library")
	}
	for _, r := range roots {
		t.Run(filepath.Base(r.dir), func(t *testing.T) {
			version, err := exec.Command("strings", inside(t, r.dir, "/lib/"+r.triplet+"/libc.so.6")).Output()
			if err == nil {
				_, v, _ := strings.Cut(string(version), "stable release version ")
				t.Logf("C library %.4s for %s", v, r.triplet)
			}
			arguments := func(args ...string) []string { return args }
			if len(r.command) > 0 {
				// The emulator preloads the shim into its program only.
				arguments = func(args ...string) []string {
					return slices.Concat(r.command, []string{"-E", "LD_PRELOAD=" + r.shim}, args)
				}
			}
			cc := r.compiler(t)
			for _, s := range shapes {
				s.cc = cc
				dir := s.build(t, "")
				path, n := filepath.Join(dir, s.main()), strconv.Itoa(rounds)
				linked, other := s.program(t, dir, "-DLINKED"), s.program(t, dir)
				plugin := s.program(t, dir, "-DLINKED", "-DPLUGIN", "-shared", "-fPIC")
				noPLT := s.program(t, dir, "-DLINKED", "-fno-plt", "-Wl,-z,now")
				early := s.program(t, dir, "-DLINKED", "-DEARLY")
				for _, c := range []struct {
					args  []string
					calls int
				}{
					{[]string{linked, "linked", n}, rounds}, {[]string{noPLT, "linked", n}, rounds}, {[]string{early, "linked", n}, rounds + 3},
					{[]string{linked, "default", n}, rounds}, {[]string{linked, "next", n}, rounds}, {[]string{linked, "program", n}, rounds},
					{[]string{other, "local", n, path}, rounds}, {[]string{other, "plugin", n, plugin}, rounds}, {[]string{linked, "local", n, path}, rounds},
					{[]string{other, "deepbind", n, plugin}, rounds}, {[]string{other, "namespace", n, plugin}, rounds},
					{[]string{other, "again", "3", path, path}, 6}, {[]string{other, "errors", "1", path}, -1}, {[]string{other, "version", "1", path}, 0},
					{[]string{other, "missing", "1", path, "aclrtCreateStream"}, 0}, {[]string{other, "missing", "1", path, "nothing_at_all"}, 0},
				} {
					got := run(t, nil, arguments(c.args...)...)
					if c.calls >= 0 && (!maps.Equal(got.recorded, each(c.calls)) && c.calls > 0 || got.made != c.calls*len(bodies)) {
						t.Errorf("%s %v: recorded %v of %d calls", s.name, c.args[1:], got.recorded, got.made)
					}
				}
			}
			// The player prints its usage.
			out, _ := exec.Command(r.loader, "--library-path", filepath.Join(r.dir, "lib", r.triplet), r.player).CombinedOutput()
			if len(r.command) > 0 {
				out, _ = exec.Command(r.command[0], slices.Concat(r.command[1:], []string{r.player})...).CombinedOutput()
			}
			if !strings.HasPrefix(string(out), "usage:") {
				t.Errorf("the player says %q", out)
			}
		})
	}
}
