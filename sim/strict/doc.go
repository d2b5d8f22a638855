// Package strict finds program mistakes that a runtime may let pass and a device punishes later.
//
// Its core is a happens-before checker. Actors are the streams, each with a clock that counts its tasks, and the
// host. An actor knows each actor's progress that is certain. A stream knows what the host knew when its task was
// submitted, and what each awaited record knew. The host knows the progress that it has synchronized with. Each
// access by a task, a blocking copy or a free is compared with the last accesses to the same bytes. If one of them
// writes, the later actor must know the earlier access. Findings therefore do not depend on the actual order.
//
// All program threads are one actor, since their locks are invisible: a wait by one thread counts for all. Host
// functions belong to the host and run in stream order. The program's own accesses to host memory are invisible too.
// A pinned buffer is therefore hashed when an asynchronous copy from it is called, when it runs, and when the host
// first knows that it is done. All three hashes must be equal.
//
// A Checker lives as long as its process. Package sim/acl calls it for each call, package sim/device for each task
// and wait. The package never changes memory, and calls the runtime only through Options.
package strict
