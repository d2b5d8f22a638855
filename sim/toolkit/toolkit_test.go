package toolkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/testenv"
)

// root lays out a root.
func root(t *testing.T, dir string) string {
	t.Helper()
	testenv.Built(t, "lib/toolkit/version.info")
	if err := artifacts.Lay(acl.Model, dir, "v1"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a command without the variables that a root sets, and returns its output.
func run(t *testing.T, name string, args ...string) (out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ASCEND_") && !strings.HasPrefix(v, "LD_LIBRARY_PATH=") && !strings.HasPrefix(v, "ACLSIM_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, &o, &e)
	}
	return o.String(), e.String()
}

// A program that is built and run with nothing but a root.
func TestProgramOfRoot(t *testing.T) {
	dir := root(t, filepath.Join(t.TempDir(), "a root's"))
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	exe := filepath.Join(t.TempDir(), "run")
	testenv.Uses(t, "testdata/run.c")
	for _, folders := range [][2]string{{"include", "lib64"}, {"runtime/include", "runtime/lib64/stub"}} { // builds use either
		run(t, "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", filepath.Join(dir, folders[0]), "-o", exe, "testdata/run.c", "-L", filepath.Join(dir, folders[1]),
			"-lascendcl", "-lnnopbase", "-lopapi", "-lhccl", "-lacl_op_compiler")
	}
	out, errs := run(t, "sh", "-c", `. "$1/set_env.sh" && exec "$2"`, "sh", dir, exe)
	if out != "ran\n" {
		t.Errorf("it printed %q", out)
	}
	if n := strings.Count(errs, "aclopCompileAndExecute is not simulated"); n != 1 {
		t.Errorf("stderr names the function %d times:\n%s", n, errs)
	}
}

// A program that clears LD_PRELOAD and starts itself again reaches the simulator: the root's variables do not preload it.
func TestProgramsThatClearPreloads(t *testing.T) {
	dir := root(t, filepath.Join(t.TempDir(), "root"))
	testenv.Uses(t, "testdata/again.c")
	exe := testenv.CompileC(t, "again", []string{"testdata/again.c"})
	out, _ := run(t, "sh", "-c", `. "$1/set_env.sh" && LD_PRELOAD=libm.so.6 exec "$2" child itself`, "sh", dir, exe)
	if soc := "Ascend910B1, 0, preload "; out != "first "+soc+"1\nchild "+soc+"0\nitself "+soc+"0\n" {
		t.Errorf("it printed %q", out)
	}
}

// Names that frameworks look up, by library.
var wanted = []struct{ libraries, names string }{
	{"libprofapi.so", `MsprofGetHashId MsprofRegisterCallback MsprofReportAdditionalInfo MsprofReportApi MsprofReportCompactInfo MsprofSysCycleTime
		MsprofReportEvent MsprofReportBatchAdditionalInfo MsprofRegTypeInfo MsprofStr2Id`},
	{"libascendcl.so", `aclCreateTensorDesc aclDestroyTensorDesc aclGetTensorDescDimV2 aclGetTensorDescFormat aclGetTensorDescNumDims aclGetTensorDescType
		aclSetTensorDescName aclSetTensorFormat aclSetTensorPlaceMent aclSetTensorShape aclprofRegisterDeviceCallback aclprofGetSupportedFeatures
		aclprofGetSupportedFeaturesV2 aclprofWarmup aclStressDetect`},
	{"libacl_op_compiler.so", `aclopCompileAndExecute aclopCompileAndExecuteV2 aclopCreateAttr aclopDestroyAttr aclopSetAttrBool aclopSetAttrDataType
		aclopSetAttrFloat aclopSetAttrInt aclopSetAttrListBool aclopSetAttrListFloat aclopSetAttrListInt aclopSetAttrListListInt aclopSetAttrString
		aclGetCompileopt aclGetCompileoptSize aclSetCompileopt aclCreateGraphDumpOpt aclDestroyGraphDumpOpt aclGenGraphAndDumpForOp`},
	{"libascend_hal.so", `halGetDeviceInfo halGetAPIVersion drvGetDevNum`},
	{"libmspti.so libms_tools_ext.so", `msptiActivityIsEnabled mstxMarkA mstxRangeStartA mstxRangeEnd mstxDomainCreateA mstxDomainDestroy mstxDomainMarkA
		mstxDomainRangeStartA mstxDomainRangeEnd mstxMemHeapRegister mstxMemHeapUnregister mstxMemRegionsRegister mstxMemRegionsUnregister`},
	{"libnnopbase.so libopapi.so", `aclCreateTensor aclCreateScalar aclCreateIntArray aclCreateFloatArray aclCreateBoolArray aclCreateTensorList aclCreateScalarList
		aclDestroyTensor aclDestroyScalar aclDestroyTensorList aclGetViewShape PTAGetExecCache InitPTACacheThreadLocal SetPTAHashKey CanUsePTACache`},
	{"libge_runner.so libgraph.so libregister.so libgraph_base.so libruntime.so libacl_tdt_channel.so libopapi_math.so libopapi_nn.so libopapi_transformer.so libopapi_cv.so", ""},
}

