// Package device emulates accelerator devices: memory, contexts, streams, events, and clocks in real and virtual
// time. It knows no runtime API.
//
// A Machine holds the devices of one process. The layer above starts it, creates streams in contexts and submits
// tasks to them. Tasks run on goroutines beside the callers, or in virtual time inside the calls. The Machine reports
// failed tasks and ended streams to the layer above through the interface Runtime, and Close frees all memory.
//
// Sub-packages: space has address ranges and handles, memory has device memory and its sharing between processes,
// fail has errors. Package sim/acl calls this package; sim/libascendcl provides kernels. The package never calls into
// C, never reads the environment and never uses a name of AscendCL.
package device
