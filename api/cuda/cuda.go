// Package cuda is the model for the CUDA driver API, generated from the tables in this folder. Package runtimes lists its Model.
//
// The tables follow the documented interface in CUDA 12 and 13. The generated include/cuda.h lets programs compile without the
// toolkit. They also compile with the toolkit's own cuda.h. Values are constant, and nothing here calls the driver.
package cuda
