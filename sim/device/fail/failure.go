// Package fail has the errors of the emulated devices.
//
// A Failure is created where a task or an operation fails and kept until the program has seen it. The packages memory, device and acl create
// and read failures. sim/acl/status maps the codes to those of the runtime. The package never logs.
package fail

import (
	"fmt"
	"sync/atomic"
)

// Failure is the error of a task or a device operation, with its text.
type Failure struct {
	Code   Code
	Text   string
	Raised atomic.Bool // reported to the program by a callback
}

// Code is an error code: negative for the device's own codes, else a code of the layer above.
type Code int32

const (
	OutOfMemory Code = -1 - iota
	NoHostMemory
	BadAddress
	Aborted
	Ended
	TooMany
	PeerLost
	Denied
	Invalid
	NoStream
)

func New(code Code, format string, a ...any) *Failure {
	return &Failure{Code: code, Text: fmt.Sprintf(format, a...)}
}
