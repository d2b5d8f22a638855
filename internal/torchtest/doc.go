// Package torchtest has tests with unmodified PyTorch: examples/pytorch and programs/ hold small training and inference programs, which run on the
// simulator, alone and recorded. `make test-torch` makes a virtual environment with the pinned wheels of requirements.txt, and runs the tests with its
// interpreter in ACLTRACE_TORCH. Without that variable they are skipped. Nothing imports this package.
package torchtest
