package spans

import (
	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline/step"
)

// longest is the number of entries of a critical path that the root of a step has.
const longest = 5

// maxName bounds the bytes of each name in an entry.
const maxName = 100

// ref is the number by which a path refers to a node: of the part, its thread and the node on the thread.
func ref(m *member) uint64 {
	return uint64(m.part.number)<<refPart | uint64(m.index)<<refThread | uint64(m.nodes.n-1)
}

// noRef is the ref of a call that is not in a part.
const noRef = ^uint64(0)

// The bits of a ref. A part has at most maxNodes nodes and one range more.
const refThread, refPart = 18, 40

// mark sets the times of a critical path on the nodes of parts that are not emitted, and its longest entries on the parts.
func (x *Encoder) mark(p *path.Path, parts []*part) {
	var in *part
	var m *member
	p.Times(func(ref uint64, inTask bool, ns int64) {
		number, thread, node := int(ref>>refPart), int(ref>>refThread&(1<<(refPart-refThread)-1)), int(ref&(1<<refThread-1))
		if in == nil || in.number != number || m.index != thread {
			in, m = find(parts, number, thread)
		}
		switch {
		case in == nil: // it is emitted
		case inTask:
			m.tasks.at(m.nodes.at(int32(node)).task).critical += ns
		default:
			m.nodes.at(int32(node)).critical += ns
		}
	})
	var entries []string
	for _, e := range p.Entries(longest) {
		entries = append(entries, entry(&e))
	}
	for _, q := range parts {
		q.entries = entries
	}
}

// find returns a part that is not emitted and its member; nil if there is none.
func find(parts []*part, number, thread int) (*part, *member) {
	for _, p := range parts {
		if p.number != number&(1<<(64-refPart)-1) || p.emitted {
			continue
		}
		for _, m := range p.threads {
			if m.index == thread {
				return p, m
			}
		}
	}
	return nil, nil
}

// entry describes an entry of a critical path, as the screen of stats --critical-path does.
func entry(e *path.Entry) string {
	what, least := e.Subject, ""
	what.Func, what.Name = what.Func[:min(len(what.Func), maxName)], what.Name[:min(len(what.Name), maxName)]
	if e.AtMost {
		least = "<= "
	}
	return what.String() + ": " + least + human.Duration(e.NS)
}

// stepPath marks the critical path of a step that has ended.
func (x *Encoder) stepPath(s *step.Step) {
	if x.path == nil || s.Open {
		return
	}
	p := x.path.Step(s)
	n := 0
	for n < len(x.parts.inStep) && x.parts.inStep[n].step <= s.Index {
		n++
	}
	x.mark(p, x.parts.inStep[:n])
}

// wholePath marks the critical path of a trace without steps.
func (x *Encoder) wholePath(last *part) {
	if x.path == nil {
		return
	}
	if p := x.path.Rest(); p != nil {
		x.mark(p, []*part{last})
	}
}
