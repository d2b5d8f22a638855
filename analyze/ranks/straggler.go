package ranks

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Standing sums up one rank's collectives.
type Standing struct {
	Rank   int    `json:"rank"`      // number of the rank
	Met    uint64 `json:"met"`       // collectives with other ranks
	Last   uint64 `json:"last"`      // collectives in which it was the last to begin
	Waited int64  `json:"waited_ns"` // from its own beginnings to the last rank's
	Caused int64  `json:"caused_ns"` // time that the other ranks waited for it, when it was the last

	Longest int64 `json:"longest_ns"` // part of that at one collective
}

// Wait is a collective with a long wait.
type Wait struct {
	Key
	Func      string `json:"func"`      // function of the collective
	Start     int64  `json:"start_ns"`  // beginning on the first rank
	Spread    int64  `json:"spread_ns"` // until the beginning on the last rank
	Straggler int    `json:"straggler"` // rank that began last
}

// Meetings has Compare's findings.
type Meetings struct {
	Count   uint64     `json:"count"`             // collectives with at least two ranks
	Ranks   []Standing `json:"ranks"`             // sums by rank
	Longest []Wait     `json:"longest,omitempty"` // collectives with the longest waits, at most ten
}

// mostOpen limits the collectives that are kept while some ranks are missing. Older ones count with the ranks that
// are there.
const mostOpen = 1 << 14

// Compare sums up the waits at a merged trace's collectives. It returns nil for a single rank, or if no ranks meet.
func Compare(r *format.Reader, m *api.Model, longest int) (*Meetings, error) {
	if len(r.Meta().Merged) < 2 {
		return nil, nil
	}
	g := gatherer{ranks: map[int]*Standing{}, open: map[Key]*gathered{}, of: r.Processes(), all: len(r.Meta().Merged), longest: longest}
	if err := walk(r, m, g.add); err != nil {
		return nil, err
	}
	for len(g.order) > 0 {
		g.close(g.order[0])
	}
	if g.out.Count == 0 {
		return nil, nil
	}
	for _, s := range g.ranks {
		g.out.Ranks = append(g.out.Ranks, *s)
	}
	slices.SortFunc(g.out.Ranks, func(a, b Standing) int { return a.Rank - b.Rank })
	return &g.out, nil
}

type gatherer struct {
	ranks   map[int]*Standing
	open    map[Key]*gathered
	order   []Key
	of      []format.Process
	all     int
	longest int
	out     Meetings
}

type gathered struct {
	fn   *api.Func
	came []arrival
}

type arrival struct {
	rank int
	at   int64
}

func (g *gatherer) add(k Key, m *meeting) error {
	x := g.open[k]
	if x == nil {
		x = &gathered{fn: m.fn}
		g.open[k] = x
		g.order = append(g.order, k)
	}
	x.came = append(x.came, arrival{g.of[m.process].Rank, m.start})
	if len(x.came) == g.all {
		g.close(k)
	} else if len(g.order) > mostOpen {
		g.close(g.order[0])
	}
	return nil
}

func (g *gatherer) close(k Key) {
	x := g.open[k]
	delete(g.open, k)
	if i := slices.Index(g.order, k); i >= 0 {
		g.order = slices.Delete(g.order, i, i+1)
	}
	if x == nil || len(x.came) < 2 {
		return
	}
	by := func(a, b arrival) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) }
	first, last := slices.MinFunc(x.came, by), slices.MaxFunc(x.came, by)
	g.out.Count++
	for _, a := range x.came {
		s := g.ranks[a.rank]
		if s == nil {
			s = &Standing{Rank: a.rank}
			g.ranks[a.rank] = s
		}
		s.Met++
		s.Waited += last.at - a.at
	}
	late, caused := g.ranks[last.rank], int64(0)
	for _, a := range x.came {
		caused += last.at - a.at
	}
	late.Last, late.Caused, late.Longest = late.Last+1, late.Caused+caused, max(late.Longest, caused)
	if g.longest == 0 {
		return
	}
	w := Wait{Key: k, Func: x.fn.Name, Start: first.at, Spread: last.at - first.at, Straggler: last.rank}
	at, _ := slices.BinarySearchFunc(g.out.Longest, w, func(a, b Wait) int { return cmp.Compare(b.Spread, a.Spread) })
	if g.out.Longest = slices.Insert(g.out.Longest, at, w); len(g.out.Longest) > g.longest {
		g.out.Longest = g.out.Longest[:g.longest]
	}
}
