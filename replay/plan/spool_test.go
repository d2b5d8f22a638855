package plan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

// The size of extents overflowed after 424 of them.
func TestSpoolOfManyExtents(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	f := spoolFile{file: file}
	defer file.Close()
	s := spool[[4096]byte]{in: &f}
	small := spool[uint32]{in: &f}
	const n = 2 << 20
	for i := range uint32(n) {
		small.add(i)
	}
	s.add(make([][4096]byte, 10)...)
	for len(s.extents) < 430 { // as if so many had been written
		s.extents, s.firsts = append(s.extents, extent{}), append(s.firsts, 0)
	}
	s.tail, s.full, s.left = nil, 0, 0
	if part := s.next(1 << 20); len(part) != piece || s.extentRoom() != 1<<16 {
		t.Errorf("%d of %d elements", len(part), s.extentRoom())
	}
	if got := len(small.extents); got != 48+24 {
		t.Errorf("%d extents of %d elements", got, small.start)
	}
	small.set(5, 50)
	small.set(n-1, 51)
	for i, want := range map[int]uint32{0: 0, 5: 50, 1023: 1023, 1024: 1024, 100_000: 100_000, n - 2: n - 2, n - 1: 51} {
		if got := small.at(i); got != want {
			t.Errorf("element %d is %d, want %d", i, got, want)
		}
	}
}

// A plan whose lists have several extents reads back as it was written, with what was replaced after it was in the file.
func TestPlanOfManyExtents(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir + "/plan")
	if err != nil {
		t.Fatal(err)
	}
	fn := w.Function(acl.Model.Lookup("aclrtMemset"))
	const calls = 30_000
	threads := []*ThreadWriter{w.Thread(), w.Thread()}
	for i := range uint64(calls) {
		at, err := w.Put(make([]byte, 20))
		if err != nil {
			t.Fatal(err)
		}
		ops := w.Operands(Operand{Addend: i}, Operand{Slot: 1, Addend: at}, Operand{Addend: 1 << 40})
		r := w.Relocs(Reloc{At: at, Addend: i}, Reloc{At: at + 8, Size: 4})
		threads[i%2].Add(Instruction{Op: OpCall, Fn: fn, Operands: ops, Relocs: r, Call: i})
	}
	w.SetOperand(3, Operand{Addend: 77})
	w.SetReloc(3, Reloc{At: 99, Size: 8})
	in := threads[1].At(0)
	in.Want = 12
	threads[1].Set(0, in)
	f, err := w.Finish(&Header{Slots: SlotThreads}, &Tables{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := range threads {
		i := uint64(n)
		for _, in := range f.Instructions(n) {
			if in.Call != i {
				t.Fatalf("thread %d: call %d, want %d", n, in.Call, i)
			}
			if got := f.Operand(in, 2); got.Addend != 1<<40 {
				t.Fatalf("call %d: operand %+v", i, got)
			}
			if got, want := f.Operand(in, 0).Addend, map[bool]uint64{true: 77, false: i}[i == 1]; got != want {
				t.Fatalf("call %d: operand %d, want %d", i, got, want)
			}
			if got := f.Relocs(in); len(got) != 2 || got[0].Addend != i && i != 1 || i == 1 && got[0].At != 99 || got[1].Size != 4 {
				t.Fatalf("call %d: relocations %+v", i, got)
			}
			if i == 1 && in.Want != 12 {
				t.Errorf("the replaced instruction is %+v", in)
			}
			i += 2
		}
		if i != calls+uint64(n) {
			t.Errorf("thread %d ends before call %d", n, i)
		}
	}
	if f.Count() != calls {
		t.Errorf("%d instructions", f.Count())
	}
}

// Calls of a loop share their operands, relocations and templates. Lists that may still change are never shared.
func TestEqualListsAreShared(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "plan"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fn, tw := w.Function(&acl.Model.Funcs[0]), w.Thread()
	for i := range uint64(100) {
		ops := w.Operands(Operand{Addend: i % 2}, Operand{Slot: 1})
		relocs := w.Relocs(Reloc{At: i % 3}, Reloc{At: 8, Addend: 16, Flags: RelocSpoil})
		tw.Add(Instruction{Op: OpCall, Fn: fn, Operands: ops, Relocs: relocs, Base: uint32(i), Call: i, At: 10 * i})
	}
	if n := [...]int{w.ops.count(), w.relocs.count(), w.templates.count(), tw.Count()}; n != [...]int{4, 1 + 6, 2, 100} {
		t.Errorf("%d operands, relocations, templates and instructions", n)
	}
	if a, b := w.OwnOperands(Operand{Addend: 1}), w.OwnOperands(Operand{Addend: 1}); a == b {
		t.Errorf("operands %d are shared", a)
	}
	if a, b := w.OwnRelocs(Reloc{At: 1}), w.OwnRelocs(Reloc{At: 1}); a == b {
		t.Errorf("relocations %d are shared", a)
	}
	if w.Relocs() != 0 {
		t.Error("an empty list has a number")
	}
}
