package plan

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// loaded is a plan's file as open_plan in replay/player/load.c reads it.
type loaded struct {
	t     *testing.T
	file  []byte
	index []byte
	Header
}

func load(t *testing.T, path string) *loaded {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &loaded{t: t, file: file, Header: View[Header](file, 0, 1)[0]}
	if string(l.Magic[:]) != "ACLTPLAN" || l.Size != uint64(len(file)) || l.Index > l.Size || l.Index%4096 != 0 {
		t.Fatalf("a file of %d bytes has the header %+v", len(file), l.Header)
	}
	l.index = file[l.Index:]
	page := slices.Clone(file[:4096])
	clear(page[12:16])
	if sum := crc32.Update(crc32.Checksum(l.index, castagnoli), castagnoli, page); sum != l.Checksum {
		t.Errorf("the checksum is %x, want %x", l.Checksum, sum)
	}
	return l
}

// rowsOf returns a table's rows.
func rowsOf[T any](l *loaded, at table) []T {
	if at.Offset%8 != 0 {
		l.t.Errorf("the table %+v is not aligned", at)
	}
	return View[T](l.index, at.Offset, at.Count)
}

// listOf returns a list that extents have, with its padding.
func listOf[T any](l *loaded, at table) []T {
	var all []byte
	for _, e := range rowsOf[extent](l, at) {
		if e.Offset%4096 != 0 || e.Size%4096 != 0 || e.Size == 0 || e.Offset+e.Size > l.Index {
			l.t.Errorf("the extent %+v is outside the pages before %d", e, l.Index)
			continue
		}
		b := l.file[e.Offset:][:e.Size]
		if crc32.Checksum(b, castagnoli) != e.Checksum {
			l.t.Errorf("the extent %+v has a wrong checksum", e)
		}
		all = append(all, b...)
	}
	return View[T](all, 0, uint64(len(all)/elemSize[T]()))
}

func (l *loaded) name(at uint32) string {
	names := rowsOf[byte](l, l.Names)[at:]
	return string(names[:bytes.IndexByte(names, 0)])
}

func create(t *testing.T) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, path
}

