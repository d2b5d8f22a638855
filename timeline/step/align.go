package step

import "slices"

// align moves the boundaries of a cut to the place at which the program begins to prepare the next step: to the copies from the host with which the
// step begins, and before them to the wait that ends the step before.
func (c *cut) align() *cut {
	in := c.inputs()
	if in == nil {
		return c
	}
	moved := c.movedTo(in)
	if moved == nil {
		if more := c.optimized(); more != nil {
			return more
		}
		return c
	}
	moved.how = nearly
	if moved.mark() == nil {
		return c
	}
	if more := moved.accumulated(); more != nil {
		moved = more
	}
	moved.edges()
	if moved.n < c.n-1 && moved.n < minSteps {
		return c
	}
	return moved
}

// An input is a place in the model where copies from the host begin, after launches.
type input struct {
	at       int  // position in the model
	launches int  // since the input before
	ended    bool // the host has waited since the last launch
}

// inputs returns the input with which steps begin, nil if there is none: one after a wait, otherwise the one after most launches.
func (c *cut) inputs() *input {
	from, to := c.at[c.model], c.at[c.model+1]
	var best *input
	launches, ended, copies := 0, false, false
	for lap := range 2 { // the step before comes first
		for i := from; i < to; i++ {
			p := c.r.pulses[i]
			d := &c.r.ops[p.op]
			switch s := &c.r.symbols[p.symbol]; {
			case s.class == Launch:
				launches += int(d.Launches)
				ended, copies = false, false
			case s.ends():
				ended, copies = true, false
			case s.class != CopyIn || copies:
			case ended || d.Host || c.r.beat.lane == anyLane || d.Lane == int32(c.r.beat.lane):
				if lap == 1 && launches > 0 && (best == nil || ended && !best.ended || ended == best.ended && launches > best.launches) {
					best = &input{i - from, launches, ended}
				}
				launches, copies = 0, true
			}
		}
	}
	return best
}

// movedTo returns the cut with the boundary at an input, nil if the boundary is there already or can't be found by a symbol.
func (c *cut) movedTo(in *input) *cut {
	from, to := c.at[c.model], c.at[c.model+1]
	n := to - from
	symbolAt := func(i int) int32 { return c.r.pulses[from+(i%n+n)%n].symbol }
	if in.ended {
		there := c.where == after && c.r.launches[from+in.at] == c.r.launches[from]
		if there {
			if o := c.beforeWait(); o != nil {
				return o
			}
		}
		// The waits and copies to the host before the input. A program skips a wait if it knows that the device has finished.
		var best *cut
		for i := in.at - 1; c.r.symbols[symbolAt(i)].class != Launch; i-- {
			if s := symbolAt(i); c.r.symbols[s].ends() && c.count(s) == 1 {
				if o := c.r.cutAt(s, after); best == nil || len(o.at) > len(best.at) {
					best = o
				}
			}
		}
		switch {
		case there && best != nil && len(best.at) > len(c.at) && best.likelier(c):
			return best
		case there:
			return nil
		case best != nil && len(best.at) >= len(c.at)-1:
			return best
		}
	}
	// A symbol between the input before and this one. The one that most steps have is also in steps of other kinds.
	segment := map[int32]int{}
	var symbols []int32
	for i := in.at - 1; i > in.at-n; i-- {
		s := symbolAt(i)
		if c.r.symbols[s].class == CopyIn {
			break
		}
		if segment[s]++; segment[s] == 1 && (c.r.symbols[s].class == Launch || s == c.symbol) {
			symbols = append(symbols, s)
		}
	}
	var best *cut
	tried := 0
	for _, s := range symbols {
		if segment[s] != c.count(s) {
			continue
		}
		if tried++; tried > maxCandidates && s != c.symbol {
			continue
		}
		o := c.r.cutAt(s, beforeNext)
		if o.how = nearly; o.mark() != nil && o.n >= c.n-2 && (best == nil || len(o.at) > len(best.at)) {
			best = o
		}
	}
	return best
}

// likelier reports whether a cut has more typical steps than another.
func (c *cut) likelier(o *cut) bool {
	c.how = nearly
	return c.mark() != nil && c.n > o.n
}

// count returns how often a symbol occurs in the model.
func (c *cut) count(symbol int32) (n int) {
	for _, p := range c.r.pulses[c.at[c.model]:c.at[c.model+1]] {
		if p.symbol == symbol {
			n++
		}
	}
	return n
}

// beforeWait returns the cut before the wait of a copy that needs the wait, nil if the wait is no such wait: the program works before the wait and not
// between wait and copy. A framework waits before it copies pageable memory.
func (c *cut) beforeWait() *cut {
	var work, between int64
	for i, p := range c.r.pulses {
		if p.symbol != c.symbol || i == 0 || i+1 == len(c.r.pulses) {
			continue
		}
		last, wait, next := &c.r.ops[c.r.pulses[i-1].op], &c.r.ops[p.op], &c.r.ops[c.r.pulses[i+1].op]
		if wait.Class != Sync || !next.Host || next.Class != CopyIn || next.Thread != wait.Thread {
			continue
		}
		work += max(0, wait.Start-last.End)
		between += max(0, next.Start-wait.End)
	}
	if work <= muchWork*between {
		return nil
	}
	return c.r.cutAt(c.symbol, before)
}

