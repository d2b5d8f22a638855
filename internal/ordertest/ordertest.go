// Package ordertest is the table of who precedes whom, and why: small programs with the order of their tasks. Package timeline/order and
// everything that uses it must agree with the table. Only tests import this package.
package ordertest

import (
	"slices"
	"strings"
	"testing"
)

// A Program is a sequence of calls, [THREAD:] [|] [RESULT] [NAME=]OPERATION [OBJECT] [STREAM], and its order.
//
// The second thread is "2:". "|" overlaps the call before. A result is "failed", "unfinished", or "complete" for a poll. Streams are s1 to s3,
// t1 of another device, p1 of another process, h1 of another machine, b1 and b2, which wait for the default stream "def", and "now" for a
// call that does the work itself. "lost" stands for calls that the trace lacks.
//
// In the order, "a<b" precedes certainly, "a?b" is unknown, and "x<-event r" is an edge to x, with "?" if it is not certain. "x<-nothing" has no edge from
// another stream.
type Program struct{ Name, Text, Want string }

// Streams are the names of streams.
var Streams = []string{"s1", "s2", "s3", "t1", "p1", "h1", "def", "b1", "b2", "now"}

// A Call is a call of a Program.
type Call struct {
	Name, Op, Object, Stream     string
	Word                         uint64 // 0 for none
	Second                       bool   // the second thread
	Start, End                   int64
	Failed, Unfinished, Complete bool
}

// Calls returns the calls of a program. Unnamed calls have the name "". Lost calls have the operation "lost".
func (p *Program) Calls() (calls []Call) {
	now := int64(0)
	for _, line := range strings.Split(p.Text, ";") {
		now += 10
		c := Call{Start: now, End: now + 5}
		words := strings.Fields(line)
		for ; ; words = words[1:] {
			switch words[0] {
			case "|":
				now -= 9
				c.Start, c.End = now, now+5
				continue
			case "2:":
				c.Second = true
				continue
			case "failed":
				c.Failed = true
				continue
			case "unfinished":
				c.Unfinished = true
				continue
			case "complete":
				c.Complete = true
				continue
			}
			break
		}
		c.Op = words[0]
		if name, op, named := strings.Cut(words[0], "="); named {
			c.Name, c.Op = name, op
		}
		for _, w := range words[1:] {
			switch {
			case strings.HasPrefix(w, "="):
				c.Word = uint64(len(w))
			case isStream(w):
				c.Stream = w
			default:
				c.Object = w
			}
		}
		calls = append(calls, c)
	}
	return calls
}

func isStream(w string) bool {
	for _, s := range Streams {
		if s == w {
			return true
		}
	}
	return false
}

// Wants returns the order of a program: pairs of tasks, and edges as "x<-event r".
func (p *Program) Wants() (pairs []Pair, edges []Edge) {
	for _, w := range strings.Split(p.Want, ", ") {
		if to, edge, ok := strings.Cut(w, "<-"); ok {
			edges = append(edges, Edge{to, edge})
		} else if w != "" {
			pairs = append(pairs, Pair{w[:1], w[2:], w[1] == '<'})
		}
	}
	return pairs, edges
}

// A Pair is two tasks. Certain means that Before certainly precedes After.
type Pair struct {
	Before, After string
	Certain       bool
}

// An Edge is the reason for an edge to a call, and the name of its other end: "event r", with "?" if it is not certain. "nothing" is no edge from
// another stream.
type Edge struct{ After, Text string }

// Before returns the name of the other end.
func (e *Edge) Before() string { return e.Text[strings.LastIndexByte(e.Text, ' ')+1:] }

// Is reports whether the reason is one of those named.
func (e *Edge) Is(whys ...string) bool {
	return slices.ContainsFunc(whys, func(why string) bool { return strings.HasPrefix(e.Text, why) })
}

