//go:build !aclsim_break

package acl

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// dispatch calls a function of the interface. The conformance suite's build has another one, which breaks a rule.
func (t *Thread) dispatch(fn api.ID, words []uint64) (uint64, bool) { return acl.Call(t, fn, words) }
