package replay

import (
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/testenv"
)

// A replay reports the time without a core: a thread that shares its core with a busy program has waited for it.
func TestTimeWithoutACore(t *testing.T) {
	l := library(t)
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		t.Skip("no taskset")
	}
	var cores unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cores); err != nil {
		t.Skip(err)
	}
	core := 0
	for !cores.IsSet(core) {
		core++
	}
	pin := []string{taskset, "-c", strconv.Itoa(core)}
	busy := exec.Command(pin[0], append(pin[1:], "sh", "-c", "while :; do :; done")...)
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	}()
	tw := newTrace(t)
	tw.begin()
	for range 2000 { // the player does not sleep between such close calls
		tw.now += 50e3
		tw.sync()
	}
	path := tw.close()
	var r *Report
	testenv.Wait(t, "a thread that waits for its core", func() bool {
		r = run(t, path, &Options{Backend: l, Pace: PaceRecorded, Wrapper: pin})
		if r.Cores == nil {
			t.Skip("the system does not tell")
		}
		return r.Cores.Threads[0].WaitedNS > 1e6
	})
	c := r.Cores
	if len(c.Threads) != 1 || c.Threads[0].TID != 1 || c.Threads[0].RanNS == 0 || c.Without() < c.Threads[0].WaitedNS || r.Pace.UnexplainedPercent > r.Pace.ErrorPercent {
		t.Errorf("%+v, %+v", c, r.Pace)
	}
	if r := run(t, path, &Options{Backend: l, Env: []string{"FAKE_CRASH=aclrtSynchronizeStream"}}); r.Cores != nil {
		t.Errorf("of a run without an end: %+v", r.Cores)
	}
}

// unexplained_percent is the error without the time in which threads lacked a core.
func TestUnexplainedErrorExcludesCoreWaits(t *testing.T) {
	for _, x := range []struct {
		late, waited, library, stolen int64
		left                          float64
	}{
		{20e6, 0, 0, 0, 20},
		{20e6, 3e6, 0, 0, 17},
		{20e6, 3e6, 2e6, 5e6, 10},
		{20e6, 30e6, 0, 0, 0},
		{-10e6, 30e6, 0, 0, -10},
	} {
		want := int64(100e6)
		r := &Report{Times: Times{RecordedNS: want, ReplayedNS: want + x.late}}
		r.Cores = &Cores{Threads: []ThreadCore{{1, CoreTime{0, x.waited}}}, Library: CoreTime{0, x.library}, StolenNS: x.stolen}
		r.Pace.tell(r, 1)
		if r.Pace.UnexplainedPercent != x.left {
			t.Errorf("%+v: %+v", x, r.Pace)
		}
	}
}

// A delay is made up for in the next long enough gap: calls begin at times of the whole run.
func TestMadeUp(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.sync() // right after a call that takes 30 ms
	tw.now += 200e6
	tw.sync()
	path := tw.close()
	testenv.Wait(t, "a last call that is not late", func() bool {
		r := run(t, path, &Options{Backend: l, Pace: PaceRecorded, Env: []string{"FAKE_DELAY=aclrtCreateStream"}})
		if r.Crash != nil || r.Pace.Late.Max < 25e6 {
			t.Fatalf("%+v, crash %+v", r.Pace.Late, r.Crash)
		}
		return r.Pace.Late.Last < 15e6
	})
}
