package replay

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay/verify"
)

// A kernel that computes one wrong bit changes exactly the results that depend on that bit. Each of these must differ in a replay,
// and no other may differ or be unproved. A recording of the program with the same fault shows which results they are.
func TestSeededFaults(t *testing.T) {
	seededFaults(t, 4)
}

func TestSoakSeededFaults(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes long: make soak")
	}
	seededFaults(t, 100)
}

func seededFaults(t *testing.T, each int) {
	binary := kernels(t)
	simulate(t)
	rnd := rand.New(rand.NewPCG(22, uint64(each)))
	found, without := 0, 0
	for _, p := range []struct {
		name, kernels string
		args          []string
		launches      int
	}{
		{"vector_add", "examples/kernels/vector_kernels.c", []string{"--n", "300"}, 1},
		{"paged", "replay/testdata/kernels.c", []string{binary}, 30},
		{"pointers", "replay/testdata/kernels.c", []string{binary}, 9},
		{"retry", "replay/testdata/kernels.c", []string{binary}, 1},
		{"condition", "replay/testdata/kernels.c", []string{binary}, 4},
	} {
		program := ""
		if _, ok := programs[p.name]; ok {
			program = testenv.CompileC(t, p.name, []string{"testdata/" + p.name + ".c"})
		} else {
			program = testenv.Example(t, p.name)
		}
		file := filepath.Join(testenv.Root(t), p.kernels)
		flip := testenv.CompileC(t, "flip.so", []string{"testdata/flip.c"}, "-shared", "-fPIC", "-lm", fmt.Sprintf("-DKERNELS=%q", file))
		t.Setenv("ACLSIM_KERNELS", flip)
		command := append([]string{program}, p.args...)
		path := faulty(t, command, "0:0")
		right := resultsOf(t, path)
		for range each {
			fault := fmt.Sprintf("%d:%d", 1+rnd.IntN(p.launches), rnd.Uint32())
			changed, ended := map[uint64]bool{}, uint64(0)
			wrong := resultsOf(t, faulty(t, command, fault))
			for call, b := range right {
				got, has := wrong[call]
				changed[call] = has && !bytes.Equal(b, got)
				if has {
					ended = max(ended, call) // a program that finds a wrong result may end
				}
			}
			maps.DeleteFunc(changed, func(_ uint64, differs bool) bool { return !differs })
			t.Setenv("FLIP", fault)
			r := run(t, path, &Options{Verify: true, KernelLibraries: []string{flip}})
			t.Setenv("FLIP", "0:0")
			differs := map[uint64]bool{}
			for _, d := range r.Differences {
				if d.Call <= ended {
					differs[d.Call] = true
				}
			}
			if !maps.Equal(differs, changed) || r.Results.Unproved > 0 || len(changed) > 0 && r.Verdict != verify.Different {
				t.Errorf("%s, fault %s: %s; results that differ: %v, in truth %v", p.name, fault, r.Verdict, slices.Sorted(maps.Keys(differs)), slices.Sorted(maps.Keys(changed)))
			}
			if found++; len(changed) == 0 {
				without++
			}
		}
	}
	t.Logf("%d faults, %d of them change no result", found, without)
	if found == without {
		t.Error("no fault changed a result")
	}
}

// faulty records a program with one wrong bit in one launch.
func faulty(t *testing.T, command []string, fault string) string {
	t.Helper()
	t.Setenv("FLIP", fault)
	path := filepath.Join(t.TempDir(), "t.aclt")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o := &record.Options{Model: acl.Model, Output: path, Command: command, Sim: true, Capture: record.Capture{Replayable: true}, Stdin: null, Stdout: null}
	if _, err := record.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return path
}

// resultsOf are the bytes that each call copied to the host.
func resultsOf(t *testing.T, path string) map[uint64][]byte {
	t.Helper()
	results := map[uint64][]byte{}
	for _, c := range load(t, path) {
		if f := acl.Model.Func(api.ID(c.Func)); f.Task != api.Copy {
			continue
		}
		for _, d := range c.Data {
			if d.Dir == format.DirOut {
				results[c.Index] = d.Bytes
			}
		}
	}
	return results
}
