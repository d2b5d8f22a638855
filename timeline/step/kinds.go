package step

import (
	"cmp"
	"slices"
)

// maxKinds bounds the number of kinds that are compared.
const maxKinds = 16

// A batch is the work from copies of inputs to the next such copies, or several such pieces that always follow each other.
type batch struct {
	from, to int // positions of pulses
	last     int // begin of the last piece
	kind     int // index of its kind
}

// A kind is the batches with like work. The first one is those that are like no other kind.
type kind struct {
	*bag
	ids          []uint64
	count, tasks int
	twice        bool // two of them follow each other
}

// twoKinds returns the cut into batches of two kinds, as those of a training and of its evaluations, nil if there are no two kinds. Batches that always
// follow each other are one step, and so are batches that a larger one ends or a smaller one begins, as accumulated gradients do.
func (r *rhythm) twoKinds() *cut {
	all := r.batches()
	if len(all) < minSteps {
		return nil
	}
	kinds := r.kinds(all)
	for r.join(&all, kinds) {
	}
	order := make([]int, len(kinds))
	for i := range order {
		order[i] = i
	}
	for i, b := range all {
		k := &kinds[b.kind]
		k.count++
		k.tasks += r.tasks[b.to] - r.tasks[b.from]
		k.twice = k.twice || i > 0 && all[i-1].kind == b.kind
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(kinds[b].tasks, kinds[a].tasks) })
	if len(order) < 3 || order[0] == 0 || order[1] == 0 {
		return nil
	}
	first, second := &kinds[order[0]], &kinds[order[1]]
	large, small := first, second
	if large.n < small.n {
		large, small = small, large
	}
	switch {
	case first.count < minSteps || second.count < 2 || float64(first.tasks+second.tasks) < covered*float64(r.tasks[len(r.pulses)]-r.tasks[all[0].from]):
		return nil
	case !large.twice && (!small.twice || small.part(large.ids) >= sameWork), !small.twice && r.sameKernels(all, order[0], order[1]):
		return nil
	}
	c := r.cutKinds(all, order[0], order[1], first.bag)
	if c != nil {
		c.both = first.count + second.count
	}
	return c
}

// sameKernels reports whether batches of two kinds launch mostly the same kernels. The first batch of accumulated gradients has none to add to, so it launches fewer
// kernels in between.
func (r *rhythm) sameKernels(all []batch, a, b int) bool {
	launched := func(kind int) (n int, times map[int32]int) {
		times = map[int32]int{}
		b := all[slices.IndexFunc(all, func(b batch) bool { return b.kind == kind })]
		for _, p := range r.pulses[b.from:b.to] {
			if r.symbols[p.symbol].class == Launch {
				n, times[p.symbol] = n+1, times[p.symbol]+1
			}
		}
		return n, times
	}
	n, first := launched(a)
	m, second := launched(b)
	both := 0
	for s, k := range first {
		both += min(k, second[s])
	}
	return float64(2*both) >= alike*float64(n+m)
}

// batches returns the batches of one piece.
func (r *rhythm) batches() []batch {
	var all []batch
	from, launched := -1, 0
	add := func(to int) {
		if from >= 0 {
			all = append(all, batch{from: from, to: to, last: from})
		}
		from, launched = to, r.launches[to]
	}
	ended := false
	for i, p := range r.pulses {
		d := &r.ops[p.op]
		switch s := &r.symbols[p.symbol]; {
		case s.class == Launch:
			ended = false
		case s.ends():
			ended = true
		case s.class == CopyIn && (from < 0 || r.launches[i] > launched) && (ended || d.Host || r.beat.lane == anyLane || d.Lane == int32(r.beat.lane)):
			add(i)
		}
	}
	if n := len(r.pulses); from >= 0 && r.launches[n] > launched {
		add(n)
	}
	return all
}

