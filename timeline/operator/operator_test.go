package operator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
)

// A story passes marks and launches to Operators at the moments 1, 2, 3 and so on, and lists the parts that ended.
type story struct {
	o    Operators
	at   int64
	seen []string
}

func newStory() *story {
	s := &story{}
	s.o.Ended = func(p *Part) {
		one := ""
		if p.One != NoCall {
			one = fmt.Sprintf(" of %d", p.One)
		}
		s.seen = append(s.seen, fmt.Sprintf("%s%s %s%s %d-%d", strings.Repeat("  ", p.Depth), p.Name, p.Phase, one, p.From, p.To))
	}
	return s
}

func (s *story) mark(thread uint32, kind api.OperatorMark, name string, executor uint64) {
	s.at++
	s.o.Apply(&Mark{Kind: kind, Name: name, Thread: thread, Call: uint64(s.at), At: s.at, Executor: executor})
}

func (s *story) call(thread uint32, f *api.Func) {
	s.at++
	s.o.Call(thread, f, s.at)
}

func (s *story) launch(thread uint32) string {
	s.call(thread, &api.Func{Meaning: api.Meaning{Task: api.Kernel}})
	if p := s.o.Outermost(thread); p != nil {
		return p.Name
	}
	return ""
}

const (
	one, two, inner, run, end                                  = api.OperatorPhaseOne, api.OperatorPhaseTwo, api.OperatorInner, api.OperatorRun, api.OperatorEnd
	generatedOne, generatedSize, generatedTwo api.OperatorMark = api.GeneratedPhaseOne, api.GeneratedWorkspace, api.GeneratedPhaseTwo
)

