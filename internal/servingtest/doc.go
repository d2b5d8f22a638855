// Package servingtest runs examples/serving, which writes what it did, and compares that with acltrace's results.
//
// TestClean runs it without a fault: steps, kernels and live memory must be those of the program, and no finding may be false. TestFaults makes
// each fault of the program's table, and fails if the feature that the table names does not name the cause. Faults without a feature are printed.
// `go test ./internal/servingtest` runs a short matrix, ACLTRACE_SOAK=1 all.
package servingtest
