// Package fault parses and counts planned errors.
//
// Parse is called once by sim/libascendcl/engine. sim/acl asks for a fault at each call, task and allocation, under
// the lock of Faults. The package never applies a fault.
package fault
