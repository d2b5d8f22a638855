package fail

import (
	"fmt"
	"sync/atomic"
)

// failure is the error of a task or of an operation of the device, with the text that explains it.
type Failure struct {
	Code   Code
	Text   string
	Raised atomic.Bool // the program was told of it, where it is of a task
}

// failureCode is one of the device's own codes, which are negative, or a code of the layer above, which the device only passes on.
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
