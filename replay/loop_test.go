package replay

import (
	"os"
	"strconv"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// A long loop of kernels is identical in its replay.
func TestReplayOfLongLoop(t *testing.T) { longLoop(t, 100_000) }

// TestSoakReplayOfLongLoop replays 10^7 calls.
func TestSoakReplayOfLongLoop(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes long: make soak")
	}
	longLoop(t, 9_500_000)
}

func longLoop(t *testing.T, launches int) {
	program := testenv.CompileC(t, "loop", []string{"testdata/loop.c"})
	binary := kernels(t)
	simulate(t)
	path := recorded(t, program, binary, strconv.Itoa(launches))
	r := run(t, path, &Options{Verify: true})
	identical(t, r, uint64(launches/10_000))
	if want := uint64(launches + launches/16 + launches/10_000); r.Replayed < want || r.Replayed > want+20 {
		t.Errorf("%d calls replayed, want about %d", r.Replayed, want)
	}
}
