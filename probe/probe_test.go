package probe

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestNowIsTheMonotonicClock(t *testing.T) {
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
		t.Fatal(err)
	}
	now := Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
		t.Fatal(err)
	}
	if now < before.Nano() || now > after.Nano() {
		t.Errorf("%d is not between %d and %d", now, before.Nano(), after.Nano())
	}
}

func TestCallWithoutEndIsUnfinished(t *testing.T) {
	if c := (Call{Start: 1}); !c.Unfinished() {
		t.Error("a call without an end is over")
	}
	for end := range int64(3) {
		if c := (Call{End: end + 1}); c.Unfinished() {
			t.Errorf("a call that ended at %d is unfinished", c.End)
		}
	}
}
