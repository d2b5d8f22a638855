//go:build !aclsim_break

// Package mutant says which rule of the conformance suite this build of the simulator breaks.
//
// The suite proves each of its programs by running it on a simulator that breaks the program's rule: the program has to fail there. Only
// builds with the tag aclsim_break can break a rule. In every other build Breaks is constant, and the compiler drops the code that depends
// on it. The package is called by sim/device and sim/acl. It never changes while the process runs.
package mutant

// Enabled reports whether this build can break rules.
const Enabled = false

// Breaks reports whether the simulator breaks a rule.
func Breaks(string) bool { return false }
