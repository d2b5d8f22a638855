package otelexport

import (
	"errors"
	"fmt"
	"slices"
)

// A State is how far an export has come: which of its requests the receiver has taken. The same trace with the same options becomes
// the same requests.
type State struct {
	Export   string `json:"export"`   // what was exported, how and to where
	Requests int    `json:"requests"` // all before this one were taken
	Later    []int  `json:"later"`    // and these
	Sum      uint32 `json:"sum"`      // of what they held
	Rejected int    `json:"rejected"` // spans that the receiver did not take of them
}

// ErrOtherExport says that an export can't go on where another one ended.
var ErrOtherExport = errors.New("the interrupted export was another one")

func (s *State) has(request int) bool {
	return request < s.Requests || slices.Contains(s.Later, request)
}

// before reports whether all that was taken comes before a request.
func (s *State) before(request int) bool {
	return request >= s.Requests && (len(s.Later) == 0 || request > slices.Max(s.Later))
}

func (s *State) add(request int, sum uint32, rejected int) {
	s.Later = append(s.Later, request)
	for slices.Contains(s.Later, s.Requests) {
		s.Later = slices.DeleteFunc(s.Later, func(n int) bool { return n == s.Requests })
		s.Requests++
	}
	s.Sum ^= sum
	s.Rejected += rejected
}

// resume goes on where an export has ended.
func (s *sender) resume(from *State, export string) error {
	s.state.Export = export
	if from == nil {
		return nil
	}
	if from.Export != export {
		return fmt.Errorf("%w: it was %s; this is %s", ErrOtherExport, from.Export, export)
	}
	s.from, s.state = from, *from
	s.state.Later = slices.Clone(from.Later)
	s.res.Rejected = from.Rejected
	return nil
}

// same checks, behind all requests that were taken before, that the same ones were made now.
func (s *sender) same() error {
	if s.from == nil || s.skipped == s.from.Sum {
		s.from = nil
		return nil
	}
	return fmt.Errorf("%w: the trace, or how acltrace makes spans of it, has changed since", ErrOtherExport)
}