// Programs are programs and their orders. "a<b" precedes certainly, "a?b" is unknown, "x<-event r" is an edge to x, with "?" if it is not certain.
var Programs = []Program{
	{"one stream", "a=run s1; b=run s1", "a<b, b<-same stream a"},
	{"two streams", "a=run s1; b=run s2", "a?b"},
	{"two threads on one stream", "a=run s1; 2: b=run s1", "a<b, b<-same stream a"},
	{"overlapping calls on one stream", "a=run s1; | 2: b=run s1", "a?b, b<-same stream? a"},
	{"later calls of overlapping threads", "a=run s1; | 2: b=run s1; c=run s1", "a<c, b<c, c<-same stream b"},
	{"an event", "a=run s1; r=rec e s1; w=wait e s2; b=run s2", "a<b, w<-event r"},
	{"an event recorded after the wait", "a=run s1; w=wait e s2; r=rec e s1; b=run s2", "a?b"},
	{"work after the record", "r=rec e s1; a=run s1; w=wait e s2; b=run s2", "a?b, w<-event r"},
	{"an event recorded twice", "a=run s1; r=rec e s1; q=rec e s3; w=wait e s2; b=run s2", "a?b, w<-event q"},
	{"a chain of events", "a=run s1; rec e s1; wait e s2; rec f s2; wait f s3; b=run s3", "a<b"},
	{"a record overlapping the wait", "a=run s1; r=rec e s1; | 2: w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"a record that begins during the wait", "a=run s1; r=rec e s1; w=wait e s2; | 2: rec e s3; b=run s2", "a?b"},
	{"a reset event", "a=run s1; r=rec e s1; reset e s1; w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"an ended event", "a=run s1; rec e s1; end e; w=wait e s2; b=run s2", "a?b"},
	{"a stream wait of the host", "a=run s1; w=sync s1; b=run s2", "a<b, w<-host wait a"},
	{"a stream wait in another thread", "a=run s1; 2: sync s1; b=run s2", "a<b"},
	{"a call during a wait", "a=run s1; sync s1; | 2: b=run s2", "a?b"},
	{"work made during a wait", "w=sync s1; | 2: a=run s1; b=run s2", "a?b"},
	{"a wait for what a stream waited for", "a=run s1; rec e s1; wait e s2; sync s2; b=run s3", "a<b"},
	{"a failed wait", "a=run s1; failed w=sync s1; b=run s2", "a?b, w<-host wait a"},
	{"an unfinished wait", "a=run s1; unfinished w=sync s1; 2: b=run s2", "a?b, w<-host wait a"},
	{"a wait for an event", "a=run s1; r=rec e s1; c=run s1; w=esync e; b=run s2", "a<b, c?b, w<-host wait for an event r"},
	{"a poll", "a=run s1; poll s1; b=run s2", "a?b"},
	{"a complete poll", "a=run s1; complete w=poll s1; b=run s2", "a<b, w<-host wait a"},
	{"a complete poll of an event", "a=run s1; rec e s1; complete epoll e; b=run s2", "a<b"},
	{"a device", "a=run s1; c=run s2; w=device; b=run s3", "a<b, c<b, w<-device wait a, w<-device wait c"},
	{"another device", "a=run t1; w=device s1; b=run s1", "a?b"},
	{"another process", "a=run p1; device s1; b=run s1", "a?b"},
	{"a process after another on one machine", "a=run s1; sync s1; b=run p1", "a<b"},
	{"a process on another machine", "a=run s1; sync s1; b=run h1", "a?b"},
	{"a notify", "new n; a=run s1; r=set n s1; w=take n s2; b=run s2", "a?b, w<-notify? r"},
	{"a notify and a wait of the host", "new n; a=run s1; set n s1; take n s2; sync s2; b=run s3", "a<b"},
	{"a notify recorded after its wait", "new n; w=take n s2; a=run s1; r=set n s1; sync s2; b=run s3", "a<b, w<-notify? r"},
	{"the second wait for a notify", "new n; a=run s1; set n s1; take n s2; sync s2; w=take n s2; c=run s1; r=set n s1; sync s2; b=run s3", "a<b, c<b, w<-notify? r"},
	{"a notify recorded during the wait of the host", "new n; w=take n s2; sync s2; | 2: a=run s1; | 2: r=set n s1; b=run s3", "a<b, w<-notify? r"},
	{"notifies in a row", "new n; new m; a=run s1; set n s1; take n s2; set m s2; take m s3; sync s3; b=run t1", "a<b"},
	{"a notify that another process may set", "new n; export n; import n p1; a=run s1; set n s1; take n s2; set n p1; sync s2; b=run s3", "a?b"},
	{"a notify set twice", "new n; a=run s1; set n s1; r=set n s1; w=take n s2; b=run s2", "a?b, w<-notify? r"},
	{"a notify set by two streams", "new n; w=take n s2; a=run s1; r=set n s1; set n s3; sync s2; b=run s2", "a?b"},
	{"a notify older than the trace", "a=run s1; r=set n s1; w=take n s2; b=run s2", "a?b, w<-notify? r"},
	{"a cleared notify", "new n; a=run s1; set n s1; clear n s1; w=take n s2; b=run s2", "a?b, w<-nothing"},
	{"a counting notify", "a=run s1; r=add n s1; w=atleast n s2; b=run s2", "a?b, w<-notify? r"},
	{"a value", "a=run s1; r=put =1 s1; w=get =1 s2; b=run s2", "a?b, w<-value? r"},
	{"a value written after its wait", "w=get =1 s2; a=run s1; r=put =1 s1; b=run s2", "a?b, w<-value? r"},
	{"another value", "q=put =12 s1; r=put =1 s1; w=get =12 s2; v=get =123 s3", "w<-value? q, v<-value? r"},
	{"another value written after its wait", "w=get =12 s2; r=put =1 s1; q=put =12 s1; v=get =123 s3", "w<-value? r, w<-value? q, v<-value? q"},
	{"a default stream", "a=run b1; c=run def; b=run b2", "a<c, c<b, a<b, c<-default stream a, b<-default stream c"},
	{"a stream beside a default stream", "a=run s1; b=run def", "a?b"},
	{"a call that does the work itself", "a=run now; b=run s1", "a<b"},
	{"the call of another thread that does the work itself", "a=run now; | 2: b=run s1", "a?b"},
	{"lost calls", "a=run s1; lost; b=run s1", "a?b, b<-same stream? a"},
	{"a device wait after lost calls", "a=run s1; lost; device; b=run s1; c=run s1", "a<b, b<c, c<-same stream b"},
	{"an event before lost calls", "a=run s1; r=rec e s1; lost; w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"an event after lost calls", "lost; device; a=run s1; r=rec e s1; w=wait e s2; b=run s2", "a<b, w<-event r"},
	{"an exported event", "export e; a=run s1; r=rec e s1; w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"an event of two processes", "export e; import e p1; a=run s1; r=rec e s1; w=wait e p1; b=run p1", "a<b, w<-event r"},
	{"an event that a graph records", "capture e s3; a=run s1; graph s3; r=rec e s1; w=wait e s2; b=run s2", "a?b, w<-event? r"},
	{"an event of a graph that did not run", "capture e s3; a=run s1; r=rec e s1; w=wait e s2; b=run s2", "a<b, w<-event r"},
}

// Check compares the order that a test has found with a program's. relation reports whether a task certainly precedes another; edges has the
// edges to each call, by name.
func (p *Program) Check(t *testing.T, relation func(before, after string) bool, edges map[string][]string) {
	t.Helper()
	pairs, wanted := p.Wants()
	for _, w := range pairs {
		if relation != nil && relation(w.Before, w.After) != w.Certain {
			t.Errorf("%s precedes %s for certain: %v", w.Before, w.After, !w.Certain)
		}
	}
	for _, e := range wanted {
		if edges == nil {
			continue
		}
		if e.Text == "nothing" {
			for _, got := range edges[e.After] {
				if !strings.HasPrefix(got, "same stream") {
					t.Errorf("%s<-%s", e.After, got)
				}
			}
		} else if !strings.Contains(strings.Join(edges[e.After], ", "), e.Text) {
			t.Errorf("%s<-%s: edges %q", e.After, e.Text, edges[e.After])
		}
	}
}
