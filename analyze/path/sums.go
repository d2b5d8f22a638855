package path

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// An Entry is the sum of the parts that are alike: of one kind, function and name, and in one place.
type Entry struct {
	Subject
	Count       int   `json:"count"`                   // number of parts
	NS          int64 `json:"ns"`                      // sum of the parts' durations
	AtMost      bool  `json:"at_most,omitempty"`       // tasks took at most this time in some part
	SavesNS     int64 `json:"saves_ns"`                // time by which the steps would have been shorter if this had taken no time
	SavesAtMost bool  `json:"saves_at_most,omitempty"` // saves_ns is an upper bound
}

// maxEntries and maxLabels bound the entries in a sum and the names. Programs may create names and streams without end; the rest shares an entry
// or a name.
const (
	maxEntries = 10_000
	maxLabels  = 1 << 16
	others     = "(others)"
)

// label is the function of a call and the name of its task. For a task alone, fn is "".
type label struct{ fn, name string }

// labelled is a label, and the number of the label of the task alone.
type labelled struct {
	label
	task int32
}

// labels numbers labels. Number 0 is the empty label, number 1 stands for all beyond maxLabels.
type labels struct {
	all    []labelled
	ids    map[label]int32
	recent [1 << 10]int32
}

func newLabels() labels {
	return labels{all: []labelled{{}, {label: label{name: others}, task: 1}}, ids: map[label]int32{{}: 0}}
}

func (l *labels) id(fn, name string) int32 {
	h := uint(len(fn))*31 + uint(len(name))
	if n := len(name); n > 0 {
		h = h*31 + uint(name[n-1])
		h = h*31 + uint(name[n/2])
	}
	at := &l.recent[h%uint(len(l.recent))]
	if k := &l.all[*at]; k.name == name && k.fn == fn {
		return *at
	}
	k := label{fn, name}
	id, ok := l.ids[k]
	if !ok {
		if len(l.all) >= maxLabels {
			return 1
		}
		task := int32(0)
		if name != "" && fn != "" {
			task = l.id("", name)
		}
		id = int32(len(l.all))
		l.ids[k], l.all = id, append(l.all, labelled{k, task})
	}
	*at = id
	return id
}

// sums adds up parts by entry. It is a hash table: a path has many parts and few entries.
type sums struct {
	slots []int32 // positions in sums plus one, 0 for a free slot; a power of two, at most half full
	sums  []sum
}

type sum struct {
	key    uint64
	part   part // the first one
	count  int
	ns     int64
	atMost bool
	saves  int64 // upper bound
	loose  int   // parts for which it is not exact
}

func (p *part) key() uint64 {
	return uint64(p.kind)<<56 | uint64(p.label)<<32 | uint64(uint32(p.where))
}

func (s *sums) reset() {
	clear(s.slots)
	s.sums = s.sums[:0]
}

// slot returns the slot of a key, or the free slot for it.
func (s *sums) slot(key uint64) *int32 {
	h := key * 0x9e3779b97f4a7c15 >> 32
	for ; ; h++ {
		at := &s.slots[h&uint64(len(s.slots)-1)]
		if *at == 0 || s.sums[*at-1].key == key {
			return at
		}
	}
}

func (s *sums) add(p *part) {
	if 2*len(s.sums) >= len(s.slots) {
		s.slots = make([]int32, max(64, 2*len(s.slots)))
		for i := range s.sums {
			*s.slot(s.sums[i].key) = int32(i + 1)
		}
	}
	at := s.slot(p.key())
	if *at == 0 {
		first := *p
		if len(s.sums) >= maxEntries {
			first.label, first.where = 1, -1
			at = s.slot(first.key())
		}
		if *at == 0 {
			s.sums = append(s.sums, sum{key: first.key(), part: first})
			*at = int32(len(s.sums))
		}
	}
	e := &s.sums[*at-1]
	e.part.after = cmp.Or(e.part.after, p.after)
	e.count++
	e.ns += p.to - p.from
	e.atMost = e.atMost || p.atMost
	e.saves += p.to - p.from
	e.loose++
}

// path adds the parts of a path, and its savings.
func (s *sums) path(p *Path) {
	unknown := false
	for i := range p.parts {
		s.add(&p.parts[i])
		unknown = unknown || p.parts[i].atMost
	}
	for i := range p.savings {
		v := &p.savings[i]
		if at := *s.slot(v.of.key()); at > 0 { // unless it is among the others
			e := &s.sums[at-1]
			e.saves -= v.took - v.ns
			if !unknown {
				e.loose -= v.count
			}
		}
	}
}

// longest returns the entries, the longest first, at most so many, 0 for all.
func (s *sums) longest(f *Finder, most int) []Entry {
	order := s.ordered(most)
	out := make([]Entry, len(order))
	for i := range order {
		e := &order[i]
		out[i] = Entry{f.subject(&e.part), e.count, e.ns, e.atMost, e.saves, e.loose > 0}
	}
	return out
}

// ordered returns the sums, the longest first, at most so many, 0 for all.
func (s *sums) ordered(most int) []sum {
	order := slices.Clone(s.sums)
	slices.SortFunc(order, func(a, b sum) int { return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(a.key, b.key)) })
	if most > 0 {
		order = order[:min(most, len(order))]
	}
	return order
}

func (f *Finder) subject(p *part) Subject {
	l := f.labels.all[p.label]
	return Subject{kinds[p.kind], l.fn, l.name, f.where(p.kind, p.where), f.labels.all[p.after].name}
}

// wait says why a part follows work of another stream.
func (f *Finder) wait(p *part) string {
	object := ""
	switch p.why {
	case 0:
		return ""
	case order.Event:
		object = "an event"
	case order.Notify:
		object = "a notify"
	}
	return timeline.WaitText(p.why, object, p.setter, f.w.Lanes[p.on].Name)
}

// where returns the name of a part's place.
func (f *Finder) where(k kind, n int32) string {
	switch {
	case k == onDevice || k == starting || k == waiting:
		if n < 0 {
			return "several streams"
		}
		return f.w.Lanes[n].Name
	case n < 0:
		return others
	}
	name := grow.At(&f.names, int(n))
	if *name == "" {
		*name = f.w.ThreadName(uint32(n))
	}
	return *name
}