// kinds determines the kinds of batches.
func (r *rhythm) kinds(all []batch) []kind {
	kinds, known, compared := []kind{{bag: newBag(nil)}}, map[uint64]int{}, 0
	for i := range all {
		b := &all[i]
		ids, h := r.ids(b.from, b.to), stepHash
		for _, id := range ids {
			h = Mix(h, id)
		}
		if _, ok := known[h]; !ok {
			compared += len(ids) * len(kinds)
			k := max(0, slices.IndexFunc(kinds, func(k kind) bool { return k.like(ids) }))
			if k == 0 && len(kinds) <= maxKinds && compared < maxCompared {
				k = len(kinds)
				kinds = append(kinds, kind{bag: newBag(ids), ids: ids})
			}
			known[h] = k
		}
		b.kind = known[h]
	}
	return kinds
}

// join joins the batches of a kind with the ones after them, if these come after no other kind. It returns false if there is no such kind. A kind of one batch,
// such as the first one, does not count.
func (r *rhythm) join(all *[]batch, kinds []kind) bool {
	count, follows := make([]int, len(kinds)), map[[2]int]bool{}
	for _, b := range *all {
		count[b.kind]++
	}
	for i, b := range (*all)[1:] {
		if a := (*all)[i]; count[a.kind] > 1 && count[b.kind] > 1 {
			follows[[2]int{a.kind, b.kind}] = true
		}
	}
	begins := func(a int) bool {
		found := 0
		for pair := range follows {
			if pair[0] == a && (pair[1] == a || pair[1] == 0) || pair[0] != a && follows[[2]int{a, pair[1]}] {
				return false
			}
			if pair[0] == a {
				found++
			}
		}
		return found > 0
	}
	for a := 1; a < len(kinds); a++ {
		if !begins(a) {
			continue
		}
		var joined []batch
		for i, x := range *all {
			if i == 0 || (*all)[i-1].kind != a {
				joined = append(joined, x)
				continue
			}
			last := &joined[len(joined)-1]
			last.to, last.last, last.kind = x.to, x.from, x.kind
			kinds[x.kind].ids = r.ids(last.from, last.to)
		}
		for i := range kinds {
			kinds[i].bag = newBag(kinds[i].ids)
		}
		*all = joined
		return true
	}
	return false
}

// cutKinds returns the cut into batches of two kinds, nil if no launches tell them from their earlier pieces. The first kind is typical.
func (r *rhythm) cutKinds(all []batch, first, second int, typical *bag) *cut {
	early := map[int32]bool{}
	for _, b := range all {
		if b.kind == first || b.kind == second {
			for _, p := range r.pulses[b.from:b.last] {
				early[p.symbol] = true
			}
		}
	}
	// mark returns the launch that most last pieces have.
	mark := func(kind int) int32 {
		in, seen := map[int32]int{}, map[int32]int{}
		best := int32(-1)
		for i, b := range all {
			if b.kind != kind {
				continue
			}
			for _, p := range r.pulses[b.last:b.to] {
				if s := p.symbol; r.symbols[s].class == Launch && !early[s] && seen[s] != i+1 {
					seen[s] = i + 1
					if in[s]++; best < 0 || in[s] > in[best] {
						best = s
					}
				}
			}
		}
		return best
	}
	a, b := mark(first), mark(second)
	if a < 0 || b < 0 {
		return nil
	}
	c := r.cutAtBoth(a, b, beforeNext)
	c.how = nearly
	if len(c.at) < minSteps {
		return nil
	}
	hashes, count, like := c.hashes(), map[uint64]int{}, map[uint64]bool{}
	c.model = -1
	for i, h := range hashes {
		if count[h]++; count[h] == 1 {
			like[h] = typical.like(c.ids(c.at[i], c.at[i+1]))
		}
		if like[h] && (c.model < 0 || count[h] > count[hashes[c.model]]) {
			c.model = i
		}
	}
	if c.model < 0 || !c.compare(hashes) || c.n < minSteps {
		return nil
	}
	c.edges()
	return c
}
