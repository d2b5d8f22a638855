package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// unshare ends one side of a shared object; nil is none.
func (s *Sim) unshare(x *memory.Shared) {
	switch {
	case x == nil:
	case x.Own:
		s.Shares.Withdraw(x)
	default:
		s.Shares.GiveBack(x)
	}
}

// pidList checks a list of processes.
func (t *Thread) pidList(pid *int32, num uint64) ([]int32, acl.Error) {
	if pid == nil || num == 0 || num > memory.SlotPids {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d processes at %#x: 1 to %d can be let in", num, space.AddressOf(pid), memory.SlotPids)
	}
	pids := space.List(pid, num)
	for _, p := range pids {
		if p <= 0 {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d is no process", p)
		}
	}
	return pids, acl.ACL_SUCCESS
}

// ticketOf reads a key of the program's.
func (t *Thread) ticketOf(key *byte) (uint64, acl.Error) {
	if key == nil {
		return 0, t.null("key")
	}
	ticket := memory.KeyTicket(space.GoString(key))
	if ticket == 0 {
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%.64q is no key", space.GoString(key))
	}
	return ticket, acl.ACL_SUCCESS
}