// Each case is a sequence of marks, and which parts of operators they are.
func TestPartsOfOperators(t *testing.T) {
	question, wait := &api.Func{}, &api.Func{}
	question.Stream, wait.Stream, wait.Sync = 0, 0, api.SyncStream
	tests := []struct {
		name string
		do   func(*story)
		want []string
	}{
		{"both phases on a thread", func(s *story) {
			s.mark(1, one, "aclnnAdd", 0)
			s.mark(1, inner, "Add", 7)
			s.mark(1, end, "", 0)
			s.mark(1, end, "", 7)
			s.mark(1, two, "aclnnAdd", 7)
			s.mark(1, run, "", 7)
			s.launch(1)
			s.mark(1, end, "", 0)
		}, []string{"  Add inner 2-3", "aclnnAdd phase one 1-4", "aclnnAdd phase two of 1 5-8"}},
		{"phase two on another thread", func(s *story) {
			s.mark(1, one, "aclnnAdd", 0)
			s.mark(1, end, "", 7)
			s.mark(2, two, "aclnnAdd", 7)
			s.mark(1, one, "aclnnMul", 0)
			s.launch(2)
			s.mark(2, end, "", 0)
			s.mark(1, end, "", 8)
		}, []string{"aclnnAdd phase one 1-2", "aclnnAdd phase two of 1 3-6", "aclnnMul phase one 4-7"}},
		{"a cached executor has no phase one", func(s *story) {
			s.mark(1, two, "aclnnAdd", 7)
			s.mark(1, end, "", 0)
		}, []string{"aclnnAdd phase two 1-2"}},
		{"an executor is used again at once", func(s *story) {
			for _, name := range []string{"aclnnAdd", "aclnnMul"} {
				s.mark(1, one, name, 0)
				s.mark(1, end, "", 7)
				s.mark(1, two, name, 7)
				s.mark(1, end, "", 0)
			}
			s.mark(1, two, "aclnnSub", 7) // from a cache
			s.mark(1, end, "", 0)
		}, []string{"aclnnAdd phase one 1-2", "aclnnAdd phase two of 1 3-4", "aclnnMul phase one 5-6", "aclnnMul phase two of 5 7-8", "aclnnSub phase two 9-10"}},
		{"phase one failed, and another operator gets its executor's address", func(s *story) {
			s.mark(1, one, "aclnnAdd", 0)
			s.mark(1, end, "", 0)
			s.mark(1, two, "aclnnMul", 7)
			s.mark(1, end, "", 0)
		}, []string{"aclnnAdd phase one 1-2", "aclnnMul phase two 3-4"}},
		{"another operator inside, with both phases", func(s *story) {
			s.mark(1, one, "aclnnConvolution", 0)
			s.mark(1, one, "aclnnInnerConvolution", 0)
			s.mark(1, end, "", 8)
			s.mark(1, end, "", 7)
			s.mark(1, two, "aclnnConvolution", 7)
			s.mark(1, two, "aclnnInnerConvolution", 8)
			if got := s.launch(1); got != "aclnnConvolution" {
				panic(got)
			}
			s.mark(1, end, "", 0)
			s.mark(1, end, "", 0)
		}, []string{"  aclnnInnerConvolution phase one 2-3", "aclnnConvolution phase one 1-4", "  aclnnInnerConvolution phase two of 2 6-8", "aclnnConvolution phase two of 1 5-9"}},
		{"an end of nothing", func(s *story) {
			s.mark(1, end, "", 0)
			s.mark(2, generatedSize, "", 7)
		}, nil},
		{"a generated operator ends at the next call that is no launch", func(s *story) {
			s.mark(1, generatedOne, "Cast", 0)
			s.mark(1, generatedSize, "", 7)
			s.mark(2, generatedTwo, "", 7)
			s.launch(2)
			for _, f := range []*api.Func{question, wait} {
				s.call(2, f)
			}
			s.mark(2, generatedTwo, "", 7) // it is older than the trace, or has run
		}, []string{"Cast phase one 1-2", "Cast phase two of 1 3-4"}},
		{"an address that comes again before the phase two that frees it", func(s *story) {
			s.mark(1, one, "aclnnCat", 0)
			s.mark(1, end, "", 7)
			s.mark(1, one, "aclnnCopy", 0)
			s.mark(1, end, "", 7)
			s.mark(2, two, "aclnnCat", 7)
			s.mark(2, end, "", 0)
			s.mark(2, two, "aclnnCopy", 7)
			s.mark(2, end, "", 0)
		}, []string{"aclnnCat phase one 1-2", "aclnnCopy phase one 3-4", "aclnnCat phase two of 1 5-6", "aclnnCopy phase two of 3 7-8"}},
		{"a generated operator ends at the next mark", func(s *story) {
			s.mark(1, generatedOne, "Cast", 0)
			s.mark(1, generatedSize, "", 7)
			s.mark(1, generatedTwo, "", 7)
			s.launch(1)
			s.mark(1, one, "aclnnAdd", 0)
		}, []string{"Cast phase one 1-2", "Cast phase two of 1 3-4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory()
			if tt.do(s); !slices.Equal(s.seen, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(s.seen, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// A part that code leaves without an end is dropped at last.
func TestPartsWithoutAnEnd(t *testing.T) {
	s := newStory()
	for range maxDepth {
		s.mark(1, one, "aclnnAdd", 0)
	}
	s.mark(1, two, "aclnnMul", 7)
	if p := s.o.Outermost(1); p == nil || p.Name != "aclnnMul" {
		t.Errorf("%+v is open", p)
	}
	s.mark(1, end, "", 0)
	if want := []string{fmt.Sprintf("aclnnMul phase two %d-%d", maxDepth+1, maxDepth+2)}; !slices.Equal(s.seen, want) {
		t.Errorf("%q, want %q", s.seen, want)
	}
	if p := s.o.Outermost(1); p != nil || s.launch(1) != "" || s.launch(9) != "" {
		t.Errorf("%+v is open", p)
	}
}

// Any marks make parts that end once, the innermost first.
func TestPartsNest(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var o Operators
		open := map[uint32]int{}
		o.Ended = func(p *Part) {
			if open[p.Thread]--; p.To < p.From || p.Depth != open[p.Thread] {
				t.Fatalf("seed %d: %+v ends, %d are open", seed, p, open[p.Thread])
			}
		}
		for at := range int64(3_000) {
			thread := r.Uint32N(3)
			if k := r.IntN(10); k < 9 {
				if p := o.Apply(&Mark{Kind: api.OperatorMark(k), Name: string('a' + rune(r.IntN(4))), Thread: thread, Call: uint64(at), At: at, Executor: r.Uint64N(5)}); p != nil {
					open[thread] = p.Depth + 1
				}
			} else {
				o.Call(thread, nil, at)
			}
		}
		if o.Finish(); o.loose != 0 || len(o.executors) > 5*4 || len(o.latest) > 5 { // of each operator at each address
			t.Errorf("seed %d: %d generated operators are open, %d executors", seed, o.loose, len(o.executors))
		}
	}
}

// Executors from a cache name no phase one. Their operator was prepared by the only thread that has run its phase one, as each thread has its own cache.
func TestPreparersOfOperators(t *testing.T) {
	s := newStory()
	prepare := func(thread uint32, name string, executor uint64) {
		s.mark(thread, one, name, 0)
		s.mark(thread, end, "", executor)
	}
	launch := func(name string, executor uint64) int32 {
		s.mark(9, two, name, executor)
		defer s.mark(9, end, "", 0)
		return s.o.Outermost(9).Preparer
	}
	check := func(what string, got, want int32) {
		if got != want {
			t.Errorf("%s: prepared by %d, want %d", what, got, want)
		}
	}
	check("before any phase one", launch("add", 0x70), -1)
	prepare(1, "add", 0x70)
	prepare(2, "mul", 0x71)
	check("its executor", launch("mul", 0x71), 2)
	check("a cached executor", launch("mul", 0x72), 2)
	prepare(2, "add", 0x73)
	check("the executor of one of two threads", launch("add", 0x73), 2)
	check("a cached executor of one of two threads", launch("add", 0x74), -1)
	check("an operator of no thread", launch("sub", 0x75), -1)
}
