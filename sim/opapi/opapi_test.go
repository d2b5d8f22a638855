package opapi

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// program compiles and links a program of testdata. Its functions come before those of the libraries, so it sees their calls.
func program(t *testing.T, name string) string {
	t.Helper()
	lib := filepath.Dir(testenv.Built(t, "lib/libopapi.so"))
	return testenv.CompileC(t, name, []string{"testdata/" + name + ".c"}, "-rdynamic", "-L"+lib, "-Wl,-rpath,"+lib, "-lopapi_cv", "-lopapi_math", "-lopapi_nn",
		"-lopapi_transformer", "-lnnopbase")
}

// run runs a program, which must end well, and returns its output.
func run(t *testing.T, env []string, exe string) string {
	t.Helper()
	out, _ := runLogged(t, env, exe)
	return out
}

// runLogged is run, and returns what the program and the libraries have logged.
func runLogged(t *testing.T, env []string, exe string) (out, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), env...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &o, &e)
	}
	return o.String(), e.String()
}

// The program checks its blocks, and the decoder takes each.
func TestEveryBlockIsDecoded(t *testing.T) {
	var names []string
	var texts []byte
	for b := []byte(run(t, nil, program(t, "block"))); len(b) > 0; {
		x, err := block.Decode(b)
		if err != nil {
			t.Fatalf("block %d: %v", len(names), err)
		}
		names = append(names, x.Name)
		texts = append(x.AppendText(texts), '\n')
		b = b[binary.LittleEndian.Uint32(b[12:]):]
	}
	if want := "aclnnAdd(float16[2,3], float32[], 1, out float16[2,3])\n"; len(names) != 13 || !strings.Contains(string(texts), want) {
		t.Errorf("%d blocks:\n%swant 13, with\n%s", len(names), texts, want)
	}
}

// The log names the shapes of each refusal.
func TestLogNamesRefusedShapes(t *testing.T) {
	out, log := runLogged(t, nil, program(t, "shapes"))
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for i, want := range strings.Split(strings.TrimSpace(out), "\n") {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Fatalf("no %q in line %d of\n%s", want, i, log)
		}
	}
}

func TestNullPointers(t *testing.T) { run(t, nil, program(t, "null")) }

