// Package kernel has loaded binaries, their functions, argument lists and launches.
//
// sim/acl creates these objects and puts an Order on a stream as the work of a kernel task. The stream then calls Run.
// The package never looks up handles and never loads native code: device.Kernels provides that.
package kernel
