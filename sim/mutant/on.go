//go:build aclsim_break

package mutant

import "os"

const Enabled = true

// Rule is the broken rule, from the environment variable ACLSIM_BREAK.
var Rule = os.Getenv("ACLSIM_BREAK")

func Breaks(rule string) bool { return rule == Rule }
