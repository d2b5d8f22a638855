package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// Words of a payload are facts with evidence, else guesses. Numbers that look like addresses must not be facts.
func TestWordsAreFactsWithEvidence(t *testing.T) {
	const (
		small = 0x124041200000 // 4 KiB
		large = 0x200000000000 // 40 GiB
		next  = large + 41<<30 // not allocated
	)
	s := newSequence(t)
	s.Malloc(small, 4096)
	s.Malloc(large, 40<<30)
	s.Then("aclrtMemset", []uint64{small + 64, 64, 0, 64})
	state := timeline.NewState(acl.Model)
	x := access.NewWords(state)
	r := s.Load().Reader
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		e := state.Apply(0, c)
		x.Made(e)
		x.Call(e)
	}
	ramp := func(from uint64) (ws []uint64) {
		for i := from; i < from+256; i += 2 {
			ws = append(ws, (i+1)<<32|i)
		}
		return ws
	}
	// Pairs of a float and a number, as in a sparse matrix: the number is the upper half of addresses in the large allocation for some pairs.
	var sparse, table []uint64
	for i := range uint64(200) {
		sparse = append(sparse, (large>>32-90+i)<<32|0x3f800000)
		table = append(table, large+1<<30+i*4096)
	}
	layout := []kernelbin.Arg{{Kind: kernelbin.General, Size: 8}, {Kind: 2, Level: 1}}
	for _, c := range []struct {
		name  string
		words []uint64
		args  bool
		want  string
	}{
		{"start of an allocation", []uint64{1, small, 7, 8}, false, "8:address"},
		{"address that was passed", []uint64{1, small + 64, 7, 8}, false, "8:address"},
		{"address in an allocation", []uint64{1, small + 128, 7, 8}, false, "8:guess"},
		{"one word", []uint64{small + 128}, false, "0:table"},
		{"one word among zeros", []uint64{0, small + 128, 0, 0}, false, "8:table"},
		{"one word among many zeros", []uint64{0, small + 128, 0, 0, 0, 0, 0, 0, 0}, false, "8:guess"},
		{"two addresses", []uint64{small + 128, small + 256, 3, 4}, false, "0:table 8:table"},
		{"two addresses among numbers", []uint64{small + 128, small + 256, 3, 4, 5}, false, "0:guess 8:guess"},
		{"end of an allocation", []uint64{small + 128, small + 4096}, false, "0:table 8:table"},
		{"no allocation", []uint64{small + 8192, next, ^uint64(0)}, false, ""},
		{"start that is a pair of small numbers", []uint64{1, large, 7, 8}, false, "8:guess"},
		{"ramp of numbers", ramp(large>>32 - 99), false, "392:guess 400:guess 408:guess 416:guess 424:guess"},
		{"sparse matrix", sparse, false, "720:guess 728:guess 736:guess 744:guess 752:guess 760:guess 768:guess 776:guess 784:guess 792:guess"},
		{"arguments", []uint64{small + 128, 9, large + 5}, true, "0:argument 16:argument"},
	} {
		p := access.Payload{Arguments: c.args, Len: 8 * uint64(len(c.words))}
		if got := found(x, &p, testtrace.Words(c.words...)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	p := access.Payload{Len: 8 * uint64(len(table))}
	if ws, _ := x.Find(&p, testtrace.Words(table...), 0); len(ws) != len(table) || slices.ContainsFunc(ws, func(w access.Word) bool { return w.Evidence != access.ByTable }) {
		t.Errorf("%d addresses of %d in a table: %+v", len(ws), len(table), ws[0])
	}
	// The kernel's binary declares a number and a pointer. Behind them there is other data.
	p = access.Payload{Arguments: true, Args: layout, Len: 32}
	if got := found(x, &p, testtrace.Words(small, small+192, small+192+8, small+64)); got != "8:layout 16:guess 24:address" {
		t.Errorf("declared arguments: %s", got)
	}
	// The memory that gets the payload begins 4 bytes before an aligned word.
	p = access.Payload{Len: 12, To: small + 2044}
	if got := found(x, &p, append([]byte{1, 2, 3, 4}, testtrace.Words(small)...)); got != "4:address" {
		t.Errorf("unaligned payload: %s", got)
	}
	// Addresses at other bytes than multiples of 8 are guesses.
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"start at 4", packed(4, small), "4:guess"},
		{"start at 3", packed(3, small), "3:guess"},
		{"passed at 7", packed(7, 1, small+64), "15:guess"},
		{"address at 4", packed(4, 1, 2, 3, 4, 5, small+128), "44:guess"},
		{"address at 3", packed(3, small+136), ""},
		{"table at 4", packed(4, table...), "4:guess 12:guess"},
		{"one in much at 4", append(packed(4, small+144), make([]byte, 4096)...), ""},
		{"number at 4", packed(4, large), ""},
	} {
		p = access.Payload{Len: uint64(len(c.b))}
		if got := found(x, &p, c.b); got != c.want && !(c.name == "table at 4" && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	p = access.Payload{Arguments: true, Len: 24}
	if got := found(x, &p, packed(4, small+128, 7)); got != "4:guess" {
		t.Errorf("packed argument: %s", got)
	}
	// A pointer into the payload's own memory, and one behind that.
	p = access.Payload{Len: 24, To: small + 2048}
	if got := found(x, &p, testtrace.Words(small+2056, 1, 2, small+2072, 3, 4, 5)); got != "0:address 24:guess" {
		t.Errorf("own memory: %s", got)
	}
}

// packed returns words after some bytes.
func packed(before int, words ...uint64) []byte {
	return append(make([]byte, before, 8), testtrace.Words(words...)...)
}

func found(x *access.Words, p *access.Payload, b []byte) (text string) {
	ws, _ := x.Find(p, b, 0)
	for i, w := range ws {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%d:%s", w.At, w.Evidence)
	}
	return text
}

// Results depend on a guess if their memory got it, or if a kernel that reached it may have written them.
func TestResultsDependOnGuesses(t *testing.T) {
	f := access.NewFlow()
	var objects []*timeline.Object
	for id := range 5 {
		objects = append(objects, &timeline.Object{ID: id + 1, Kind: api.Device, Size: 64, Ended: timeline.NoCall})
	}
	a, b, c, d, shared := objects[0], objects[1], objects[2], objects[3], objects[4]
	event := func(name string, uses ...*timeline.Object) *timeline.Event {
		e := &timeline.Event{Call: &format.Call{Index: 9}, Fn: acl.Model.Lookup(name)}
		for _, o := range uses {
			e.Uses = append(e.Uses, timeline.Use{Object: o})
		}
		return e
	}
	copied := func(from, to *timeline.Object, lo, hi uint64, guess bool) {
		regions := []access.Region{{Object: to, Lo: lo, Hi: hi, Kind: access.Writes}}
		if from != nil {
			regions = append(regions, access.Region{Object: from, Lo: lo, Hi: hi, Kind: access.Reads})
		}
		f.Call(event("aclrtMemcpy"), regions, nil, nil, guess, false)
	}
	launch := func(args ...*timeline.Object) {
		var regions []access.Region
		for _, o := range args {
			regions = append(regions, access.Region{Object: o, Kind: access.Names})
		}
		f.Call(event("aclrtLaunchKernel"), regions, nil, nil, false, false)
	}
	want := func(step string, guessed ...*timeline.Object) {
		t.Helper()
		for i, o := range objects {
			if f.Guessed(o, 0, 0) != slices.Contains(guessed, o) {
				t.Errorf("%s: object %d depends on a guess: %t", step, i+1, f.Guessed(o, 0, 0))
			}
		}
	}
	launch(a, b)
	want("nothing copied")
	copied(nil, a, 8, 16, true)
	want("a guess", a)
	if f.Guessed(a, 16, 64) || !f.Guessed(a, 0, 9) {
		t.Error("other bytes of the object depend on the guess")
	}
	copied(a, b, 16, 32, false)
	want("a copy of other bytes", a)
	copied(a, b, 0, 16, false)
	want("a copy", a, b)
	launch(b, c)
	want("a kernel", a, b, c)
	if !f.Depends() {
		t.Error("the launch does not depend on the guess")
	}
	launch(d)
	want("another kernel", a, b, c)
	if f.Depends() {
		t.Error("another launch depends on the guess")
	}
	for _, o := range []*timeline.Object{a, b, c} {
		copied(nil, o, 0, 64, false)
	}
	want("other content")
	// Memory with another address: the guess is seen at both.
	f.Call(event("aclrtMapMem", shared, &timeline.Object{Kind: api.Physical}), nil, nil, nil, false, false)
	f.Call(event("aclrtMapMem", d, &timeline.Object{Kind: api.Physical}), nil, nil, nil, false, false)
	copied(nil, shared, 0, 8, true)
	want("mapped memory", shared, d)
}
