// Package memory emulates device memory at stable addresses: allocations, reservations and physical memory, managed and pinned host
// memory, and memory, notifies and events that processes share.
//
// A Memory reserves its addresses when the device is first used and frees everything at FreeAll. Packages device and sim/acl call it from
// any goroutine. It never moves bytes for the program, never decides which error code a program sees, and knows no runtime API.
package memory
