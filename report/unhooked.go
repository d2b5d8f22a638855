package report

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/format"
)

// UnhookedReason returns why calls were not recorded, and which flag or command records them. Traces of earlier releases have both in the reason.
func UnhookedReason(u *format.Unhooked) string {
	switch u.Cause {
	case format.LinkedIn:
		return u.Reason + ": use --probe ebpf --library " + u.Exe
	case format.NoLoader:
		return u.Reason + "; record it with --probe ebpf"
	case format.NoUprobe:
		return u.Reason + ": --probe shim records them"
	case format.Outlived:
		return u.Reason + "; use acltrace attach"
	case format.CrashGuard:
		return u.Reason + ", or use acltrace collect --no-guard"
	}
	return u.Reason
}

// WithoutShim returns which processes can't have loaded the shim, and why.
func WithoutShim(us []format.Unhooked) string {
	const most = 3
	var s []string
	for i := range us {
		switch u := &us[i]; {
		case i == most:
			return strings.Join(append(s, fmt.Sprintf("%d more", len(us)-i)), "; ")
		case u.PID == 0:
			s = append(s, UnhookedReason(u))
		default:
			s = append(s, fmt.Sprintf("process %d (%s) ran without the shim: %s", u.PID, u.Exe, UnhookedReason(u)))
		}
	}
	return strings.Join(s, "; ")
}
