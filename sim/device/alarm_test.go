package device

import (
	"testing"
	"time"
)

// A timer that has rung is used again. Once a program has closed one, which it did not open, no other is made.
func TestNoTimerAfterAClosedOne(t *testing.T) {
	var l alarmList
	for range 2 {
		if l.Sleep(time.Microsecond); len(l.free) != 1 || len(l.dead) != 0 {
			t.Fatalf("%d timers are free, %d dead", len(l.free), len(l.dead))
		}
	}
	if err := l.free[0].file.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if l.Sleep(time.Microsecond); len(l.free) != 0 || len(l.dead) != 1 {
			t.Fatalf("after it was closed, %d timers are free, %d dead", len(l.free), len(l.dead))
		}
	}
	if a := l.Take(); a != nil {
		t.Error("a new timer")
	}
}
