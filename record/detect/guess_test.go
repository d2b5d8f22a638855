package detect

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/testenv"
)

// model returns a runtime whose library, devices and installation only a test has.
func model(name, dir string) *api.Model {
	m := &api.Model{Name: name, Layers: []api.Layer{{Libraries: []string{"lib" + name + "-test.so"}}}}
	m.Installed.Carried = []string{"code of " + name}
	m.Installed.Devices = []string{filepath.Join(dir, "dev", name+"[0-9]")}
	m.Installed.Homes = []string{"UNSET_HOME", strings.ToUpper(name) + "_HOME"}
	m.Installed.Libraries = []string{"", filepath.Join(dir, "installed", name)}
	m.Accelerator.Vendor = "Vendor of " + name
	return m
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
		t.Fatal(err)
	}
	return path
}

// The first rule that fits exactly one runtime decides, from the program over its libraries and the machine's devices to the machine's libraries.
func TestFirstFittingRuleDecides(t *testing.T) {
	dir := t.TempDir()
	one, two := model("one", dir), model("two", dir)
	models := []*api.Model{one, two}
	check := func(what, program string, env []string, want *api.Model, reason string) {
		t.Helper()
		if got, why := Runtime(models, program, env); got != want || why != reason {
			t.Errorf("%s: %s, %q; want %s, %q", what, got.Name, why, want.Name, reason)
		}
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	check("nothing", "", nil, one, "")
	check("a program that does not exist", filepath.Join(dir, "gone"), nil, one, "")

	// The machine.
	const onlyLibrary, onlyDevices = "the machine has only the library of this runtime", "the machine has only devices of this runtime"
	folder := filepath.Dir(write(t, filepath.Join(dir, "path", "libtwo-test.so.1"), ""))
	check("a library in the environment's folders", "", []string{"LD_LIBRARY_PATH=/gone:" + folder}, two, onlyLibrary)
	write(t, filepath.Join(dir, "installed", "two", "libtwo-test.so"), "")
	check("a library in the runtime's own folders", "", nil, two, onlyLibrary)
	check("a program without a sign", sh, nil, two, onlyLibrary)
	write(t, filepath.Join(dir, "installed", "one", "libone-test.so"), "")
	check("libraries of both", "", nil, one, "")
	write(t, filepath.Join(dir, "dev", "two7"), "")
	check("a device", "", nil, two, onlyDevices)
	write(t, filepath.Join(dir, "dev", "one0"), "")
	check("devices of both", "", nil, one, "")

	// The program.
	names := write(t, filepath.Join(dir, "names"), "x libtwo-test.so x")
	check("a program that names the library", names, nil, two, names+" names its library")
	script := write(t, filepath.Join(dir, "script"), "#!"+names+"\n")
	check("a script for it", script, nil, two, names+" names its library")
	carries := write(t, filepath.Join(dir, "carries"), "x code of two x")
	check("a program with code", carries, nil, two, carries+" has code for its devices")
	both := write(t, filepath.Join(dir, "both"), "libone-test.so libtwo-test.so code of two")
	check("a program that names both", both, nil, two, both+" has code for its devices")

	// What the program is linked to.
	linked, lib := testenv.Built(t, "bin/examples/vector_add"), testenv.Built(t, "lib/libascendcl.so")
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(lib))
	two.Installed.Carried = []string{"aclsim_now"} // only the simulator has this text
	check("a program that is linked to a library with code", linked, nil, two, lib+", a library of "+linked+", has code for its devices")
	if m, _ := guessRuntime(models, linked, nil, false); m != one {
		t.Errorf("the loader of another user's program was run: %s", m.Name)
	}
	two.Layers[0].Libraries = []string{"libascendcl.so"}
	check("a program that is linked to the library", linked, nil, two, linked+" is linked to it")
}

// Running processes are of the runtime that the library names, that they map, or that the first one's program is of.
func TestOfProcesses(t *testing.T) {
	dir := t.TempDir()
	one, two := model("three", dir), model("four", dir)
	models := []*api.Model{one, two}
	self := os.Getpid()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if m := OfProcesses(models, "/lib/"+two.Layers[0].Libraries[0]+".3", self, []int{self}); m != two {
		t.Errorf("by the named library: %s", m.Name)
	}
	if m := OfProcesses(models, "/lib/other.so", 0, nil); m != one {
		t.Errorf("without a sign: %s", m.Name)
	}
	write(t, filepath.Join(dir, "dev", "four7"), "")
	if m := OfProcesses(models, "", 0, nil); m != two {
		t.Errorf("by the machine: %s", m.Name)
	}
	one.Installed.Carried, two.Installed.Carried = []string{strings.Repeat("none", 3) + dir}, nil
	one.Layers[0].Libraries = []string{"\x7fELF"} // the program has this text
	if m := OfProcesses(models, "", self, nil); m != one {
		t.Errorf("by the program of a process: %s", m.Name)
	}
	two.Layers[0].Libraries = []string{filepath.Base(exe)}
	write(t, filepath.Join(dir, "dev", "three0"), "") // the machine has devices of both
	for pid, pids := range map[int][]int{self: {self}, 0: {self}} {
		if m := OfProcesses(models, "", pid, pids); m != two {
			t.Errorf("by the mapped files: %s", m.Name)
		}
	}
}

