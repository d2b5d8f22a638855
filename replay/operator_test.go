package replay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
)

// operatorProgram returns the command of testdata/operators.c without the last argument, and the library that computes its operator.
func operatorProgram(t *testing.T) (command []string, computes string) {
	t.Helper()
	program := testenv.CompileC(t, "operators", []string{"testdata/operators.c"})
	simulate(t)
	binary := testenv.CompileC(t, "operators.o", []string{"testdata/operators.c"}, "-DKERNEL", "-c", "-fPIC")
	// It is in another folder: beside the binary the simulator would find it.
	return []string{program, binary}, testenv.CompileC(t, "liboperators.so", []string{"testdata/operators.c"}, "-DKERNEL", "-shared", "-fPIC")
}

// The output of an operator that was not computed is unproved, and results beside it are proved, wherever the allocation is. Only the addresses of the
// operands are rewritten. All memory that an unknown kernel reaches was unproved, and each word that looked like an address was rewritten.
func TestReplayOfOperatorsThatAreNotComputed(t *testing.T) {
	command, _ := operatorProgram(t)
	for _, how := range []string{"plain", "large"} {
		path := recorded(t, append(command, how)...)
		for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
			r := run(t, path, &Options{Verify: true, Place: place})
			unproved(t, r, 4, map[verify.Reason]int{verify.Kernel: 2}) // the output and the workspace
			if u := r.Unverified[0]; !strings.Contains(u.Reason, "kernel aclnnAffine") || u.OtherBytes > 0 || !strings.Contains(r.Log, "1 launch of 1 operator that no kernel library computes") {
				t.Errorf("%s, %s: %+v, log %q", how, place, u, r.Log)
			}
			var words []uint64
			for _, w := range r.Relocated {
				if w.Func == "aclrtLaunchKernelWithHostArgs" {
					words = append(words, w.Offset)
				}
			}
			if want := []uint64{16, 136, 176, 216}; place == compile.PlaceMove && (!slices.Equal(words, want) || r.GuessesTotal > 0) {
				t.Errorf("%s: relocated the words at %d, want %d; guesses %+v", how, words, want, r.Guesses)
			}
		}
	}
	// The number of launches is reported at the end of the program, too.
	path := filepath.Join(t.TempDir(), "t.aclt")
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	res, err := record.Run(t.Context(), &record.Options{Model: acl.Model, Output: path, Command: append(command, "quit"), Sim: true, Capture: record.Capture{Replayable: true}, Stderr: stderr})
	if err != nil || res.ExitCode != 0 || !slices.Equal(res.Kernels.NotComputed, []string{"aclnnAffine"}) || len(res.Kernels.Unexecuted) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	said, err := os.ReadFile(stderr.Name())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(said), "1 launch of 1 operator that no kernel library computes") != 1 {
		t.Errorf("the program says %q", said)
	}
	if n := run(t, path, &Options{Verify: true}).NotComputed; n == nil || *n != (NotComputed{1, 1}) {
		t.Errorf("the replay reports %+v", n)
	}
	// A block that lies says nothing.
	r := run(t, recorded(t, append(command, "lies")...), &Options{Verify: true})
	if r.Verdict != verify.Unproved || r.Results.Proved != 0 || r.codes()[verify.Kernel] != 6 || !strings.Contains(r.Log, "unknown data type 99") {
		t.Errorf("%s, %+v, log %q", &r.Results, r.Unverified, r.Log)
	}
}

// A kernel library computes an operator of its name, also at other addresses. The number that equals an address stays the same.
func TestReplayOfOperatorsThatAreComputed(t *testing.T) {
	command, computes := operatorProgram(t)
	t.Setenv("ACLSIM_KERNELS", computes)
	path := recorded(t, append(command, "computed")...)
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		r := run(t, path, &Options{Verify: true, Place: place})
		if identical(t, r, 6); r.NotComputed != nil {
			t.Errorf("not computed: %+v", r.NotComputed)
		}
	}
	r := run(t, path, &Options{Verify: true, KernelLibraries: noKernels})
	if r.Verdict != verify.Unproved || r.codes()[verify.Kernel] == 0 || r.Results.Proved != 4 {
		t.Errorf("without the library: %s, %+v", &r.Results, r.Unverified)
	}
}

// A kernel whose library declares what it accesses, and has no code, makes its output unproved. Such kernels were ignored, as if no library had them.
func TestReplayOfKernelsWithoutCode(t *testing.T) {
	program := testenv.CompileC(t, "operators", []string{"testdata/operators.c"})
	simulate(t)
	flags := []string{"-DKERNEL", "-DNO_CODE", "-fPIC"}
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "libnocode.so", []string{"testdata/operators.c"}, append(flags, "-shared")...))
	path := recorded(t, program, testenv.CompileC(t, "nocode.o", []string{"testdata/operators.c"}, append(flags, "-c")...))
	unproved(t, run(t, path, &Options{Verify: true}), 5, map[verify.Reason]int{verify.Kernel: 1})
	unproved(t, run(t, path, &Options{Verify: true, KernelLibraries: noKernels}), 0, map[verify.Reason]int{verify.Kernel: 6}) // all that it could reach
}
