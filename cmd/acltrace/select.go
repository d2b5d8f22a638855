package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
	"github.com/spf13/pflag"
)

// selectFlags choose calls. cat, stats and the exports have all of them, diff those of addCommon, top those of addLive.
type selectFlags struct {
	timeline.Selection
	call, step optional[human.Numbers]
	stream     optional[streamName]
	task       optional[format.TaskID]
	graph      optional[int]
	from, to   time.Duration
}

func (s *selectFlags) add(f *pflag.FlagSet) {
	s.addCommon(f)
	s.addOwn(f)
	s.task.parse = parseTask
	f.Var(&s.task, "task", "`TASK`: the call of this task, STREAM:ID")
	explain(f, "task", taskForms)
	f.IntVarP(&s.Most, "first", "n", 0, "`N`: the first N of these calls")
}

// addCommon adds the flags that choose the same calls in several runs of a program.
func (s *selectFlags) addCommon(f *pflag.FlagSet) {
	s.call.parse, s.step.parse = human.ParseNumbers, human.ParseNumbers
	f.Var(&s.call, "call", "`N[:M]`: call N, or calls N to M")
	f.Var(&s.step, "step", "`N[:M]`: calls of any process in step N, or N to M")
	f.DurationVar(&s.from, "from", 0, "`TIME`: calls that end at TIME or later")
	f.DurationVar(&s.to, "to", 0, "`TIME`: calls that start before TIME")
	explain(f, "from", "A time since the trace began, for example 1.5s. Calls that overlap the window are selected.")
	s.addNames(f)
}

// addLive adds the flags that need neither numbers nor the end of the trace.
func (s *selectFlags) addLive(f *pflag.FlagSet) {
	s.addNames(f)
	s.addOwn(f)
}

func (s *selectFlags) addNames(f *pflag.FlagSet) {
	s.stream.parse = parseStream
	f.StringSliceVar(&s.Funcs, "func", nil, "`GLOB`: calls of these functions")
	explain(f, "func", "In a GLOB, * and ? are wildcards. The flag may be given several times: a call matches one of the globs.")
	f.StringSliceVar(&s.Kernels, "kernel", nil, "`GLOB`: launches of these kernels")
	explain(f, "kernel", "A C++ kernel matches by its symbol, or by the name that is shown: --kernel 'add(*'.")
	f.StringSliceVar(&s.Operators, "operator", nil, "`GLOB`: calls in these operators")
	explain(f, "operator", "The calls that the program's operators make, with the marks that begin and end both phases. The trace has them if the program calls libnnopbase.")
	f.BoolVar(&s.Failed, "failed", false, "calls that failed, without questions answered no")
	f.Var(&s.stream, "stream", "`NAME`: calls on this stream; 2 is stream#2, as cat shows")
	explain(f, "stream", "--stream 2 and --stream 'stream#2' choose stream#2. --stream 'stream 1' and --stream 'default stream' take the names that stats and viewers "+
		"show: these number the streams of a process in the order of their first use.")
}

// addGraph adds the flag that lists a graph.
func (s *selectFlags) addGraph(f *pflag.FlagSet) {
	s.graph.parse = parseGraph
	f.Var(&s.graph, "graph", "`NAME`: calls whose tasks are in this graph; 5 is graph#5")
	explain(f, "graph", "The calls that captured the tasks, with how often updates replaced them, and of these updates the latest.")
}

// addOwn adds the flags about a call's own time and thread.
func (s *selectFlags) addOwn(f *pflag.FlagSet) {
	f.DurationVar(&s.Longer, "longer-than", 0, "`TIME`: calls that took longer")
	f.IntVar(&s.Thread, "thread", 0, "`TID`: calls of this thread")
}

