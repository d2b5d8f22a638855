package replay

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// simulate points ACLTRACE_LIB to the simulator and the shim as they are built, and the player as it is here.
func simulate(t *testing.T) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	testenv.Built(t, "lib/libaclsim.so")
	root := testenv.Root(t)
	library(t)
	for _, name := range []string{"libacltrace.so", "libaclsim.so", "libascendcl.so"} {
		if err := os.Symlink(filepath.Join(root, "lib", name), filepath.Join(lib, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	t.Setenv("ACLTRACE_LIB", lib)
}

func recorded(t *testing.T, command ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.aclt")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	res, err := record.Run(context.Background(), &record.Options{Model: acl.Model, Output: path, Command: command, Sim: true, Replayable: true, Stdin: null, Stdout: null})
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 0 || res.Incomplete != nil || res.Lost > 0 || res.Refused > 0 {
		t.Fatalf("%v: %+v", command, res)
	}
	return path
}

// again replays a trace where its memory was and elsewhere, more than once.
func again(t *testing.T, path string) *Report {
	t.Helper()
	var last *Report
	for range 3 {
		for place, want := range map[string]string{PlaceSame: "same", PlaceMove: "moved"} {
			r := run(t, path, &Options{Verify: true, Place: place})
			if r.Verified.Results == 0 {
				t.Fatalf("nothing was verified: %+v", r)
			}
			identical(t, r, r.Verified.Results)
			if r.Placement != want {
				t.Fatalf("place %s: memory is %s", place, r.Placement)
			}
			last = r
		}
	}
	return last
}

func TestExamples(t *testing.T) {
	for name, args := range map[string][]string{
		"hello": nil, "vector_add": {"--n", "5000"}, "matmul_pipeline": {"--tiles", "12", "--size", "32"}, "tiny_decoder": {"--tokens", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			program := testenv.Example(t, name)
			simulate(t)
			r := again(t, recorded(t, append([]string{program}, args...)...))
			if name == "tiny_decoder" && r.Replayed < 800 {
				t.Errorf("%d calls replayed", r.Replayed)
			}
		})
	}
}

// programs are what testdata has beside the examples, with how many results each brings back at least.
var programs = map[string]uint64{
	"threads": 4*20*2 + 1, "pointers": 9, "paged": 30, "graph": 11, "retry": 1, "batches": 32 * 4096, "vmm": 4, "peers": 4, "callbacks": 4,
}

// kernels compiles the kernels of the programs, as the simulator has them and as a binary that a program loads.
func kernels(t *testing.T) (binary string) {
	t.Helper()
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "kernels.so", []string{"testdata/kernels.c"}, "-shared", "-fPIC"))
	return testenv.CompileC(t, "kernels.o", []string{"testdata/kernels.c"}, "-c", "-fPIC")
}

func TestPrograms(t *testing.T) {
	for name, results := range programs {
		t.Run(name, func(t *testing.T) {
			program := testenv.CompileC(t, name, []string{"testdata/" + name + ".c"})
			binary := kernels(t)
			simulate(t)
			r := again(t, recorded(t, program, binary))
			if r.Verified.Results < results {
				t.Errorf("%d results, at least %d were to be", r.Verified.Results, results)
			}
		})
	}
}
