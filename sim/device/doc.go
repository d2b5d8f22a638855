// Package device holds the parts of a simulated device that know no runtime: sets of address ranges, tables of handles, host memory,
// marks of unknown bytes, kernels as functions of the host, and the cores and engines that tasks take in turns.
//
// Package sim builds a runtime from them, and sim/libascendcl provides the kernels. The package never uses a name of AscendCL, never
// calls into C and never looks at the environment.
package device
