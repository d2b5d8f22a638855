// Package api is the model of the traced runtimes: every function once, with its signature and its meaning.
//
// A runtime has a folder, such as api/acl. Its runtime.yaml describes the runtime as a whole and names its layers. Each layer
// has a folder with functions.tsv (signatures, extracted by a tool), semantics.yaml (meaning, written by hand) and ids.lock
// (ids, only ever appended). The layers of a runtime form one Model.
//
// internal/cmd/apigen generates the Go tables of this package's types, and the C code of the shim, the player and the
// simulators. Values of this package are constant after init, and any goroutine may read them. The package calls no runtime
// and knows none by name.
//
// Stability: Numbers of functions stay, since traces contain them. Before version 1.0 of acltrace, exported names may change with a line in
// CHANGELOG.md.
package api

// ID is the number of a function within its runtime. It is written to trace files, so it never changes and is never
// used again. 0 is no function.
type ID uint16