func finish(t *testing.T, w *Writer, h *Header, tables *Tables) *File {
	t.Helper()
	f, err := w.Finish(h, tables)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// special returns a function whose arguments are not only plain words.
func special(t *testing.T) *api.Func {
	t.Helper()
	for i := range acl.Model.Funcs {
		if f := &acl.Model.Funcs[i]; !f.Plain() && f.ID > 0 {
			return f
		}
	}
	t.Fatal("every function is plain")
	return nil
}

// The player finds in the file all that the compiler has written: tables, instructions, operands, relocations and data.
func TestPlayerLoadsWhatIsWritten(t *testing.T) {
	w, path := create(t)
	plain, other := acl.Model.Lookup("aclrtMemset"), special(t)
	fns := []uint32{w.Function(other), w.Function(plain), w.Function(other), w.Function(plain)}
	if !slices.Equal(fns, []uint32{0, 1, 0, 1}) {
		t.Errorf("functions have the numbers %d", fns)
	}
	if n := []uint32{w.Kernel("a"), w.Kernel("b"), w.Kernel("a")}; !slices.Equal(n, []uint32{1, 2, 1}) {
		t.Errorf("kernels have the numbers %d", n)
	}
	first, empty, last := w.Thread(), w.Thread(), w.Thread()
	first.Scratch, last.Scratch = 100, 1
	names := []uint32{w.Name("one"), w.Name(""), w.Name("three")}
	tables := Tables{
		Processes: []Process{{Count: 2, Env: names[2]}, {First: 2, Count: 1}, {First: 3}}, Reasons: []uint32{names[0], names[2], names[1]},
		Doubts: []Doubt{{Call: 7, Reason: 1, Results: 2, Text: names[0]}}, Maps: []Map{{At: 4096, Size: 8192, Slot: 20, Process: 1}},
		Blocks: []Block{{At: 1 << 40, Slot: 21}}, Faults: []int32{-1, 507015, 3},
	}
	if a, b, c := w.Reserve(1), w.Reserve(64), w.Reserve(3); a != 0 || b != 64 || c != 128 {
		t.Errorf("scratch memory at %d, %d, %d", a, b, c)
	}
	if a, b := w.Share(65), w.Share(8); a != (Operand{Slot: SlotShared}) || b != (Operand{128, SlotShared}) {
		t.Errorf("shared memory at %v, %v", a, b)
	}
	payload := []byte("sixteen bytes and more")
	at, err := w.Put(payload)
	if err != nil || at%16 != 0 {
		t.Fatalf("data at %d: %v", at, err)
	}
	more := w.Aligned()
	if got, err := w.Put([]byte{1}); err != nil || got != more || got != at+32 {
		t.Errorf("data at %d, want %d: %v", got, more, err)
	}
	ops := w.Operands(Operand{1<<40 | 5, 3}, Operand{Addend: 9, Slot: OwnSlot(3, 3, 2)})
	relocs := w.Relocs(Operand{6, 4}.Reloc(8), Reloc{At: 12, Addend: 2, Slot: OwnSlot(3, 3, 0), Size: 4}, Reloc{At: 4, Addend: 9, Flags: RelocSpoil})
	call := Instruction{Op: OpCall, Fn: fns[1], Operands: ops, Relocs: relocs, Base: uint32(more / 16), Call: 3, At: 4, Dur: 5, Stream: -1, Kernel: 2, Words: 2}
	checks := []Instruction{{Op: OpCheck, Want: CheckResult, Len: 8, Bits: 3, Call: 3}, {Op: OpCheck, Call: 3}, {Op: OpUntil, Fn: fns[0], Call: 9, Width: 4, RetSlot: 8, Flags: InstAside}}
	if n := []int{last.Add(call), last.Add(checks...), last.Count()}; !slices.Equal(n, []int{0, 1, 4}) {
		t.Errorf("instructions have the numbers %d", n)
	}
	first.Add(Instruction{Op: OpNothing}, Instruction{Op: OpMark})
	if n := empty.Count(); n != 0 {
		t.Errorf("%d instructions before the first", n)
	}
	f := finish(t, w, &Header{Slots: 77, UntilNS: 5, Scale: 2}, &tables)

	l := load(t, path)
	if l.Header != f.Header || l.Version != version || l.Slots != 77 || l.UntilNS != 5 || l.Scale != 2 {
		t.Errorf("the file has the header %+v, want %+v", l.Header, f.Header)
	}
	got := Tables{rowsOf[Process](l, l.Processes), rowsOf[uint32](l, l.Reasons), rowsOf[Doubt](l, l.Doubts), rowsOf[Map](l, l.Maps), rowsOf[Block](l, l.Blocks), rowsOf[int32](l, l.Faults)}
	if !reflect.DeepEqual(got, tables) {
		t.Errorf("tables\n%+v, want\n%+v", got, tables)
	}
	for i, want := range []string{"one", "", "three"} {
		if got := l.name(names[i]); got != want {
			t.Errorf("name %q, want %q", got, want)
		}
	}
	called := rowsOf[Function](l, l.Functions)
	if len(called) != 2 || called[0].How != 64+uint32(other.ID) || called[1].How != uint32(plain.Words) || l.name(called[0].Name) != other.Symbol() || l.name(called[1].Name) != plain.Symbol() {
		t.Errorf("functions %+v", called)
	}
	threads := rowsOf[Thread](l, l.Threads)
	page := uint64(pageSize / elemSize[row]()) // instructions
	want := []Thread{{0, 2, 192}, {page, 0, 320}, {page, 4, 320}}
	if !slices.Equal(threads, want) || l.Instructions != 2*page || l.Scratch != 321 || l.Shared != 136 {
		t.Errorf("threads %+v, want %+v; %d instructions, %d and %d bytes", threads, want, l.Instructions, l.Scratch, l.Shared)
	}
	rows, templates := listOf[row](l, l.Rows), listOf[template](l, l.Templates)
	for i, want := range append([]Instruction{call}, checks...) {
		r := rows[threads[2].First+uint64(i)]
		if got := r.instruction(&templates[r.Template]); got != want {
			t.Errorf("instruction %d is %+v, want %+v", i, got, want)
		}
		if got := *f.At(int(page) + i); got != want || f.Thread(2) != threads[2] {
			t.Errorf("instruction %d is read as %+v, want %+v", i, got, want)
		}
	}
	if got := listOf[packedOperand](l, l.Ops)[ops:]; got[0] != (packedOperand{3, 5, 1 << 8}) || got[1] != (packedOperand{OwnSlot(3, 3, 2), 9, 0}) {
		t.Errorf("operands %+v", got[:2])
	}
	if got := listOf[Reloc](l, l.Relocs)[relocs:][:3]; got[0] != (Reloc{8, 6, 4, 8, 0}) || got[1].Size != 4 || got[2] != (Reloc{4, 9, 0, 8, RelocSpoil | RelocLast}) {
		t.Errorf("relocations %+v", got)
	}
	if data := listOf[byte](l, l.DataExtents); l.Data != more+1 || !bytes.Equal(data[at:][:len(payload)], payload) || !bytes.Equal(data[at+uint64(len(payload)):more+4], append(make([]byte, 10), 1, 0, 0, 0)) {
		t.Errorf("%d bytes of data: %q", l.Data, data[:64])
	}
	// The results begin with the header's page.
	results := ResultPlaces{ResThreads: 4096, ResSlots: 4096 + 256, ResInstructions: 4096 + 256 + 640}
	results.ResDetails = results.ResInstructions + 32*2*page
	results.ResKernels = results.ResDetails + 56*2
	results.ResBytes = results.ResKernels + 256*64
	if l.ResultPlaces != results {
		t.Errorf("results at %+v, want %+v", l.ResultPlaces, results)
	}

	if !slices.Equal(f.Funcs, []*api.Func{other, plain}) || !slices.Equal(f.Kernels, []string{"a", "b"}) || f.Count() != 6 {
		t.Errorf("%d functions, kernels %q, %d instructions", len(f.Funcs), f.Kernels, f.Count())
	}
	// Addresses in the thread's own data are addresses in the data.
	if a, b := f.Operand(&call, 0), f.Operand(&call, 1); a != (Operand{1<<40 | 5, 3}) || b != (Operand{more + 9, SlotData}) {
		t.Errorf("operands %v, %v", a, b)
	}
	if got, want := f.Relocs(&call), []Reloc{{At: more + 8, Addend: 6, Slot: 4, Size: 8}, {At: more + 12, Addend: more + 2, Slot: SlotData, Size: 4}}; !slices.Equal(got, want) {
		t.Errorf("relocations %+v, want %+v", got, want)
	}
	if got := f.Relocs(&checks[0]); got != nil {
		t.Errorf("an instruction without relocations has %+v", got)
	}
	for i, in := range f.Instructions(2) { // a reader may stop
		if i != int(page) || *in != call {
			t.Errorf("instruction %d: %+v", i, in)
		}
		break
	}
}

// Results have room for one difference even if nothing is compared. The smallest plan has a thread's results next to the slots.
func TestSmallestPlan(t *testing.T) {
	w, path := create(t)
	w.Thread()
	finish(t, w, &Header{Slots: SlotThreads}, &Tables{})
	l := load(t, path)
	if want := (ResultPlaces{4096, 4096 + 128, 4096 + 128 + 128, 4096 + 256, 4096 + 256 + 56, 4096 + 256 + 56 + 256*64}); l.ResultPlaces != want || l.Data != 0 || l.Instructions != 0 {
		t.Errorf("results at %+v, want %+v", l.ResultPlaces, want)
	}
	if len(listOf[row](l, l.Rows))+len(listOf[byte](l, l.DataExtents)) != 0 {
		t.Error("an empty list has an extent")
	}
}

// The players of two threads write the addresses of their own data to different cache lines.
func TestOwnSlots(t *testing.T) {
	for _, c := range [][4]int{{1, 1, 0, 13}, {2, 1, 0, 15}, {2, 1, 1, 31}, {3, 5, 2, 53}} {
		if got := OwnSlot(c[0], c[1], c[2]); got != uint32(c[3]) {
			t.Errorf("thread %d of %d in %d processes has slot %d, want %d", c[2], c[0], c[1], got, c[3])
		}
	}
	w, _ := create(t)
	for range 2 {
		w.Thread()
	}
	f := finish(t, w, &Header{Slots: 64}, &Tables{Processes: make([]Process, 1)})
	in := Instruction{Base: 2}
	for slot, want := range map[uint32]Operand{14: {1, 14}, 15: {33, SlotData}, 31: {33, SlotData}, 46: {33, SlotData}, 47: {1, 47}} {
		if got := f.absolute(&in, Operand{1, slot}); got != want {
			t.Errorf("slot %d: %v, want %v", slot, got, want)
		}
	}
}

// Numbers in the file have 32 bits. A plan that needs more is refused, and not written wrong.
func TestTooLarge(t *testing.T) {
	for name, grow := range map[string]func(*Writer, int){
		"calls":       func(w *Writer, n int) { w.last = uint64(n) },
		"operands":    func(w *Writer, n int) { w.ops.start = n },
		"relocations": func(w *Writer, n int) { w.relocs.start = n - 1 },
		"data":        func(w *Writer, n int) { w.data.start = n * DataAlign },
	} {
		for n, want := range map[int]error{1 << 32: ErrTooLarge, 1<<32 - 1: nil} {
			w, _ := create(t)
			grow(w, n)
			if f, err := w.Finish(&Header{}, &Tables{}); !errors.Is(err, want) {
				t.Errorf("%d %s: %v, want %v", n, name, err, want)
			} else if err == nil {
				f.Close()
			}
		}
	}
}

// A plan that can't be written is an error, once: at the first call that returns one, and at the end.
func TestFailedWrites(t *testing.T) {
	if _, err := Create(filepath.Join(t.TempDir(), "no folder", "plan")); err == nil {
		t.Error("a plan in no folder was created")
	}
	w, path := create(t)
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.plan.file = readOnly
	b := make([]byte, firstExtent*bytesUnit)
	if _, err := w.Put(b); err != nil || w.Err() != nil {
		t.Errorf("before the first extent is full: %v", err)
	}
	_, err = w.Put(b[:len(b)-1])
	if err == nil || w.Err() == nil {
		t.Error("no error of a full extent")
	}
	if _, again := w.Put(make([]byte, 1)); again != err {
		t.Errorf("%v, want %v again", again, err)
	}
	if _, again := w.Put(b); again != err {
		t.Errorf("%v, want %v again", again, err)
	}
	if _, again := w.Finish(&Header{}, &Tables{}); !errors.Is(again, err) || !strings.HasPrefix(again.Error(), "write "+path) {
		t.Errorf("%v, want %v", again, err)
	}
}

// A file that is missing, short or damaged is an error when it is opened.
func TestDamagedFile(t *testing.T) {
	w, path := create(t)
	tw := w.Thread()
	tw.Add(Instruction{Op: OpCall, Operands: w.Operands(Operand{}), Relocs: w.Relocs(Reloc{})})
	f := finish(t, w, &Header{}, &Tables{})
	if again, err := open(path, &f.Header); err != nil || again.Close() != nil {
		t.Fatal(err)
	}
	if f, err := open(path+"2", &f.Header); err == nil {
		t.Errorf("a missing file was opened: %+v", f)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"short": whole[:len(whole)-1], "damaged": slices.Clone(whole)} {
		if name == "damaged" {
			l := load(t, path)
			rowsOf[extent](&loaded{t: t, index: b[l.Index:]}, l.Rows)[0].Offset++ // no page
		}
		damaged := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(damaged, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := open(damaged, &f.Header); err == nil || f != nil || mapped(t, damaged) != 0 {
			t.Errorf("a %s file was opened, with %d mappings: %v", name, mapped(t, damaged), err)
		}
	}
}

// mapped returns how often the process has mapped a file.
func mapped(t *testing.T, path string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(maps), path+"\n")
}

// A closed plan has no memory, and no list that leads there. Its header, functions and kernels stay.
func TestCloseUnmaps(t *testing.T) {
	w, path := create(t)
	fn := w.Function(acl.Model.Lookup("aclrtMemset"))
	w.Kernel("k")
	w.Thread().Add(Instruction{Op: OpCall, Fn: fn, Operands: w.Operands(Operand{}), Relocs: w.Relocs(Reloc{})})
	f := finish(t, w, &Header{}, &Tables{})
	if n := mapped(t, path); n == 0 {
		t.Fatal("the file is not mapped")
	}
	for range 2 {
		if err := f.Close(); err != nil || mapped(t, path) != 0 {
			t.Errorf("%d mappings are left: %v", mapped(t, path), err)
		}
	}
	if f.rows != nil || f.templates != nil || f.ops != nil || f.relocs != nil {
		t.Error("lists in unmapped memory are left")
	}
	if f.Kernels[0] != "k" || len(f.Funcs) != 1 || f.Header.Version != version {
		t.Errorf("%+v is left", f)
	}
}

// Data that is put is aligned, wherever the data before it ends.
func TestDataIsAligned(t *testing.T) {
	w, path := create(t)
	var want []byte
	for n := range 40 {
		at := w.Aligned()
		want = append(want, make([]byte, int(at)-len(want))...)
		b := bytes.Repeat([]byte{byte(n + 1)}, n)
		if got, err := w.Put(b); err != nil || got != at || at%16 != 0 {
			t.Errorf("%d bytes at %d, want %d: %v", n, got, at, err)
		}
		want = append(want, b...)
	}
	for n := range 3 { // the last one has to make room in a new extent
		if at, err := w.Align(); err != nil || at != uint64(len(want)+15)&^15 {
			t.Errorf("aligned at %d after %d: %v", at, len(want), err)
		}
		want = append(want, make([]byte, -len(want)&15)...)
		b := bytes.Repeat([]byte{byte(n + 1)}, firstExtent*bytesUnit/2+1)
		if at, err := w.Put(b); err != nil || at != uint64(len(want)) {
			t.Errorf("%d bytes at %d, want %d: %v", len(b), at, len(want), err)
		}
		want = append(want, b...)
	}
	finish(t, w, &Header{}, &Tables{})
	if l := load(t, path); l.Data != uint64(len(want)) || !bytes.Equal(listOf[byte](l, l.DataExtents)[:len(want)], want) {
		t.Errorf("%d bytes differ from %d", l.Data, len(want))
	}
}

// A list that may still change is complete from the beginning, and can be replaced before and after it is in the file.
func TestOwnLists(t *testing.T) {
	w, _ := create(t)
	tw := w.Thread()
	in := Instruction{Op: OpCall, Operands: w.OwnOperands(Operand{5, 6}), Relocs: w.OwnRelocs(Reloc{At: 7}, Reloc{At: 8, Size: 4}), Call: 8}
	tw.Add(in)
	if got := w.Reloc(int(in.Relocs)); got != (Reloc{At: 7, Size: 8}) {
		t.Errorf("relocation %+v", got)
	}
	if got := w.Reloc(int(in.Relocs) + 1); got != (Reloc{At: 8, Size: 4, Flags: RelocLast}) {
		t.Errorf("relocation %+v", got)
	}
	if got := w.Operand(in.Operands); got != (Operand{5, 6}) || tw.At(0) != in {
		t.Errorf("operand %v of %+v", got, tw.At(0))
	}
}

// A call's number and the comparisons of a thread are those of all its instructions.
func TestCountsCoverAllInstructions(t *testing.T) {
	w, _ := create(t)
	a, b := w.Thread(), w.Thread()
	a.Add(Instruction{Op: OpCheck, Call: 5}, Instruction{Op: OpCall, Call: 3})
	b.Add(Instruction{Op: OpCheck, Call: 4}, Instruction{Op: OpCheck})
	if w.checks != 3 || w.last != 5 {
		t.Errorf("%d comparisons, last call %d", w.checks, w.last)
	}
}

// Lists of up to 64 elements are shared with an equal list shortly before.
func TestSharedLists(t *testing.T) {
	for n, want := range map[int]int{1: 1, 64: 64, 65: 130} {
		var s sharedSpool[uint32]
		s.in = &spoolFile{}
		list := slices.Repeat([]uint32{7}, n)
		if s.share(list, 1); s.share(list, 1) != want-n || s.count() != want {
			t.Errorf("two lists of %d elements have %d", n, s.count())
		}
	}
	// As many different lists as a loop's body has keep their places, because their hashes differ.
	w, _ := create(t)
	const body = 300
	for range 3 {
		for i := range uint64(body) {
			w.Operands(Operand{Addend: i}, Operand{Slot: 1})
			w.Relocs(Reloc{At: i % 20, Addend: 8 * i})
		}
	}
	if ops, relocs := w.ops.count(), w.relocs.count(); ops > 2*2*body || relocs > 2*body {
		t.Errorf("%d operands and %d relocations of %d repeated lists", ops, relocs, body)
	}
}

func TestInstructionKinds(t *testing.T) {
	for _, c := range []struct {
		in                         Instruction
		calls, recorded, ofResults bool
	}{
		{Instruction{Op: OpCall}, true, true, false}, {Instruction{Op: OpUntil}, true, true, false}, {Instruction{Op: OpUntil, Flags: InstAside | InstStop}, true, false, false},
		{Instruction{Op: OpStore}, false, false, false}, {Instruction{Op: OpCheck}, false, false, false}, {Instruction{Op: OpCheck, Want: CheckResult}, false, false, true},
		{Instruction{Op: OpCheck, Want: CheckLength}, false, false, true}, {Instruction{Op: OpCall, Want: CheckResult}, true, true, false},
		{Instruction{Op: OpCall, Flags: InstStop | InstStart | InstEnd | InstLate}, true, true, false},
	} {
		if in := &c.in; in.Calls() != c.calls || in.Recorded() != c.recorded || in.OfResult() != c.ofResults {
			t.Errorf("%+v: %v, %v, %v", c.in, in.Calls(), in.Recorded(), in.OfResult())
		}
	}
	if in := (Instruction{Bits: CheckGuess | 5}); in.Reason() != 5 {
		t.Errorf("reason %d", in.Reason())
	}
	if WaitsFor(-1) != -2 || WaitsFor(0) != -3 || WaitsFor(2) != -5 {
		t.Error("a device that calls wait for has another number")
	}
	if Number([]byte{1, 2}) != 0x201 || Number([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}) != 0x0807060504030201 {
		t.Error("bytes have another number")
	}
	if got := (Operand{5, 6}).Plus(7); got != (Operand{12, 6}) {
		t.Errorf("7 bytes on is %v", got)
	}
}