// accumulated returns the cut into steps of several inputs, nil if steps have one: a step ends after launches that follow each so many inputs, as an
// optimizer's, without an input of their own.
func (c *cut) accumulated() *cut {
	b := c.bag()
	small := map[int32]bool{}
	for _, p := range c.r.pulses[c.at[c.model]:c.at[c.model+1]] {
		small[p.symbol] = true
	}
	for i := range len(c.at) - 1 {
		if 100*c.tasks(i) < 115*c.tasks(c.model) {
			continue
		}
		tried := map[int32]bool{}
		for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
			if s := &c.r.symbols[p.symbol]; s.class != Launch || small[p.symbol] || tried[p.symbol] || s.count < minSteps {
				continue
			}
			tried[p.symbol] = true
			o := c.r.cutAt(p.symbol, beforeNext)
			if o.how = nearly; o.consistsOf(c, b) && o.mark() != nil && o.n >= minSteps {
				return o
			}
		}
	}
	return nil
}

// optimized returns the cut into steps of several inputs, nil if steps have one. The host reads a result after each input, and an optimizer's launches follow
// the last one of a step. The input after them launches fewer kernels than others do, since it has no gradients to add to.
func (c *cut) optimized() *cut {
	if c.where != after {
		return nil
	}
	o := c.r.cutAt(c.symbol, beforeMore)
	if len(o.at) < 2 {
		return nil
	}
	each := len(c.r.perInput(o.at[0], o.at[1]))
	for i := range len(o.at) - 1 {
		n := c.r.perInput(o.at[i], o.at[i+1])
		if each < 2 || len(n) != each || n[0] >= slices.Min(n[1:]) {
			return nil
		}
	}
	if o.how = nearly; o.mark() == nil {
		return nil
	}
	if o.edges(); o.n < minSteps {
		return nil
	}
	return o
}

// perInput returns the number of kernels after each input between two positions. Copies from the host without launches between them are one input.
func (r *rhythm) perInput(from, to int) (kernels []int) {
	for i := from; i < to; i++ {
		last := len(kernels) - 1
		switch {
		case r.symbols[r.pulses[i].symbol].class != CopyIn && last >= 0:
			kernels[last] += r.launches[i+1] - r.launches[i]
		case last < 0 || kernels[last] > 0:
			kernels = append(kernels, 0)
		}
	}
	return kernels
}

// consistsOf reports whether each step consists of the same number of another cut's steps, two or more, which contain its model.
func (o *cut) consistsOf(c *cut, b *bag) bool {
	if len(o.at) < minSteps {
		return false
	}
	each, n, k := 0, 0, 0
	for i, at := range c.at {
		if at < o.at[0] {
			continue
		}
		if k < len(o.at) && at == o.at[k] {
			if k == 1 {
				each = n
			}
			if k > 1 && n != each || k > 0 && n < 2 {
				return false
			}
			k, n = k+1, 0
		}
		n++
		if i+1 < len(c.at) && b.part(c.ids(at, c.at[i+1])) < sameWork {
			return false
		}
	}
	return k == len(o.at)
}

// apart returns the cut after steps of a second kind too, if the cut has such a step and the next typical one as one step. The second kind has half of the
// model's kernels, as a generator's step after several of its critic; other work is a part of a step.
// So is the copy that ends a step, if a wait comes before it.
func (c *cut) apart() *cut {
	if c.where != after {
		return c
	}
	launched := func(from, to int) map[int32]bool {
		kernels := map[int32]bool{}
		for _, p := range c.r.pulses[from:to] {
			if c.r.symbols[p.symbol].class == Launch {
				kernels[p.symbol] = true
			}
		}
		return kernels
	}
	model := launched(c.at[c.model], c.at[c.model+1])
	for _, s := range c.r.candidates(c.r.last) {
		o, n := c.r.cutAtBoth(c.symbol, s, after), c.r.symbols[s].count
		o.how = nearly
		if s == c.symbol || c.count(s) > 0 || o.mark() == nil || o.n < c.n+n-2 { // without a step at the edge
			continue
		}
		both, next := 0, 0
		for i := range len(o.at) - 1 {
			if c.r.pulses[o.at[i+1]-1].symbol != s {
				continue
			}
			if i+1 < len(o.typical) && o.typical[i+1] {
				next++
			}
			for k := range launched(o.at[i], o.at[i+1]) {
				if model[k] {
					both++
				}
			}
		}
		if 2*both >= n*len(model) && 2*next >= n {
			o.edges()
			return o
		}
	}
	return c
}

// sameWork is the part of the model that each part of a step contains.
const sameWork = 0.9

// muchWork is how much longer a program works before a wait than between the wait and its copy, if the wait is the copy's.
const muchWork = 4
