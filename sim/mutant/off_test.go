//go:build !aclsim_break

package mutant

import "testing"

func TestUsualBuildsBreakNoRule(t *testing.T) {
	if Enabled || Breaks("") || Breaks("if_chooses") {
		t.Error("this build breaks rules")
	}
}
