package device

import "time"

const (
	// Tick is the resolution of device timestamps.
	Tick = 20 * time.Nanosecond
	// slack is how far stream time may run ahead of the clock before the stream sleeps. Shorter sleeps are too
	// imprecise.
	slack = 100 * time.Microsecond
	// Uptime is the device time at which the program begins.
	Uptime = 10 * time.Second
)

// clock is the time of devices and threads, in nanoseconds since the devices booted, and runs stream tasks at their
// time. RealClock and virtualClock implement it.
type clock interface {
	// Now returns the time of a thread's call; for a nil thread, the latest time.
	Now(t *HostThread) time.Duration
	// Join and Leave are called when a thread begins and ends.
	Join(t *HostThread)
	Leave(t *HostThread)
	// Enter is called when a thread begins a call.
	Enter(t *HostThread)
	// spend adds host time that a call takes to the thread's time.
	spend(t *HostThread, ns int64)
	// Reach advances a thread to the time of the event that it waited for.
	Reach(t *HostThread, at time.Duration)
	// Past reports whether a thread can have seen an event at a time.
	Past(t *HostThread, at time.Duration) bool
	// submitted is called for each submitted task. The caller holds the stream's lock.
	submitted(s *Stream, at time.Duration)
	// RunLane runs the tasks of a stream with a TaskSource.
	RunLane(r *Stream)
	// Wait waits for a channel and reports whether it was closed within the limit.
	Wait(t *HostThread, ch <-chan struct{}, limit time.Duration) bool
	// Changed has blocked tasks check their condition again, after a change that no task made.
	Changed()
	// forget is called when a stream has ended.
	forget(s *Stream)
}