func TestNamesOfFrameworks(t *testing.T) {
	lib := filepath.Join(root(t, filepath.Join(t.TempDir(), "root")), "lib64")
	exe := testenv.CompileC(t, "lookup", []string{"testdata/lookup.c"}, "-ldl")
	hccl := ""
	for _, f := range acl.Model.Funcs {
		if f.Layer == "hccl" {
			hccl += f.Name + " "
		}
	}
	if n := len(strings.Fields(hccl)); n < 40 {
		t.Fatalf("the model has %d functions of HCCL", n)
	}
	for _, w := range append(slices.Clone(wanted), struct{ libraries, names string }{"libhccl.so", hccl}) {
		args := []string{filepath.Join(lib, "libprofapi.so")}
		for _, l := range strings.Fields(w.libraries) {
			args = append(args, filepath.Join(lib, l))
		}
		run(t, exe, append(append(args, "--"), strings.Fields(w.names)...)...)
	}
}

// Each header compiles alone. The operators' headers have one form, so some of them are compiled alone, and all together.
func TestHeadersOfRoot(t *testing.T) {
	include := filepath.Join(root(t, filepath.Join(t.TempDir(), "root")), "include")
	var alone, together []string
	err := filepath.WalkDir(include, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(include, path)
		if !strings.HasPrefix(name, "aclnnop/") || len(together)%200 == 0 || os.Getenv("ACLTRACE_SOAK") != "" {
			alone = append(alone, name)
		}
		together = append(together, name)
		return err
	})
	if err != nil || len(alone) < 20 || len(together) < 800 {
		t.Fatalf("%d headers, %d alone, %v", len(together), len(alone), err)
	}
	dir := t.TempDir()
	source := func(n int, names []string) string {
		var b strings.Builder
		for _, name := range slices.Concat(names, names) {
			fmt.Fprintf(&b, "#include <%s>\n", name)
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.c", n))
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := []string{source(0, together)}
	for i, name := range alone {
		files = append(files, source(i+1, []string{name}))
	}
	for _, language := range [][]string{{"-x", "c", "-std=c11"}, {"-x", "c++", "-std=c++17"}} {
		run(t, "cc", slices.Concat([]string{"-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", include}, language, files)...)
	}
	for _, name := range []string{"acl/acl_rt.h", "acl/acl_base.h", "acl/acl_mdl.h", "acl/acl_op.h", "acl/acl_prof.h", "aclnn/acl_meta.h", "aclnnop/aclnn_matmul.h"} {
		if !slices.Contains(together, name) {
			t.Errorf("there is no %s", name)
		}
	}
}

// The variables in sh and bash, under set -u, sourced twice, and with variables of the user.
func TestSetEnv(t *testing.T) {
	dir := root(t, filepath.Join(t.TempDir(), `it's $HOME "here"`))
	for _, shell := range []string{"sh", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		out, _ := run(t, shell, "-c", `set -eu
			export PYTHONPATH=/own
			. "$1/set_env.sh"; . "$1/set_env.sh"
			printf '%s\n' "$ASCEND_HOME_PATH" "$ASCEND_TOOLKIT_HOME" "$ASCEND_OPP_PATH" "$LD_LIBRARY_PATH" "$PYTHONPATH" "$(command -v npu-smi)" "$ACLSIM_KERNELS_BESIDE"
			for d in "$ASCEND_OPP_PATH" "$ASCEND_HOME_PATH/runtime" "$ASCEND_HOME_PATH/compiler"; do [ -d "$d" ]; done`, shell, dir)
		in := func(name string) string { return filepath.Join(dir, name) }
		want := strings.Join([]string{dir, dir, in("opp"), in("lib64"), in("python/site-packages") + ":/own", in("bin/npu-smi"), "1"}, "\n") + "\n"
		if out != want {
			t.Errorf("%s:\n%swant\n%s", shell, out, want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "runtime/version.info")); err != nil || !strings.Contains(string(b), "Version="+acl.Model.Simulator.Release.Toolkit+"\n") {
		t.Errorf("version %s, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "version.cfg")); err != nil || !strings.Contains(string(b), "runtime_running_version=["+acl.Model.Simulator.Release.Toolkit+":") {
		t.Errorf("packages %s, %v", b, err)
	}
}

func TestDeviceQueriesOfBuilds(t *testing.T) {
	smi := filepath.Join(root(t, filepath.Join(t.TempDir(), "root")), "bin/npu-smi")
	for _, c := range []struct{ script, want string }{
		{`"$0" info | awk 'NF > 0 && NR == 7 {print $3}'`, "910B1\n"},
		{`ACLSIM_DEVICES=2 "$0" info -l | awk -F: '/NPU ID/ {print $2 + 0}'`, "0\n1\n"},
		{`"$0" info -t board -i 0 -c 0 | awk -F: '/Chip (Type|Name)/ {print $2}'`, " Ascend\n 910B1\n"},
		{`"$0" -v`, "npu-smi version: 9.1.0\n"},
		{`"$0" info -t board -i 1 2>&1 || echo failed`, "npu-smi: no device 1: the simulator answers -v, info, info -l, info -m, and info -t board -i DEVICE [-c 0]\nfailed\n"},
	} {
		if out, _ := run(t, "sh", "-c", c.script, smi); out != c.want {
			t.Errorf("%s\nprints %q, want %q", c.script, out, c.want)
		}
	}
}

// A root replaces a root of any version, complete or not, and nothing else.
func TestRootReplacesRootsOnly(t *testing.T) {
	dir := root(t, filepath.Join(t.TempDir(), "root"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	stamp, left := filepath.Join(dir, "acltrace-root"), filepath.Join(dir, "lib64/old.so")
	for name, change := range map[string]func() error{
		"of another version": func() error { return os.WriteFile(stamp, []byte("v0\n"), 0o644) },
		"half written": func() error {
			return errors.Join(os.Remove(stamp), os.RemoveAll(filepath.Join(dir, "include")), os.Mkdir(filepath.Join(dir, "acltrace-part"), 0o700))
		},
	} {
		must(errors.Join(os.WriteFile(left, nil, 0o644), change()))
		if name == "half written" {
			out, errs := run(t, "sh", "-c", `. "$1/set_env.sh" || echo "failed$ASCEND_HOME_PATH"`, "sh", dir)
			if want := dir + " is incomplete: remove it, and make it anew with acltrace sim --root " + dir; out != "failed\n" || !strings.Contains(errs, want) {
				t.Errorf("its variables: %q, %q", out, errs)
			}
		}
		root(t, dir)
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a file of the old root is left: %v", name, err)
		}
		if v := artifacts.RootVersion(dir); v != "v1" {
			t.Errorf("%s: version %q", name, v)
		}
	}
	for _, name := range []string{"include", "notes.txt"} { // an incomplete root needs the sign of an interruption
		other := t.TempDir()
		must(os.WriteFile(filepath.Join(other, name), nil, 0o644))
		if err := artifacts.Lay(acl.Model, other, "v1"); err == nil || !strings.Contains(err.Error(), "has files of others: name a new or an empty folder") {
			t.Errorf("%s: %v", name, err)
		}
		if in, err := os.ReadDir(other); err != nil || len(in) != 1 || in[0].Name() != name {
			t.Errorf("%s: the folder has %v, %v", name, in, err)
		}
	}
	// The sign of an interruption does not make a file of others part of a root.
	other := t.TempDir()
	notes := filepath.Join(other, "notes.txt")
	must(errors.Join(os.Mkdir(filepath.Join(other, "acltrace-part"), 0o700), os.WriteFile(notes, nil, 0o644)))
	_ = artifacts.Lay(acl.Model, other, "v1")
	if _, err := os.Stat(notes); err != nil {
		t.Errorf("beside an interrupted root: %v", err)
	}
}

// A framework makes marks if the profiler's library says that they are collected. It said no to all, so a recorder saw none.
func TestMarksAreEnabledForARecorder(t *testing.T) {
	library := filepath.Join(root(t, filepath.Join(t.TempDir(), "root")), "lib64", "libmspti.so")
	for flags, want := range map[string]string{"-ldl": "0 1\n", "-DRECORDER -rdynamic -ldl": "1 1\n"} {
		exe := testenv.CompileC(t, "marks", []string{"testdata/marks.c"}, strings.Fields(flags)...)
		if got, _ := run(t, exe, library); got != want {
			t.Errorf("%s: %q, want %q", flags, got, want)
		}
	}
}
