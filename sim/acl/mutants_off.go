//go:build !aclsim_break

package acl

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// dispatch calls a function. The build for the conformance suite has another implementation, which breaks a rule.
func (t *Thread) dispatch(fn api.ID, words []uint64) (uint64, bool) { return acl.Call(t, fn, words) }
