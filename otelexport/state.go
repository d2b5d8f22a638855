package otelexport

import (
	"errors"
	"fmt"
	"slices"
)

// A State is the progress of an export: the requests that the receiver has accepted. The same trace and options give
// the same requests.
type State struct {
	Export   string `json:"export"`   // source, options and target
	Requests int    `json:"requests"` // all requests before this one were accepted
	Later    []int  `json:"later"`    // accepted later requests
	Sum      uint32 `json:"sum"`      // checksum of accepted requests
	Rejected int    `json:"rejected"` // spans rejected by the receiver
}

// ErrOtherExport reports that the interrupted export differs from this one.
var ErrOtherExport = errors.New("the interrupted export was another one")

func (s *State) has(request int) bool {
	return request < s.Requests || slices.Contains(s.Later, request)
}

// before reports whether all accepted requests come before this one.
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

// resume continues an interrupted export.
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

// same checks, once all accepted requests were skipped, that they equal the new ones.
func (s *sender) same() error {
	if s.from == nil || s.skipped == s.from.Sum {
		s.from = nil
		return nil
	}
	return fmt.Errorf("%w: the trace, or how acltrace makes spans of it, has changed since", ErrOtherExport)
}
