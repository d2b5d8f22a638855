package replay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/verify"
)

// wordsTrace records a kind of testdata/words.c. low puts the first allocation, of 40 GiB, where its address is a pair of small numbers.
func wordsTrace(t *testing.T, low bool, kind ...string) string {
	t.Helper()
	program := testenv.CompileC(t, "words", []string{"testdata/words.c"})
	binary := kernels(t)
	simulate(t)
	if low {
		place := filepath.Join(t.TempDir(), "place")
		if err := os.WriteFile(place, []byte("0x124000000000\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("ACLSIM_PLACE", place)
		defer os.Unsetenv("ACLSIM_PLACE")
	}
	return recorded(t, append([]string{program, binary}, kind...)...)
}

// Numbers that look like addresses were rewritten: the replay had wrong input and blamed the kernel.
func TestReplayKeepsNumbersThatLookLikeAddresses(t *testing.T) {
	keepsNumbers(t, []string{"tokens", "2"}, []string{"ramp"}, []string{"pairs"})
}

func TestSoakReplayKeepsTokens(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("make soak runs it")
	}
	var kinds [][]string
	for seed := range 50 {
		kinds = append(kinds, []string{"tokens", fmt.Sprint(seed)})
	}
	keepsNumbers(t, kinds...)
}

// keepsNumbers replays kinds of testdata/words.c whose numbers must not be rewritten, at other addresses and on a library with other gaps.
func keepsNumbers(t *testing.T, kinds ...[]string) {
	t.Helper()
	gaps := testenv.CompileC(t, "libgaps.so", []string{"testdata/gaps.c"}, "-shared", "-fPIC", "-Wl,--no-as-needed", "-L../lib", "-lascendcl", "-Wl,-rpath,"+filepath.Join(testenv.Root(t), "lib"))
	guesses := 0
	for _, kind := range kinds {
		path := wordsTrace(t, true, kind...)
		r := run(t, path, &Options{Verify: true})
		identical(t, r, 1)
		if r.GuessesTotal > 0 {
			t.Errorf("%v: guesses %+v at the recorded addresses", kind, r.Guesses)
		}
		for _, o := range []*Options{{Verify: true, Place: "move"}, {Verify: true, Backend: gaps, Trust: true}} {
			r = run(t, path, o)
			for _, u := range r.Unverified {
				if u.Code != verify.Pointer || u.OtherBytes > 0 {
					t.Errorf("%v: %+v", kind, u)
				}
			}
			if r.RelocatedTotal != 2 || r.DifferingTotal > 0 || r.Results.Results != 1 || (r.GuessesTotal > 0) != (r.Results.Unproved == 1) {
				t.Errorf("%v: %s, relocated %+v, guesses %+v", kind, &r.Results, r.Relocated, r.Guesses)
			}
			guesses += r.GuessesTotal
		}
	}
	if guesses == 0 {
		t.Error("no number looks like an address")
	}
}

// Pointers in payloads are rewritten with evidence. Without, results that depend on them are unproved.
func TestReplayOfPointersInPayloads(t *testing.T) {
	for kind, evidence := range map[string]string{"list": "address", "tiling": "address", "passed": "address"} {
		r := run(t, wordsTrace(t, false, kind), &Options{Verify: true, Place: "move"})
		identical(t, r, 1)
		if r.GuessesTotal > 0 || r.Relocated[0].Evidence != evidence || r.Relocated[0].Func != "aclrtMemcpy" {
			t.Errorf("%s: relocated %+v, guesses %+v", kind, r.Relocated[0], r.Guesses)
		}
	}
	path := wordsTrace(t, false, "hidden")
	r := run(t, path, &Options{Verify: true, Place: "move"})
	if r.Verdict != verify.Unproved || r.GuessesTotal != 1 || r.Guesses[0].Offset != 40 || r.Guesses[0].Candidates[0].At != 4096 {
		t.Errorf("%s: %s, guesses %+v, differences %+v", r.Verdict, &r.Results, r.Guesses, r.Differences)
	}
	identical(t, run(t, path, &Options{Verify: true}), 1)
	identical(t, run(t, path, &Options{Verify: true, Place: "move", Guess: true}), 1)
}

// Pointers at other bytes than multiples of 8 were not found: after a move the results were different.
func TestReplayOfPackedPointers(t *testing.T) {
	for kind, at := range map[string]uint64{"packed": 44, "pool": 44, "bytes": 43} {
		path := wordsTrace(t, false, kind)
		r := run(t, path, &Options{Verify: true, Place: "move"})
		if r.Verdict != verify.Unproved || r.GuessesTotal != 1 || r.Guesses[0].Offset != at {
			t.Errorf("%s: %s: %s, guesses %+v, differences %+v", kind, r.Verdict, &r.Results, r.Guesses, r.Differences)
		}
		identical(t, run(t, path, &Options{Verify: true}), 1)
		identical(t, run(t, path, &Options{Verify: true, Place: "move", Guess: true}), 1)
	}
}

// All allocations were moved by the same distance, so a pointer that is kept as a distance was right by chance.
func TestMovedAllocationsHaveUnrelatedAddresses(t *testing.T) {
	path := wordsTrace(t, false, "minus")
	identical(t, run(t, path, &Options{Verify: true}), 1)
	const seeds = 3
	for seed := range seeds {
		place := fmt.Sprintf("move:%d", seed)
		r := run(t, path, &Options{Verify: true, Place: place})
		if r.Verdict != verify.Different || r.Seed == nil || *r.Seed != uint64(seed) {
			t.Errorf("%s: %s, seed %v", place, r.Verdict, r.Seed)
		}
		if !slices.Equal(placed(t, path, place), placed(t, path, place)) {
			t.Errorf("%s has two outcomes", place)
		}
	}
	for _, kind := range []string{"managed", "mapped"} {
		path := wordsTrace(t, false, kind)
		if r := run(t, path, &Options{Verify: true}); !r.Identical {
			t.Errorf("%s memory: %s, %+v", kind, r.Verdict, r.Differences)
		}
		if r := run(t, path, &Options{Verify: true, Place: "move"}); r.Verdict != verify.Different {
			t.Errorf("%s memory: %s, seed %d", kind, r.Verdict, *r.Seed)
		}
	}
	path = wordsTrace(t, false, "list")
	orders := map[bool]bool{}
	for seed := range 20 {
		at := placed(t, path, fmt.Sprintf("move:%d", seed))
		for i, a := range at {
			if a%512 != 0 || slices.Contains(at[:i], a) {
				t.Errorf("addresses %#x", at)
			}
		}
		orders[at[1] < at[2]] = true
	}
	if len(orders) != 2 {
		t.Error("the allocations have the same order for all seeds")
	}
	r := run(t, path, &Options{Verify: true, Place: "move:7", Repeat: 3})
	identical(t, r, 1)
	if !slices.Equal(r.Repeat.Seeds, []uint64{7, 8, 9}) {
		t.Errorf("seeds %d", r.Repeat.Seeds)
	}
	if _, err := Run(t.Context(), path, acl.Model, &Options{Place: "move:x"}); err == nil || !strings.Contains(err.Error(), "move:SEED") {
		t.Errorf("error %v", err)
	}
}

// placed returns the addresses that a replay requests for its allocations.
func placed(t *testing.T, path, place string) (at []uint64) {
	t.Helper()
	var plan bytes.Buffer
	if _, err := Run(t.Context(), path, acl.Model, &Options{Place: place, PlanOnly: &plan}); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`place +call \d+ +(0x[0-9a-f]+)`).FindAllStringSubmatch(plan.String(), -1) {
		var a uint64
		if _, err := fmt.Sscan(m[1], &a); err != nil {
			t.Fatal(err)
		}
		at = append(at, a)
	}
	return at
}