// The errors of a second use and of a function that is not simulated name the operator.
func TestExecutorErrorsNameTheOperator(t *testing.T) {
	_, log := runLogged(t, nil, program(t, "executor"))
	for _, want := range []string{"aclnnExp: executor 0x", "aclnnTransSparse4to2Para: the function is not simulated (561003)", "aclnnExp: the executor is null (161001)", "has run already, or no phase one made it: call phase one again (561103)"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestExecutorsAreCachedInEveryMode(t *testing.T) {
	run(t, []string{"ACLNN_CACHE_LIMIT=3"}, program(t, "cache"))
}

// The runtime sees the calls of an operator in the toolkit's order, and one launch for each, also on another device and after a reset.
func TestCallsFollowTheToolkitsOrder(t *testing.T) {
	if got, want := run(t, []string{"ACLSIM_DEVICES=2"}, program(t, "order")), "5 launches\n"; got != want {
		t.Errorf("%q: want %q", got, want)
	}
}

// rows returns the operators of the table: library and further words by name.
func rows(t *testing.T) map[string][2]string {
	f, err := os.Open("operators.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][2]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if c := strings.Split(s.Text(), "\t"); strings.HasPrefix(c[0], "acl") {
			all[c[0]] = [2]string{c[1], c[5]}
		}
	}
	return all
}

// exports returns the functions that a library defines.
func exports(t *testing.T, name string) []string {
	f, err := elf.Open(testenv.Built(t, "lib/"+name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func exportsOnly(t *testing.T, library string, want []string) {
	t.Helper()
	slices.Sort(want)
	if got := exports(t, library); !slices.Equal(got, want) {
		t.Errorf("%s has %d functions, want %d", library, len(got), len(want))
	}
}

// Each operator has both phases in its library, and a library has no function that the table or this list does not name.
func TestLibrariesExportBothPhases(t *testing.T) {
	all := rows(t)
	if len(all) < 1480 {
		t.Errorf("the table has %d operators", len(all))
	}
	want := map[string][]string{
		"math":        {"aclnnNpuFormatCastCalculateSizeAndFormat", "aclnnSetPytorchRandom"},
		"nn":          {"aclnnCalculateConvolutionWeightSize", "aclnnCalculateMatmulWeightSize", "aclnnCalculateMatmulWeightSizeV2", "aclnnTransQuantParam", "aclnnTransSparse4to2Para"},
		"transformer": {"aclnnMoeDistributeCombineSetupTeardownCalcOutputSize", "aclnnMoeDistributeDispatchSetupTeardownCalcOutputSize"},
		"cv":          nil,
	}
	for name, o := range all {
		want[o[0]] = append(want[o[0]], name, name+"GetWorkspaceSize")
		if o[1] == "max" {
			want[o[0]] = append(want[o[0]], name+"GetMaxWorkspaceSize")
		}
	}
	var every []string // libopapi.so has all: linkers drop a library that has no symbols
	for library, names := range want {
		every = append(every, names...)
		exportsOnly(t, "libopapi_"+library+".so", names)
	}
	exportsOnly(t, "libopapi.so", every)
}

// libnnopbase.so has the functions that programs, frameworks and recorders look up, and no others.
func TestBaseExports(t *testing.T) {
	got := exports(t, "libnnopbase.so")
	const wanted = `aclCreateTensor aclCreateScalar aclCreateIntArray aclCreateFloatArray aclCreateBoolArray aclCreateTensorList aclCreateScalarList
		aclDestroyTensor aclDestroyScalar aclDestroyIntArray aclDestroyFloatArray aclDestroyBoolArray aclDestroyTensorList aclDestroyScalarList
		aclGetViewShape aclGetStorageShape aclGetViewStrides aclGetViewOffset aclGetFormat aclGetDataType
		aclGetIntArraySize aclGetFloatArraySize aclGetBoolArraySize aclGetTensorListSize aclGetScalarListSize aclInitTensor
		aclSetAclOpExecutorRepeatable aclDestroyAclOpExecutor aclSetRawTensorAddr aclGetRawTensorAddr aclDumpOpTensors aclnnInit aclnnFinalize
		aclSetInputTensorAddr aclSetOutputTensorAddr aclSetTensorAddr aclSetDynamicInputTensorAddr aclSetDynamicOutputTensorAddr aclSetDynamicTensorAddr
		AclSetInputTensorAddr AclSetOutputTensorAddr AclSetTensorAddr AclSetDynamicInputTensorAddr AclSetDynamicOutputTensorAddr AclSetDynamicTensorAddr
		InitHugeMemThreadLocal UnInitHugeMemThreadLocal ReleaseHugeMem InitPTACacheThreadLocal UnInitPTACacheThreadLocal SetPTAHashKey SetPTACacheHashKey
		AddTensorAddrToCachedList PTAGetExecCache PTAFindExecCache CanUsePTACache
		_Z19InitL2Phase1ContextPKcPP13aclOpExecutor _Z19InitL2Phase2ContextPKcP13aclOpExecutor _Z13InitL0ContextPKcP13aclOpExecutor
		_Z19CommonOpExecutorRunPvmP13aclOpExecutorS_ _ZN2op10OpDfxGuardD1Ev _ZN2op10OpDfxGuardD2Ev
		aclnnReselectStaticKernel aclnnReselectStaticKernelWithPath`
	for _, name := range strings.Fields(wanted) {
		if _, ok := slices.BinarySearch(got, name); !ok {
			t.Errorf("libnnopbase.so has no %s", name)
		}
	}
	for _, name := range got {
		if !strings.Contains(wanted, name) && !strings.HasPrefix(name, "aclsim_") {
			t.Errorf("libnnopbase.so has %s, which no program looks up", name)
		}
	}
}

// The binary that the program loads has a kernel for each operator, and the section that marks operators.
func TestBinaryHasEveryOperator(t *testing.T) {
	source := filepath.Join(t.TempDir(), "main.c")
	if err := os.WriteFile(source, []byte("#include <stdio.h>\n#include \"executor.h\"\nint main(void) { size_t n; void *p = binary_make(&n); return fwrite(p, 1, n, stdout) != n; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	exe := testenv.CompileC(t, "binary", []string{source, "nnopbase/binary.c"}, "-std=c11", "-Innopbase")
	f, err := kernelbin.Parse([]byte(run(t, nil, exe)))
	if err != nil {
		t.Fatal(err)
	}
	if !f.Operators || len(f.Kernels) != len(rows(t)) || len(f.Symbols) != len(f.Kernels) {
		t.Errorf("operators %t, %d kernels, want %d", f.Operators, len(f.Kernels), len(rows(t)))
	}
}
