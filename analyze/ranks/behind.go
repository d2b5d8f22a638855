package ranks

import (
	"cmp"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Behind is a rank that called fewer collectives on a communicator than another rank did.
type Behind struct {
	Comm   string `json:"comm"`   // communicator: its name, or # and its number in its process
	Rank   int    `json:"rank"`   // number of the rank
	Called int    `json:"called"` // collectives that it called
	Other  int    `json:"other"`  // number of the rank that called most
	Of     int    `json:"of"`     // collectives that the other rank called
	Func   string `json:"func"`   // the other rank's next collective
	Call   uint64 `json:"call"`   // its call
}

// FindBehind compares the numbers of collectives that the ranks of a merged trace called. Collectives in graphs count once, when they are captured. A
// rank without any call on a communicator may not belong to it, and is not reported.
func FindBehind(r *format.Reader, m *api.Model) ([]Behind, error) {
	if len(r.Meta().Merged) < 2 {
		return nil, nil
	}
	calls, procs := map[string]map[int][]*meeting{}, r.Processes() // by communicator and rank
	err := walk(r, m, func(k Key, x *meeting) error {
		ranks := calls[k.Comm]
		if ranks == nil {
			ranks = map[int][]*meeting{}
			calls[k.Comm] = ranks
		}
		rank := procs[x.process].Rank
		ranks[rank] = append(ranks[rank], x)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []Behind
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		ranks := calls[name]
		numbers := slices.Sorted(maps.Keys(ranks))
		other := slices.MaxFunc(numbers, func(a, b int) int { return cmp.Or(cmp.Compare(len(ranks[a]), len(ranks[b])), cmp.Compare(b, a)) })
		most := ranks[other]
		slices.SortFunc(most, func(a, b *meeting) int { return cmp.Compare(a.start, b.start) })
		for _, rank := range numbers {
			if n := len(ranks[rank]); n < len(most) {
				out = append(out, Behind{Comm: name, Rank: rank, Called: n, Other: other, Of: len(most), Func: most[n].fn.Name, Call: most[n].call})
			}
		}
	}
	return out, nil
}
