// Package cuda is the model of the CUDA driver API, generated from the tables in this folder. Names are the driver's own.
//
// The tables were written from the documented interface of CUDA 12 and 13. include/cuda.h is generated from them: programs that
// include it are compiled without the toolkit, and compile against the toolkit's header of the same name as well.
package cuda
