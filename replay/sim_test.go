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

func TestThreads(t *testing.T) {
	program := testenv.CompileC(t, "threads", []string{"testdata/threads.c"})
	simulate(t)
	r := again(t, recorded(t, program))
	// Each round of each thread brings two results back, and the end one more.
	if r.Verified.Results != 4*20*2+1 || r.RelocatedTotal == 0 {
		t.Errorf("%d results, %d words relocated", r.Verified.Results, r.RelocatedTotal)
	}
}
