package device

import "time"

const (
	// tick is the resolution of the device's time stamps.
	Tick = 20 * time.Nanosecond
	// slack is how far the time of a stream may run ahead of the clock before the stream waits for it: less than that
	// can't be slept with any precision.
	slack = 100 * time.Microsecond
	// uptime is how long the device had been running when the program began.
	Uptime = 10 * time.Second
)

// clock is the time of devices and threads, in nanoseconds since the devices booted, and has the tasks of streams run in
// it. There are two: realClock and virtualClock.
type clock interface {
	// now is when a call of the thread happens; nil stands for nobody's call.
	Now(t *HostThread) time.Duration
	// begin and end are called for each thread.
	Join(t *HostThread)
	Leave(t *HostThread)
	// enter is called when a thread begins a call.
	Enter(t *HostThread)
	// spend lets time of the thread pass, that a call takes on the host.
	spend(t *HostThread, ns int64)
	// reach tells a thread that what it waited for happened at a time.
	Reach(t *HostThread, at time.Duration)
	// past tells whether a thread can know of what happened at a time.
	Past(t *HostThread, at time.Duration) bool
	// submitted is called for each task that a stream was given, with the stream's lock held.
	submitted(s *Stream, at time.Duration)
	// runLanes runs the lanes of a graph's execution.
	RunLane(r *Stream)
	// wait waits for a channel, within a limit.
	Wait(t *HostThread, ch <-chan struct{}, limit time.Duration) bool
	// changed says that something happened outside of the tasks of streams which they may wait for.
	Changed()
	// forget is called when a stream has ended.
	forget(s *Stream)
}
