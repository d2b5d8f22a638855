// Package api is the model of the traced runtimes: every function once, with its signature and what it means.
//
// The tables of one layer of a runtime lie in a folder of their own (api/acl, api/rt for the library below it, api/hccl for
// the collectives above, api/mstx for what programs tell tools, and api/program for what of the program's the runtime calls):
// functions.tsv holds the signatures as a machine extracted them, semantics.yaml what a prototype can't say, ids.lock the
// numeric ids, which are only ever appended. The layers of a runtime are one Model.
// internal/cmd/apigen turns them into the Go tables that this package describes, and into the C of the shim, the
// player and the simulator's face. Values of this package are constant after init and may be read from anywhere.
// Nothing here calls a runtime or knows one by name.
package api

// ID is the number of a function within its runtime. It is written to trace files, so it never changes and is never
// used again. 0 is no function.
type ID uint16