// check checks the flags and completes the selection.
func (s *selectFlags) check() error {
	s.From, s.To = s.from.Nanoseconds(), s.to.Nanoseconds()
	s.Calls, s.Steps, s.Task, s.Graph = s.call.value, s.step.value, s.task.value, s.graph.or(0)
	if v := s.stream.value; v != nil {
		s.Stream, s.Lane = v.id, v.lane
	}
	switch {
	case s.Most < 0:
		return usage("--first %d: want 0 or more", s.Most)
	case s.Thread < 0:
		return usage("--thread %d: want 0 or more", s.Thread)
	case s.Longer < 0:
		return usage("--longer-than %v: want 0 or more", s.Longer)
	case s.From < 0 || s.To < 0 || s.To != 0 && s.To <= s.From:
		return usage("--from %v --to %v: want a start before the end", s.from, s.to)
	}
	return nil
}

// given reports whether a flag was given.
func (s *selectFlags) given() bool { return s.String() != "" }

// nothing reports whether flags were given and select no call. It prints a message then.
func (s *selectFlags) nothing(a *app, path string, calls uint64) bool {
	if calls > 0 || !s.given() {
		return false
	}
	report.Printf(a.err, "acltrace: %s: no call matches %s\n", path, s)
	if s.Stream != 0 {
		report.Printf(a.err, "acltrace: --stream %[1]d is stream#%[1]d, as cat shows it; stream %[1]d, as stats shows it, is --stream 'stream %[1]d'\n", s.Stream)
	}
	return true
}

// calls describes a number of selected calls: "1,024 calls", or "3 of 1,024 calls (--failed)" if flags were given.
func (s *selectFlags) calls(n int, total uint64) string {
	if !s.given() {
		return human.Plural(n, "call")
	}
	return fmt.Sprintf("%s of %s (%s)", human.Count(n), human.Plural(total, "call"), s)
}

// recorded returns the number of calls in a trace.
func recorded(r *format.Reader) (n uint64) {
	for c := range r.Chunks() {
		n += c.Calls
	}
	return n
}

// momentFlags name a call or a task.
type momentFlags struct {
	call optional[uint64]
	task optional[format.TaskID]
}

func (m *momentFlags) add(f *pflag.FlagSet, call, task string) {
	m.call.parse, m.task.parse = parseCall, parseTask
	f.Var(&m.call, "call", "`N`: "+call)
	f.Var(&m.task, "task", "`TASK`: "+task)
	explain(f, "task", taskForms)
}

func (m *momentFlags) both() bool { return m.call.value != nil && m.task.value != nil }

// optional is a flag without a default.
type optional[T any] struct {
	value *T
	text  string
	parse func(string) (T, error)
}

func (o *optional[T]) String() string { return o.text }

// or returns the value, otherwise if there is none.
func (o *optional[T]) or(otherwise T) T {
	if o.value == nil {
		return otherwise
	}
	return *o.value
}

func (o *optional[T]) Type() string { return "value" }

func (o *optional[T]) Set(s string) error {
	v, err := o.parse(s)
	if err == nil {
		o.value, o.text = &v, s
	}
	return err
}

// streamName is a stream's number as an object, or the name of its lane.
type streamName struct {
	id   int
	lane string
}

func parseStream(s string) (streamName, error) {
	number, _, _ := strings.Cut(strings.TrimPrefix(s, "stream#"), "(") // stream#6(per_thread)
	if id, err := strconv.Atoi(number); err == nil && id > 0 {
		return streamName{id: id}, nil
	}
	for _, name := range []string{"stream ", "default stream", "synchronous"} {
		if strings.HasPrefix(s, name) && len(s) > len("stream ") {
			return streamName{lane: s}, nil
		}
	}
	return streamName{}, fmt.Errorf("invalid stream %q: want stream#3 or 3, as cat shows it, or a name as in stats: 'stream 1', 'default stream'", s)
}

func parseGraph(s string) (int, error) {
	id, err := strconv.Atoi(strings.TrimPrefix(s, "graph#"))
	if err != nil || id <= 0 {
		return 0, fmt.Errorf("invalid graph %q: want graph#5 or 5, as cat and stats show it", s)
	}
	return id, nil
}

func parseTask(s string) (format.TaskID, error) {
	id, err := report.ParseTaskID(s)
	if err != nil {
		return format.TaskID{}, err
	}
	return *id, nil
}

func parseCall(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid call %q: want its number", s)
	}
	return n, nil
}
