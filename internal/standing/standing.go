// Package standing describes calls in progress. A recording reports them on its socket (record/session), and package report prints them.
package standing

import (
	"fmt"

	"github.com/acltrace/acltrace/internal/human"
)

// Call is a call that has begun and not returned.
type Call struct {
	PID     int    `json:"pid"`          // process id
	TID     int    `json:"tid"`          // thread id
	Func    string `json:"func"`         // function
	On      string `json:"on,omitempty"` // stream or event in the arguments, with its handle
	StartNS int64  `json:"start_ns"`     // start on the clock of the trace's calls
	ForNS   int64  `json:"for_ns"`       // duration until now
}

func (c *Call) String() string {
	on := ""
	if c.On != "" {
		on = " on " + c.On
	}
	return fmt.Sprintf("thread %d of process %d in %s%s for %s", c.TID, c.PID, c.Func, on, human.Duration(c.ForNS))
}
