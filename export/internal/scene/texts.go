package scene

import (
	"slices"
	"strings"
	"unsafe"
)

// Sym numbers a text, from 1. A trace has few distinct texts.
type Sym uint32

// Texts that every scene has, with fixed numbers.
const (
	_ Sym = iota
	keyCall
	keyKernel
	keyStream
	keyTask
	keyBytes
	keyRet
	keyError
	keyUnfinished
	keyTruncated
	keyRetries
	keyBracketed
	keyOpen
	keyNotAfter
	keyBlocks
	keyPageable
	keyStreamID
	keyTaskID
	keyEvent
	keyGraph
	keyGraphTasks
	keyLost
	keyReason
	keyStep
	keyStepSource
	keyUntypical
	catStep
	keyDomain
	keyEndThread
	catCall
	catTask
	catBracketed
	catRange
	catGap
	nameLost
	nameNotRecorded
)

var fixed = []string{
	keyCall: "acl.call", keyKernel: "acl.kernel", keyStream: "acl.stream", keyTask: "acl.task", keyBytes: "acl.bytes", keyRet: "acl.ret",
	keyError: "acl.error", keyUnfinished: "acl.unfinished", keyTruncated: "acl.truncated", keyRetries: "acl.retries", keyBracketed: "acl.bracketed",
	keyOpen: "acl.open", keyNotAfter: "acl.not_after_ns", keyBlocks: "acl.blocks", keyPageable: "acl.pageable", keyStreamID: "acl.stream_id",
	keyTaskID: "acl.task_id", keyEvent: "acl.event", keyGraph: "acl.graph", keyGraphTasks: "acl.graph_tasks", keyLost: "acl.lost", keyReason: "acl.reason",
	keyStep: "acl.step", keyStepSource: "acl.step_source", keyUntypical: "acl.untypical", catStep: "step", keyDomain: "acl.domain", keyEndThread: "acl.end_thread",
	catCall: "call", catTask: "task", catBracketed: "bracketed", catRange: "range", catGap: "gap", nameLost: "calls lost", nameNotRecorded: "not recorded",
}

// texts numbers a scene's texts.
type texts struct {
	list   []string // by Sym, in valid UTF-8
	syms   map[string]Sym
	recent [64]struct { // syms cache, by text address
		at  *byte
		n   int
		sym Sym
	}
}

func newTexts() texts {
	t := texts{list: slices.Clone(fixed), syms: make(map[string]Sym, len(fixed))}
	for y := 1; y < len(fixed); y++ {
		t.syms[fixed[y]] = Sym(y)
	}
	return t
}

// Sym returns a text's number.
func (s *Scene) Sym(text string) Sym {
	// Most texts are kernel or function names and have the same address every time.
	at := unsafe.StringData(text)
	r := &s.texts.recent[uintptr(unsafe.Pointer(at))>>4%uintptr(len(s.texts.recent))]
	if r.at != at || r.n != len(text) || at == nil {
		r.at, r.n, r.sym = at, len(text), s.texts.sym(text)
	}
	return r.sym
}

func (t *texts) sym(text string) Sym {
	if y, ok := t.syms[text]; ok {
		return y
	}
	y := Sym(len(t.list))
	t.syms[text] = y
	t.list = append(t.list, strings.ToValidUTF8(text, "\uFFFD"))
	return y
}

// Text returns the numbered text, in valid UTF-8.
func (s *Scene) Text(y Sym) string { return s.texts.list[y] }