// The library may be in a folder below the runtime's home, or in one that the runtime is usually installed in.
func TestLibraryOfInstallation(t *testing.T) {
	dir := t.TempDir()
	m := model("one", dir)
	m.Layers[0].Libraries = append(m.Layers[0].Libraries, "libone-late.so")
	home := write(t, filepath.Join(dir, "home", "lib64", "libone-test.so"), "")
	env := []string{"ONE_HOME=" + filepath.Join(dir, "home")}
	if path, err := Library(m, env); path != home || err != nil {
		t.Errorf("%s, %v", path, err)
	}
	late := write(t, filepath.Join(dir, "installed", "one", "libone-late.so"), "")
	if path, err := Library(m, []string{"ONE_HOME="}); path != late || err != nil {
		t.Errorf("%s, %v", path, err)
	}
	if path, err := Library(m, env); path != home || err != nil {
		t.Errorf("%s, %v", path, err)
	}
	t.Chdir(filepath.Dir(home))
	if err := os.Remove(late); err != nil {
		t.Fatal(err)
	}
	if _, err := Library(m, nil); err == nil || err.Error() != "libone-test.so is not installed: the machine has no Vendor of one runtime, or LD_LIBRARY_PATH lacks its folder" {
		t.Error(err)
	}
}

// The loader knows further folders. 32-bit libraries are passed over.
func TestLibraryOfTheLoader(t *testing.T) {
	m := model("one", t.TempDir())
	m.Layers[0].Libraries = []string{"libm.so.6"}
	if !bytes.Contains(loaderCache(), []byte("/libm.so.6\x00")) {
		t.Skip("the loader's cache has no libm")
	}
	path, err := Library(m, nil)
	if f, err2 := elffile.Open(path); err != nil || err2 != nil || filepath.Base(path) != "libm.so.6" || !filepath.IsAbs(path) {
		t.Errorf("%s, %v, %v", path, err, err2)
	} else {
		f.Close()
	}
	m.Layers[0].Libraries = []string{"ibm.so.6"}
	if path, err := Library(m, nil); err == nil {
		t.Error(path)
	}
}

// The cache of a machine with 32-bit libraries lists a name twice. The library was not found if the 32-bit one was first.
func TestLibraryInTheCache(t *testing.T) {
	dir := t.TempDir()
	narrow := write(t, filepath.Join(dir, "32", "libx.so"), "\x7fELF\x01\x01\x01"+strings.Repeat("\x00", 57))
	wide := write(t, filepath.Join(dir, "64", "libx.so"), "")
	t.Chdir(dir)
	for text, want := range map[string]string{
		"": "", "x": "", wide: wide, narrow: "", narrow + "\x00" + wide: wide, wide + "\x00" + narrow: wide, "64/libx.so": "", "64/libx.so\x00" + wide: wide,
		filepath.Join(dir, "gone", "libx.so"): "", wide + ".1": "",
	} {
		if got := cached([]byte("head\x00"+text+"\x00"), "libx.so"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestProgramOfAnotherWidth(t *testing.T) {
	dir := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	wide := write(t, filepath.Join(dir, "wide"), string(self[:4096]))
	narrow := write(t, filepath.Join(dir, "narrow"), "\x7fELF\x01\x01\x01"+strings.Repeat("\x00", 60))
	other := write(t, filepath.Join(dir, "other"), "text")
	for path, want := range map[string]bool{wide: true, narrow: false, other: true, filepath.Join(dir, "gone"): false} {
		if ofThisWidth(path) != want {
			t.Errorf("%s: %v", filepath.Base(path), !want)
		}
	}
}

// A text is found at any place in a file, also between two parts that are read.
func TestTextsBetweenParts(t *testing.T) {
	m := model("one", "")
	for at := 1<<20 - 70; at < 1<<20+10; at += 13 {
		path := write(t, filepath.Join(t.TempDir(), "program"), strings.Repeat("x", at)+"code of one"+strings.Repeat("x", 1<<20))
		if !holds([]*api.Model{m}, path, func(m *api.Model) []string { return m.Installed.Carried })(m) {
			t.Errorf("no text at %d", at)
		}
	}
}
