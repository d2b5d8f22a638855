package report

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/internal/human"
)

// callsOf returns the calls to show for a fault of a captured graph.
func callsOf(f *graphs.Finding) string {
	from, to := f.Call, f.Call
	if o := f.Other; o != nil {
		from, to = min(from, *o), max(to, *o)
	}
	if from == to || to-from > 1000 {
		return number(f.Call)
	}
	return number(from) + ":" + number(to)
}

// graphFault describes a fault of a captured graph.
func graphFault(g *graphs.Finding) string {
	call := fmt.Sprintf("call %d, %s", g.Call, g.Func)
	on := func(stream string) string {
		if stream == "" {
			return ""
		}
		return " on " + stream
	}
	other := ""
	if g.Other != nil {
		other = fmt.Sprintf("call %d, %s%s", *g.Other, g.By, on(g.On))
	}
	text := ""
	switch g.Kind {
	case graphs.KeptArguments:
		text = fmt.Sprintf("each run of %s has the arguments that %s got in the capture (%s)", g.Graph, human.Kernel(g.Kernel), call)
		if g.Object != "" {
			text += fmt.Sprintf(": it waits for a record of %s, but no update or copy comes before that", g.Object)
		} else {
			text += ": other tasks of this kernel are in task groups, this one is not"
		}
	case graphs.MisfitUpdate:
		text = fmt.Sprintf("an update of %s has %s, the group has %d (%s)", g.Object, human.Plural(g.Have, "task"), g.Want, call)
		if g.Have == g.Want {
			text = fmt.Sprintf("an update of %s failed with error %d (%s)", g.Object, g.Code, call)
		}
	case graphs.EarlyUpdate:
		text = fmt.Sprintf("an update of %s may overtake an earlier run of %s: nothing lets %s%s wait for %s", g.Object, g.Graph, call, on(g.Stream), other)
	case graphs.LateUpdate:
		text = fmt.Sprintf("%s may overtake an update of %s: nothing lets it wait for %s%s", other, g.Object, call, on(g.Stream))
	case graphs.UnorderedInput:
		text = fmt.Sprintf("a run of %s may overtake a copy to its memory: nothing lets %s wait for %s%s", g.Graph, other, call, on(g.Stream))
	case graphs.MissingRecord:
		text = fmt.Sprintf("runs of %s wait for %s of %s, the trace has %d; the last is %s", g.Graph, human.Plural(g.Want, "record"), g.Object, g.Have, call)
	case graphs.ExtraRecord:
		text = fmt.Sprintf("%s is recorded more often than %s waits for it, which may release a run too early: %s for %s; the first too many is %s", g.Object, g.Graph,
			human.Plural(g.Have, "record"), human.Plural(g.Want, "wait"), call)
	case graphs.FreedMemory:
		text = fmt.Sprintf("%s runs after its memory %s was freed by %s; task %d, %s, uses it; the first such run is %s", g.Graph, g.Object, other, *g.Task, g.TaskFunc, call)
		if g.Now != "" {
			text += "; " + g.Now + " is there now"
		}
	case graphs.RefusedCall:
		text = fmt.Sprintf("a capture forbids %s%s: error %d; it began with %s", call, on(g.Stream), g.Code, other)
		if g.Thread != "" {
			text = fmt.Sprintf("a capture forbids %s by %s: error %d; it began with %s; a thread-local or relaxed mode would allow it", call, g.Thread, g.Code, other)
		}
	case graphs.UnjoinedStream:
		text = fmt.Sprintf("%s joined the capture of %s and was not joined back: nothing there waits for its last task, %s", g.Stream, other, call)
	case graphs.SlowUpdate:
		text = fmt.Sprintf("runs of %s wait for the host: %s of %s in %s, up to the last record of %s after each launch; the first is %s; update the graph earlier", g.Graph,
			human.Duration(g.WaitedNS), human.Duration(g.RunNS), human.Plural(g.Have, "run"), g.Object, call)
	case graphs.CapturedStreams:
		text = streamsText(g, call)
	}
	if g.Count > 1 && g.Kind != graphs.CapturedStreams {
		text += fmt.Sprintf("; %s in all", human.Plural(g.Count, "case"))
	}
	return text
}

// streamsText describes the graphs that hold most of a device's streams.
func streamsText(g *graphs.Finding, call string) string {
	text := fmt.Sprintf("%s hold %s of about %s that a device has for them, as of %s, before which they held %s", human.Plural(g.Graphs, "graph"), human.Plural(g.Have, "stream"),
		human.Count(g.Want), call, human.Count(g.Before))
	if g.Most > g.Have {
		text += fmt.Sprintf(", and later up to %s", human.Count(g.Most))
	}
	for i := range g.Holders {
		h := &g.Holders[i]
		name := h.First
		if h.Graphs > 1 {
			name = fmt.Sprintf("%s from %s to %s", human.Plural(h.Graphs, "graph"), h.First, h.Last)
		}
		text += fmt.Sprintf("; %s: %s", name, human.Count(h.Streams))
		switch n := len(h.Joined); {
		case n > maxJoined:
			text += fmt.Sprintf(", joined by %s and %d more", strings.Join(h.Joined[:maxJoined], ", "), n-maxJoined)
		case n > 0:
			text += ", joined by " + strings.Join(h.Joined, ", ")
		}
	}
	return text
}

// maxJoined is the number of streams that are named for a graph.
const maxJoined = 4