// A bundle finds out by itself whether allocations are at their recorded addresses.
func TestBundleJudgesGuesses(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	tw.malloc(dev+512, 64)
	numbers := words(1, dev+512+8, 2, 3, 4, 5, 6, 7)
	tw.toDevice(dev, numbers)
	tw.toHost(dev, numbers)
	tw.malloc(dev+1024, 128) // the first half is not written
	tw.toDevice(dev+1024+64, numbers)
	tw.toHost(dev+1024, append(make([]byte, 64), numbers...))
	path, dir := tw.close(), filepath.Join(t.TempDir(), "bundle")
	if _, err := Bundle(path, acl.Model, dir, nil); err != nil {
		t.Fatal(err)
	}
	for base, want := range map[string]struct {
		code int
		text string
	}{
		fmt.Sprintf("%#x", uint64(dev)): {4, "1 of 2 results is unproved: it depends on memory that nothing has written"},
		other:                           {4, "2 of 2 results are unproved: they depend on words that may be addresses and were not relocated\n"},
	} {
		t.Setenv("FAKE_BASE", base)
		if out, code := runBundle(t, dir, l); code != want.code || !strings.Contains(out, want.text) {
			t.Errorf("%s: exit code %d\n%s", base, code, out)
		}
		if r := run(t, path, &Options{Backend: l, Verify: true}); !strings.Contains(r.Results.String()+"\n", want.text) {
			t.Errorf("%s: %s", base, &r.Results)
		}
	}
}
