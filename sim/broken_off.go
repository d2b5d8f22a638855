//go:build !aclsim_break

package sim

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// broken tells whether the simulator is to break a rule of the conformance suite, which the tests' own build can. In this one
// it never is, and the compiler drops what hangs on it.
func broken(string) bool { return false }

// breakable tells whether rules can be broken in this build.
const breakable = false

func (t *Thread) dispatch(fn api.ID, words []uint64) (uint64, bool) { return acl.Call(t, fn, words) }
