// Package strict finds mistakes of a program that a runtime may let pass and a device punishes later.
//
// Its core is a happens-before checker. Actors are the streams, each with a clock that counts its tasks, and the host. An actor knows, for
// each actor, the progress that is certain. A stream knows the knowledge of the host at the submission of its task, and the knowledge of
// each record that it waited for. The host knows the progress of everything that it has synchronized with. Each access of a task, a
// blocking copy or a free is compared with the last accesses to the same bytes: if one of the two writes, the actor of the later access
// must know the earlier one. So a mistake is found in whatever order the two happened to run.
//
// All threads of the program are one actor: their locks can't be seen, so a wait by one thread counts for all threads. Host functions
// belong to the host and are in the order of their streams. Accesses of the program itself to host memory can't be seen either. The bytes
// of a pinned buffer are hashed when an asynchronous copy from it is called, when it runs, and when the host first knows that it is done:
// the three have to be equal.
//
// Package sim calls a Checker for each call, task and wait. The package never changes memory and never calls the runtime but by Options.
package strict
