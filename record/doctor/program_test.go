package doctor

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/replay/sandbox"
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// texts returns the notes of a finding, the kind before each.
func (f *Finding) texts() (all []string) {
	for _, n := range f.Notes {
		all = append(all, fmt.Sprint(n.Kind, " ", n.Text))
	}
	return all
}

// A program, the program of a script and a program that can't be recorded are told apart before they run.
func TestProgramIsCheckedBeforeItRuns(t *testing.T) {
	linked, lib := testenv.Built(t, "bin/examples/vector_add"), testenv.Built(t, "lib/libascendcl.so")
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(lib))
	t.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Dir(linked))
	cat, err := host.FindProgram("cat")
	if err != nil {
		t.Skip(err)
	}
	alone := func(text string) []string { return []string{"0 " + text} }
	const loads = "not linked to the runtime: libraries that it loads and programs that it starts are recorded"
	sh, dir := script(t, "#!"+cat+"\n"), t.TempDir()
	foreign := bytes.Clone(mustRead(t, linked))
	foreign[18] = byte(elf.EM_RISCV)
	inside := filepath.Join(dir, "object.so")
	if err := errors.Join(os.Symlink(lib, inside), os.WriteFile(filepath.Join(dir, "foreign"), foreign, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program string
		ok      bool
		err     string
		notes   []string
		library []string // prefixes of the facts about the first library
	}{
		{linked, true, "", alone("linked to the runtime"), []string{"0 6"}},
		{"vector_add", true, "", alone(linked + ", linked to the runtime"), []string{"0 6"}},
		{cat, true, "", alone(loads), []string{"0 if the program loads it: 6"}},
		{sh, true, "", alone("a script for " + cat + ", " + loads), []string{"0 if the program loads it: 6"}},
		{script(t, "#!/usr/bin/env vector_add\n"), true, "", alone("a script for " + linked + ", linked to the runtime"), []string{"0 6"}},
		{script(t, "#!/gone\n"), false, "is a script, and its interpreter is missing: ", nil, nil},
		{"gone", false, "program gone: executable file not found in $PATH", nil, nil},
		{script(t, "text"), false, "is neither an ELF program nor a script with an interpreter (#!)", nil, nil},
		{filepath.Join(dir, "foreign"), false, "is a program for EM_RISCV, not for ", nil, nil},
		{inside, false, "", []string{"6 617 runtime functions are linked into it"}, nil},
	} {
		d := &Diagnosis{}
		d.program(acl.Model, []string{c.program, "argument"})
		f := d.Findings[0]
		if f.Check != Program || f.Subject != c.program || f.OK != c.ok || !slices.Equal(slices.Collect(digits(f.texts())), slices.Collect(digits(c.notes))) || c.err != "" && (f.Err == nil || !strings.Contains(f.Err.Error(), c.err)) || d.OK() != c.ok {
			t.Errorf("%s: %+v", c.program, f)
		}
		if c.library == nil {
			if len(d.Findings) > 1 || len(d.Libraries) > 0 {
				t.Errorf("%s: libraries %+v", c.program, d.Libraries)
			}
			continue
		}
		d.Findings = slices.DeleteFunc(d.Findings, func(f Finding) bool { return f.Check == Operators })
		if len(d.Findings) < 2 || len(d.Findings) != 1+len(d.Libraries) {
			t.Errorf("%s: %d findings about %d libraries", c.program, len(d.Findings)-1, len(d.Libraries))
			continue
		}
		for i, l := range d.Libraries {
			if f := d.Findings[1+i]; f.Check != Library || f.Subject != l.Path || !f.OK || l.Linked == strings.HasPrefix(c.library[0], "0 if") || i == 0 && !strings.HasPrefix(f.texts()[0], c.library[0]) {
				t.Errorf("%s: %+v, linked %v", c.program, f, l.Linked)
			}
		}
		if l := d.Libraries[0]; l.Path != lib || l.Hooked+len(l.Counted)+len(l.PassedBy) != l.Exported || !slices.Contains(l.Counted, "aclAppLog") || !slices.Contains(l.PassedBy, "aclsim_now") || l.Hooked < 600 {
			t.Errorf("%s: %s, %d functions, %d of them recorded", c.program, l.Path, l.Exported, l.Hooked)
		}
	}
}

