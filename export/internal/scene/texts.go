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
	keyGraphKernels
	keyLost
	keyReason
	keyStep
	keyStepSource
	keyUntypical
	catStep
	keyDomain
	keyEndThread
	keyOperator
	keyPhase
	keyShapes
	catOperator
	catCall
	catTask
	catBracketed
	catRange
	catGap
	nameLost
	nameNotRecorded
)

// fixed has the texts. Keys that start with "." get the runtime's namespace.
var fixed = []string{
	keyCall: ".call", keyKernel: ".kernel", keyStream: ".stream", keyTask: ".task", keyBytes: ".bytes", keyRet: ".ret",
	keyError: ".error", keyUnfinished: ".unfinished", keyTruncated: ".truncated", keyRetries: ".retries", keyBracketed: ".bracketed",
	keyOpen: ".open", keyNotAfter: ".not_after_ns", keyBlocks: ".blocks", keyPageable: ".pageable", keyStreamID: ".stream_id",
	keyTaskID: ".task_id", keyEvent: ".event", keyGraph: ".graph", keyGraphTasks: ".graph_tasks", keyGraphKernels: ".graph_kernels", keyLost: ".lost", keyReason: ".reason",
	keyStep: ".step", keyStepSource: ".step_source", keyUntypical: ".untypical", catStep: "step", keyDomain: ".domain", keyEndThread: ".end_thread", keyOperator: ".operator", keyPhase: ".phase", keyShapes: ".shapes", catOperator: "operator",
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

func newTexts(namespace string) texts {
	t := texts{list: slices.Clone(fixed), syms: make(map[string]Sym, len(fixed))}
	for y := 1; y < len(fixed); y++ {
		if strings.HasPrefix(fixed[y], ".") {
			t.list[y] = namespace + fixed[y]
		}
		t.syms[t.list[y]] = Sym(y)
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
