// Package toolkit has what programs find of the vendor's toolkit on the simulator, besides the runtime and the operators: libraries in
// lib and hccl, and in root the scripts and headers that the API model does not have. internal/cmd/toolkit makes a folder of them, and
// internal/artifacts (Lay) copies it. The package itself has tests only.
//
// A function that is not simulated prints its name once and returns the documented error.
package toolkit