// The report of a program with the loader of musl names the parts that are not recorded. Here the loader has only its name.
func TestProgramOnMusl(t *testing.T) {
	linked := testenv.Built(t, "bin/examples/vector_add")
	loader, err := host.Loader(linked)
	if err != nil {
		t.Fatal(err)
	}
	musl := filepath.Join(t.TempDir(), "ld-musl-test.so.1")
	source := filepath.Join(t.TempDir(), "main.c")
	if err := errors.Join(os.WriteFile(musl, mustRead(t, loader), 0o755), os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d := &Diagnosis{}
	d.program(acl.Model, []string{testenv.CompileC(t, "main", []string{source}, "-Wl,--dynamic-linker="+musl)})
	if f := d.Findings[0]; !slices.Contains(f.texts(), "0 It runs on musl: functions that it looks up with dlsym are not recorded") {
		t.Errorf("%+v", f)
	}
}

// A program that gains rights, or that has the runtime linked into it, is found before it runs.
func TestProgramThatIsNotRecorded(t *testing.T) {
	examine := func(program string) *Finding {
		d := &Diagnosis{}
		d.program(acl.Model, []string{program})
		return &d.Findings[0]
	}
	source := filepath.Join(t.TempDir(), "inside.c")
	if err := os.WriteFile(source, []byte("int aclInit(const char *p) { return !p; }\nint main(void) { return aclInit(0); }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := testenv.CompileC(t, "inside", []string{source})
	f := examine(program)
	if last := f.Notes[len(f.Notes)-1]; f.OK || f.Err != nil || last != (Note{LinkedIn, "1 runtime functions are linked into it, and their calls are not recorded", program}) {
		t.Errorf("%+v", f)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chown(program, 1, 1), os.Chmod(program, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	if f := examine(program); f.OK || f.Err == nil || f.Err.Error() != program+" is set-uid: it can't be recorded" || len(f.Notes) > 0 {
		t.Errorf("%+v", f)
	}
}

// The ways that work are named with their costs, then what the kernel lacks. If none works, the error is that of the best way that the kernel has.
func TestWorkingWaysAreListedWithCosts(t *testing.T) {
	many, single := errors.New("many"), errors.New("single")
	has, lacks := &uprobe.Feature{Name: "old", Linux: "2.6"}, &uprobe.Feature{Name: "new", Linux: "99.0"}
	for _, c := range []struct {
		many, single error
		oneByOne     bool
		features     []*uprobe.Feature
		want         []string
		err          error
	}{
		{nil, nil, false, []*uprobe.Feature{has}, []string{"by multi, 1.23 us a launch", "by events, 8 ns a launch"}, nil},
		{many, nil, true, []*uprobe.Feature{has, lacks, lacks}, []string{"by events, 8 ns a launch", "unsupported by this kernel: new (Linux 99.0), new (Linux 99.0)"}, nil},
		{many, single, false, []*uprobe.Feature{lacks}, nil, many},
		{many, single, true, []*uprobe.Feature{lacks}, nil, single},
	} {
		got, err := ways([]uprobe.Trial{{Kind: "multi", CostNS: 1234, Err: c.many}, {Kind: "events", OneByOne: true, CostNS: 7.5, Err: c.single}}, c.features, c.oneByOne)
		if !slices.Equal(got, c.want) || err != c.err {
			t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.err)
		}
	}
}

// Missing rights are named with the command that grants all rights, for checks that failed only.
func TestMissingRightsAreNamed(t *testing.T) {
	d := &Diagnosis{}
	why := errors.New("why")
	for _, c := range []struct {
		err     error
		missing []string
		want    string
	}{{nil, []string{"A"}, ""}, {why, nil, "why"}, {why, []string{"A", "C"}, "missing A and C"}} {
		f := d.add(Uprobes, "", c.err)
		f.grant(c.missing, []string{"a", "b", "c"})
		if c.want == "" && f.Err != nil || c.want != "" && f.Err.Error() != c.want || strings.HasPrefix(f.Fix, "sudo setcap a,b,c+ep /") != strings.HasPrefix(c.want, "missing") {
			t.Errorf("%+v", f)
		}
	}
}

// digits leaves the numbers out, which grow with the model, but those at the start.
func digits(texts []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range texts {
			if !yield(s[:1] + strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return -1
				}
				return r
			}, s[1:])) {
				return
			}
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Without the runtime in its path, a program that is linked to it can't start, and another finds none.
func TestProgramWithoutRuntime(t *testing.T) {
	linked, env := testenv.Built(t, "bin/examples/vector_add"), filepath.Join(t.TempDir(), "copy")
	t.Setenv("LD_LIBRARY_PATH", "")
	if err := os.WriteFile(env, mustRead(t, linked), 0o700); err != nil { // its own search path is relative
		t.Fatal(err)
	}
	d := &Diagnosis{}
	d.program(acl.Model, []string{env})
	switch f := d.Findings[len(d.Findings)-1]; {
	case d.OK():
		t.Skip("this machine has the runtime")
	case f.Check == Library: // the loader goes on
		if f.Subject != acl.Model.Layers[0].Libraries[0] || f.Err != nil || !slices.Equal(f.texts(), []string{"4 not found by the loader"}) || len(d.Libraries) > 0 {
			t.Errorf("%+v", f)
		}
	case !strings.Contains(f.Err.Error(), "the loader can't start "+env+": "):
		t.Errorf("%+v", f)
	}
	d = &Diagnosis{}
	d.program(acl.Model, []string{"/bin/cat"})
	if f := d.Findings[0]; !f.OK || !slices.Contains(f.texts(), "4 The loader finds no runtime library") || len(d.Findings) > 1 {
		t.Errorf("%+v", d.Findings)
	}
}

// The program of a script is its interpreter. env is none: it looks for a program.
func TestScriptRunsItsInterpreter(t *testing.T) {
	dir := t.TempDir()
	cat, err := host.FindProgram("cat")
	if err != nil {
		t.Skip(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!"+cat+" -n\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+dir)
	for text, want := range map[string]string{
		"#!" + cat + "\n":               cat,
		"#!" + cat + " sh\n":            cat,
		"#!" + plain + "\n":             cat,
		"#!/usr/bin/env cat\n":          cat,
		"#!/usr/bin/env -S A=b cat x\n": cat,
		"#!/usr/bin/env plain\n":        cat,
		"#!/usr/bin/env\n":              "/usr/bin/env",
		"#!/usr/bin/env gone\n":         "",
		"#!/gone/cat\n":                 "",
	} {
		if got, err := runs(script(t, text)); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	if got, err := runs(cat); got != cat || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := runs(filepath.Join(dir, "gone")); err == nil {
		t.Errorf("a file that does not exist is run by %q", got)
	}
	if !sameFile(cat, filepath.Join(filepath.Dir(cat), ".", "cat")) || sameFile(cat, plain) || sameFile(dir+"/gone", dir+"/gone") || sameFile(cat, dir+"/gone") {
		t.Error("files are mistaken for each other")
	}
}

// The exported functions are those that debug/elf finds.
func TestExportedFunctionsMatchDebugELF(t *testing.T) {
	path := testenv.Built(t, "lib/libacltrace.so")
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, s := range syms {
		if bind := elf.ST_BIND(s.Info); elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && (bind == elf.STB_GLOBAL || bind == elf.STB_WEAK) {
			want = append(want, s.Name)
		}
	}
	slices.Sort(want)
	b := mustRead(t, path)
	got, err := exported(bytes.NewReader(b))
	if err != nil || !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("%d functions, want %d: %v", len(got), len(want), err)
	}
	all, err := shimExports(acl.Model)
	if err != nil || len(all) != len(got) || !all["aclInit"] || all["none"] {
		t.Errorf("the shim exports %d functions: %v", len(all), err)
	}
	for _, n := range []int{10, 64} {
		if _, err := exported(bytes.NewReader(b[:n])); err == nil {
			t.Errorf("%d bytes of a library have functions", n)
		}
	}
	cut := filepath.Join(t.TempDir(), "cut.so")
	if err := os.WriteFile(cut, b[:10], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := library(acl.Model, cut, all); err == nil || !strings.HasPrefix(err.Error(), cut+": ") {
		t.Error(err)
	}
	t.Setenv("ACLTRACE_LIB", t.TempDir())
	if _, err := shimExports(acl.Model); err == nil {
		t.Error("a shim that does not exist exports functions")
	}
}

// The shim is loaded into a program of this machine, and the facts about memory fit to each other.
func TestShimLoadsIntoAProgram(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	sh, err := host.FindProgram("sh")
	if err != nil {
		t.Skip(err)
	}
	for command, audited := range map[string]string{"": "/bin/true", script(t, "#!"+sh+"\n"): sh, script(t, "text"): "/bin/true", script(t, "#!/gone\n"): ""} {
		d := &Diagnosis{}
		d.shim(acl.Model, slices.DeleteFunc([]string{command}, func(s string) bool { return s == "" }))
		var checks []Check
		for _, f := range d.Findings {
			checks = append(checks, f.Check)
			if !f.OK && f.Check != Audit {
				t.Errorf("%q: %+v", command, f)
			}
		}
		if !slices.Equal(checks, []Check{Shim, Rings, LoadShim, Audit}) {
			t.Fatalf("%q: %v", command, checks)
		}
		rings, loads, audit := d.Findings[1].texts(), d.Findings[2].texts(), d.Findings[3]
		if len(rings) < 3 || !strings.HasSuffix(rings[0], " free in /dev/shm") || !strings.HasPrefix(rings[len(rings)-1], "2 ") || len(loads) != 1 || loads[0] != "0 /dev/shm" {
			t.Errorf("%q: %q, %q", command, rings, loads)
		}
		if i := slices.Index(rings, "1 a thread needs 8 MiB, room for 512 threads"); i < 0 {
			t.Errorf("%q: %q", command, rings)
		}
		if audited != "" && (!audit.OK || !slices.Equal(audit.texts(), []string{"0 " + audited})) || audited == "" && audit.OK {
			t.Errorf("%q: %+v", command, audit)
		}
	}
	t.Setenv("ACLTRACE_LIB", t.TempDir())
	d := &Diagnosis{}
	if d.shim(acl.Model, nil); len(d.Findings) != 1 || d.OK() || d.Findings[0].Check != Shim || d.Findings[0].Err == nil {
		t.Errorf("without a shim: %+v", d.Findings)
	}
}

// Each part of the machine has its check, and the program only with a command.
func TestEachPartHasItsCheck(t *testing.T) {
	lib := filepath.Dir(testenv.Built(t, "lib/libascendcl.so"))
	d := Diagnose(acl.Model, []string{"gone"})
	by := map[Check]Finding{}
	for _, f := range d.Findings {
		by[f.Check] = f
		if f.OK != (f.Err == nil) && f.Check != Sandbox {
			t.Errorf("%+v", f)
		}
	}
	for _, c := range []Check{Shim, Clock, UnmappedMemory, Simulator, Player, Sandbox, Uprobes, OtherProcesses, HeldAtStart} {
		if f, ok := by[c]; !ok || !f.OK && c != Sandbox && c != Uprobes && c != OtherProcesses && c != HeldAtStart {
			t.Errorf("%s: %+v", c, f)
		}
	}
	if f := by[Simulator]; !slices.Equal(f.texts(), []string{"0 " + lib}) {
		t.Errorf("%+v", f)
	}
	if f := by[Program]; f.OK || f.Subject != "gone" || d.OK() {
		t.Errorf("%+v", f)
	}
	box, err := sandbox.Try()
	if f := by[Sandbox]; err != nil || f.OK != box.Whole() || f.texts()[0] != "0 "+box.String() || f.OK != (len(f.Notes) == 1) {
		t.Errorf("%+v: %v", f, err)
	}
	if f := by[Uprobes]; f.OK && (len(f.Notes) == 0 || !strings.HasPrefix(f.texts()[0], "0 by ") || !strings.HasSuffix(f.texts()[0], " a launch")) || !f.OK && f.Err == nil {
		t.Errorf("%+v", f)
	}
	stopped := exec.Command("/bin/true")
	if resume, err := host.StartStopped(stopped); err == nil {
		if err := errors.Join(resume(), stopped.Wait()); err != nil || !by[HeldAtStart].OK {
			t.Errorf("%+v: %v", by[HeldAtStart], err)
		}
	}
	t.Setenv("ACLTRACE_LIB", t.TempDir())
	d = &Diagnosis{}
	if d.player(); len(d.Findings) != 1 || d.Findings[0].Check != Player || d.Findings[0].Err == nil {
		t.Errorf("without a player: %+v", d.Findings)
	}
	_, err = artifacts.SimulatorDir(acl.Model)
	f := d.add(Simulator, "", err, "fact")
	if f.OK || f.Err == nil || len(f.Notes) > 0 || f != &d.Findings[1] {
		t.Errorf("%+v", f)
	}
	if f := d.add(Simulator, "subject", nil, "", "fact"); !f.OK || !slices.Equal(f.texts(), []string{"0 fact"}) || f.Subject != "subject" {
		t.Errorf("%+v", f)
	}
}
