package graphs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

const (
	main, side, updates = testtrace.StreamA, testtrace.StreamB, 0x5503
	event, external     = 0x7701, 0x7702
	attention, mlp      = 0x6601, 0x6602
	input, weights      = testtrace.DeviceA, testtrace.DeviceA + 1<<20
	flag                = testtrace.DeviceA + 2<<20 // word
	out                 = 0x7ffe0000
)

// A program makes calls on captured graphs.
type program struct{ *testtrace.Sequence }

func newProgram(t testing.TB) *program {
	p := &program{testtrace.NewSequence(t)}
	for _, s := range []uint64{main, side, updates} {
		p.Stream(s)
	}
	for _, m := range []uint64{input, weights, flag} {
		p.Malloc(m, 4096)
	}
	for fn, name := range map[uint64]string{attention: "attention", mlp: "mlp"} {
		p.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, out, out), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", fn))
	}
	for _, e := range []uint64{event, external} {
		p.Then("aclrtCreateEventExWithFlag", testtrace.A(out, 0), testtrace.Outs("event", e))
	}
	return p
}

func (p *program) launch(fn, stream uint64, words ...uint64) {
	b := testtrace.Words(words...)
	p.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(fn, 1, stream, 0, 0x7ffe1000, uint64(len(b)), 0, 0), testtrace.Reads("hostArgs", 0, b))
}

func (p *program) capture(graph uint64, body func()) {
	p.Then("aclmdlRICaptureBegin", testtrace.A(main, 0))
	body()
	p.Then("aclmdlRICaptureEnd", testtrace.A(main, out), testtrace.Outs("modelRI", graph))
}

func (p *program) group(handle uint64, body func()) {
	p.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(main))
	body()
	p.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(main, out), testtrace.Outs("handle", handle))
}

// update replaces the tasks of a group by n launches.
func (p *program) update(group uint64, n int) {
	p.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(updates, group))
	for range n {
		p.launch(attention, updates, input)
	}
	p.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(updates))
}

func (p *program) run(graph uint64)        { p.Then("aclmdlRIExecuteAsync", testtrace.A(graph, main)) }
func (p *program) sync(stream uint64)      { p.Then("aclrtSynchronizeStream", testtrace.A(stream)) }
func (p *program) record(e, stream uint64) { p.Then("aclrtRecordEvent", testtrace.A(e, stream)) }
func (p *program) wait(e, stream uint64)   { p.Then("aclrtStreamWaitEvent", testtrace.A(stream, e)) }
func (p *program) write(v, stream uint64)  { p.Then("aclrtValueWrite", testtrace.A(flag, v, 0, stream)) }
func (p *program) copy(stream uint64) {
	p.Then("aclrtMemcpyAsync", testtrace.A(input, 4096, testtrace.HostA, 64, 1, stream))
}

// await makes the captured stream wait for the word.
func (p *program) await() {
	p.Then("aclrtValueWait", testtrace.A(flag, 1, 1, main))
	p.write(0, main)
}

// guarded captures attention in a task group behind a wait for the word.
func (p *program) guarded(graph uint64) {
	p.capture(graph, func() {
		p.await()
		p.group(graph+0x100, func() { p.launch(attention, main, input) })
	})
}

// unguarded captures attention in a task group.
func (p *program) unguarded(graph uint64) {
	p.capture(graph, func() { p.group(graph+0x100, func() { p.launch(attention, main, input) }) })
}

// check returns the findings, as "kind count call/other".
func (p *program) check(t *testing.T) []graphs.Finding {
	t.Helper()
	w := timeline.NewWalk(p.Load().Reader, acl.Model, nil)
	x, err := graphs.New(w)
	if err == nil {
		err = w.Run(&timeline.Visitor{Call: x.Call})
	}
	if err != nil {
		t.Fatal(err)
	}
	return x.Findings()
}

// Each fault has a program that makes it, and programs that look like it and are right.
func TestEachFaultIsFound(t *testing.T) {
	const g, group = 0x9000, 0x9100
	loop := func(n int, body func()) {
		for range n {
			body()
		}
	}
	for _, c := range []struct {
		name, want string
		do         func(p *program)
	}{
		{"a wait behind which nothing is updated", "kept_arguments 1", func(p *program) {
			p.capture(g, func() { p.await(); p.launch(attention, main, input) })
			loop(4, func() { p.run(g); p.write(1, updates); p.sync(main) })
		}},
		{"a wait behind which the task is updated", "", func(p *program) {
			p.guarded(g)
			loop(4, func() { p.run(g); p.update(group, 1); p.write(1, updates); p.sync(main) })
		}},
		{"a wait for a copy", "", func(p *program) {
			p.capture(g, func() { p.await(); p.launch(attention, main, input) })
			loop(4, func() { p.run(g); p.copy(updates); p.write(1, updates); p.sync(main) })
		}},
		{"a wait before a copy from the host", "", func(p *program) {
			p.capture(g, func() { p.await(); p.copy(main); p.launch(attention, main, input) })
			loop(4, func() { p.run(g); p.write(1, updates); p.sync(main) })
		}},
		{"a task outside of groups, in which the kernel is elsewhere", "kept_arguments 1", func(p *program) {
			p.unguarded(g)
			p.capture(g+1, func() { p.launch(attention, main, input); p.launch(mlp, main, weights) })
			p.run(g + 1)
		}},
		{"a task outside of groups, of a kernel that is one of two in a group", "", func(p *program) {
			p.capture(g, func() { p.group(group, func() { p.launch(mlp, main, input); p.launch(attention, main, input) }) })
			p.capture(g+1, func() { p.launch(mlp, main, input) })
			p.run(g + 1)
		}},
		{"such a task in a graph that does not run", "", func(p *program) {
			p.unguarded(g)
			p.capture(g+1, func() { p.launch(attention, main, input) })
			p.run(g)
		}},

		{"an update with two tasks for one", "misfit_update 1", func(p *program) { p.unguarded(g); p.update(group, 2) }},
		{"an update without tasks", "misfit_update 1", func(p *program) { p.unguarded(g); p.update(group, 0) }},
		{"an update with as many tasks", "", func(p *program) { p.unguarded(g); p.update(group, 1) }},
		{"an update whose launch is refused", "misfit_update 1", func(p *program) {
			p.unguarded(g)
			p.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(updates, group))
			p.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(attention, 1, updates, 0, 0x7ffe1000, 0, 0, 0), testtrace.Fails(107040))
			p.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(updates), testtrace.Fails(107040))
		}},
		{"an update of a fill", "", func(p *program) {
			fill := func(stream uint64) { p.Then("aclrtMemsetAsync", testtrace.A(input, 64, 0, 64, stream)) }
			p.capture(g, func() { p.group(group, func() { fill(main) }) })
			p.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(updates, group))
			fill(updates)
			p.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(updates))
			p.sync(updates)
			p.Then("aclrtFree", testtrace.A(input))
			p.run(g)
		}},
		{"a graph has ended, and another waits for the same word", "", func(p *program) {
			const other = 0xa000
			p.guarded(g)
			p.guarded(other)
			p.update(other+0x100, 1)
			p.Then("aclmdlRIDestroy", testtrace.A(other))
			p.write(1, side)
		}},
		{"an update of an unknown group", "", func(p *program) { p.unguarded(g); p.update(0x99, 3) }},

		{"an update after a run without a wait", "early_update 2", func(p *program) {
			p.unguarded(g)
			p.run(g)
			loop(2, func() { p.update(group, 1); p.sync(updates); p.run(g) })
		}},
		{"an update after a wait of the host", "", func(p *program) {
			p.unguarded(g)
			p.run(g)
			loop(2, func() { p.sync(main); p.update(group, 1); p.sync(updates); p.run(g) })
		}},
		{"an update after a wait of the stream", "", func(p *program) {
			p.unguarded(g)
			p.run(g)
			loop(2, func() {
				p.record(event, main)
				p.wait(event, updates)
				p.update(group, 1)
				p.record(external, updates)
				p.wait(external, main)
				p.run(g)
			})
		}},
		{"an update inside a run, after no wait for the run before", "early_update 2", func(p *program) {
			p.guarded(g)
			loop(3, func() { p.run(g); p.update(group, 1); p.write(1, updates) })
		}},
		{"an update inside a run, after a wait for the run before", "", func(p *program) {
			p.guarded(g)
			loop(3, func() { p.sync(main); p.run(g); p.update(group, 1); p.write(1, updates) })
		}},
		{"an update inside a run, after an event of the run before", "", func(p *program) {
			p.guarded(g)
			loop(3, func() {
				p.record(event, main)
				p.wait(event, updates)
				p.run(g)
				p.update(group, 1)
				p.write(1, updates)
			})
		}},

		{"runs that wait for the host", "slow_update 1", func(p *program) {
			p.guarded(g)
			loop(3, func() { p.run(g); p.Now += 100_000; p.update(group, 1); p.write(1, updates); p.sync(main) })
		}},
		{"runs that work longer than the host", "", func(p *program) {
			p.guarded(g)
			loop(3, func() {
				p.run(g)
				p.Now += 100_000
				p.update(group, 1)
				p.write(1, updates)
				p.Now += 5_000_000
				p.sync(main)
			})
		}},
		{"runs whose updates come before the last tasks need them", "", func(p *program) {
			p.capture(g, func() {
				for range 8 {
					p.launch(mlp, main, weights)
				}
				p.await()
				p.group(group, func() { p.launch(attention, main, input) })
			})
			loop(3, func() {
				p.run(g)
				p.Now += 100_000
				p.update(group, 1)
				p.write(1, updates)
				p.Now += 20_000
				p.sync(main)
			})
		}},
		{"runs that are launched after their update", "", func(p *program) {
			p.guarded(g)
			loop(3, func() {
				p.update(group, 1)
				p.write(1, updates)
				p.Now += 100_000
				p.run(g)
				p.sync(main)
				p.sync(updates)
			})
		}},
		{"runs that wait for the host behind other work", "", func(p *program) {
			p.guarded(g)
			loop(3, func() {
				p.launch(mlp, main, weights)
				p.run(g)
				p.Now += 100_000
				p.update(group, 1)
				p.write(1, updates)
				p.sync(main)
			})
		}},

		{"a run that does not wait for its update", "late_update 1", func(p *program) { p.unguarded(g); p.update(group, 1); p.run(g) }},
		{"a run after the host has waited for its update", "", func(p *program) { p.unguarded(g); p.update(group, 1); p.sync(updates); p.run(g) }},
		{"a run that waits for a word behind its update", "", func(p *program) {
			p.unguarded(g)
			p.update(group, 1)
			p.write(1, updates)
			p.Then("aclrtValueWait", testtrace.A(flag, 1, 1, main))
			p.run(g)
		}},
		{"a run that another stream than that of the update releases", "late_update 1", func(p *program) {
			p.guarded(g)
			p.run(g)
			p.update(group, 1)
			p.write(1, side)
		}},
		{"a run that another stream releases after the update", "", func(p *program) {
			p.guarded(g)
			p.run(g)
			p.update(group, 1)
			p.record(event, updates)
			p.wait(event, side)
			p.write(1, side)
		}},

		{"an input on another stream", "unordered_input 1", func(p *program) {
			p.capture(g, func() { p.launch(attention, main, input) })
			p.copy(side)
			p.run(g)
		}},
		{"an input on another stream, after another copy on the graph's own", "unordered_input 1", func(p *program) {
			p.capture(g, func() { p.launch(attention, main, input) })
			p.copy(main)
			p.copy(side)
			p.run(g)
		}},
		{"an input on another stream, with a wait", "", func(p *program) {
			p.capture(g, func() { p.launch(attention, main, input) })
			p.copy(side)
			p.record(event, side)
			p.wait(event, main)
			p.run(g)
		}},
		{"an input on another stream, for which the graph waits", "", func(p *program) {
			p.capture(g, func() { p.await(); p.launch(attention, main, input) })
			loop(2, func() { p.copy(side); p.run(g); p.write(1, side); p.sync(main) })
		}},
		{"copies of blocks on another stream", "", func(p *program) {
			p.capture(g, func() { p.launch(attention, main, input) })
			for _, block := range []uint64{256, 0} {
				p.Then("aclrtMemcpyAsync", testtrace.A(input+block, 64, testtrace.HostA, 64, 1, side))
			}
			p.run(g)
		}},
		{"a copy on another stream to other memory", "", func(p *program) {
			p.capture(g, func() { p.launch(attention, main, weights) })
			p.copy(side)
			p.run(g)
		}},

		{"a run without a record, and another one", "missing_record 1", func(p *program) {
			p.guarded(g)
			loop(3, func() { p.sync(main); p.run(g) })
			p.update(group, 1)
			p.write(1, updates)
		}},
		{"a recording that ends before the last record", "", func(p *program) {
			p.guarded(g)
			p.run(g)
		}},
		{"two records for a wait, the second of which releases the next run before its update", "early_update 1, extra_record 1", func(p *program) {
			p.guarded(g)
			loop(3, func() { p.sync(main); p.run(g); p.update(group, 1); p.write(1, updates); p.write(1, updates) })
		}},
		{"records before their runs", "", func(p *program) {
			p.guarded(g)
			loop(3, func() { p.sync(main); p.update(group, 1); p.write(1, updates); p.run(g) })
		}},
		{"a word that the graph does not reset", "", func(p *program) {
			p.capture(g, func() { p.Then("aclrtValueWait", testtrace.A(flag, 1, 1, main)); p.launch(mlp, main, input) })
			p.copy(updates)
			p.write(1, updates)
			loop(3, func() { p.run(g) })
		}},

		{"a run after its memory was freed", "freed_memory 2", func(p *program) {
			p.capture(g, func() { p.launch(attention, main, 7, input+64) })
			p.run(g)
			p.sync(main)
			p.Then("aclrtFree", testtrace.A(input))
			loop(2, func() { p.run(g) })
		}},
		{"a run after its memory was freed, and after another graph with it ended", "freed_memory 1", func(p *program) {
			const other = 0xa000
			for _, graph := range []uint64{g, other} {
				p.capture(graph, func() { p.launch(attention, main, 7, input+64) })
			}
			p.Then("aclmdlRIDestroy", testtrace.A(other))
			p.Then("aclrtFree", testtrace.A(input))
			p.run(g)
		}},
		{"memory that is mapped again", "", func(p *program) {
			const at, physical = 0x126000000000, 0x8800
			p.Then("aclrtReserveMemAddress", testtrace.A(out, 4096, 0, 0, 0), testtrace.Outs("virPtr", at))
			p.Then("aclrtMallocPhysical", testtrace.A(out, 4096, out, 0), testtrace.Outs("handle", physical))
			p.Then("aclrtMapMem", testtrace.A(at, 4096, 0, physical, 0))
			p.capture(g, func() { p.launch(attention, main, at) })
			p.Then("aclrtUnmapMem", testtrace.A(at))
			p.Then("aclrtMapMem", testtrace.A(at, 4096, 0, physical, 0))
			p.run(g)
		}},
		{"a run while its memory is not mapped", "freed_memory 1", func(p *program) {
			const at, physical = 0x126000000000, 0x8800
			p.Then("aclrtReserveMemAddress", testtrace.A(out, 4096, 0, 0, 0), testtrace.Outs("virPtr", at))
			p.Then("aclrtMallocPhysical", testtrace.A(out, 4096, out, 0), testtrace.Outs("handle", physical))
			p.Then("aclrtMapMem", testtrace.A(at, 4096, 0, physical, 0))
			p.capture(g, func() { p.launch(attention, main, at) })
			p.Then("aclrtUnmapMem", testtrace.A(at))
			p.run(g)
		}},
		{"memory that is freed after the graph", "", func(p *program) {
			p.capture(g, func() { p.launch(attention, main, input) })
			p.run(g)
			p.Then("aclmdlRIDestroy", testtrace.A(g))
			p.Then("aclrtFree", testtrace.A(input))
		}},
		{"freed memory that an update has replaced", "", func(p *program) {
			p.unguarded(g)
			p.update(group, 1)
			p.sync(updates)
			p.Then("aclrtFree", testtrace.A(input))
			p.run(g)
		}},

		{"a wait of the host during a capture", "refused_call 1", func(p *program) {
			p.Then("aclmdlRICaptureBegin", testtrace.A(main, 0))
			p.Then("aclrtSynchronizeStream", testtrace.A(main), testtrace.Fails(107027))
			p.Then("aclmdlRICaptureEnd", testtrace.A(main, out), testtrace.Fails(507903))
		}},
		{"a call that fails during a capture for another reason", "", func(p *program) {
			p.capture(g, func() { p.Then("aclrtSynchronizeStream", testtrace.A(main), testtrace.Fails(107000)) })
		}},
		{"a copy of another thread during a capture", "refused_call 1", func(p *program) {
			p.Then("aclmdlRICaptureBegin", testtrace.A(main, 0))
			p.Thread = 1
			p.Then("aclrtMemcpy", testtrace.A(input, 64, testtrace.HostA, 64, 1), testtrace.Fails(107030))
			p.Thread = 0
			p.Then("aclmdlRICaptureEnd", testtrace.A(main, out), testtrace.Fails(507903))
		}},

		{"a stream that is not joined back", "unjoined_stream 1", func(p *program) {
			p.Then("aclmdlRICaptureBegin", testtrace.A(main, 0))
			p.record(event, main)
			p.wait(event, side)
			p.launch(mlp, side, input)
			p.record(external, side)
			p.wait(external, main)
			p.launch(mlp, side, input)
			p.Then("aclmdlRICaptureEnd", testtrace.A(main, out), testtrace.Fails(107025))
		}},
		{"a stream that another one joins back", "", func(p *program) {
			p.capture(g, func() {
				p.record(event, main)
				p.wait(event, side)
				p.wait(event, updates)
				p.launch(mlp, side, input)
				p.record(event, side)
				p.wait(event, updates)
				p.record(external, updates)
				p.wait(external, main)
			})
		}},

		{"graphs with most streams", "captured_streams 1", func(p *program) { p.many(512) }},
		{"graphs with fewer streams", "", func(p *program) { p.many(511) }},
		{"graphs that end before others", "", func(p *program) {
			loop(2, func() {
				p.many(400)
				for i := range uint64(400) {
					p.Then("aclmdlRIDestroy", testtrace.A(0xa000+i))
				}
			})
		}},
	} {
		p := newProgram(t)
		c.do(p)
		var got []string
		for _, f := range p.check(t) {
			got = append(got, fmt.Sprintf("%s %d", f.Kind, f.Count))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The finding of an update that the runtime refused has its error code, that of another misfit has none.
func TestRefusedUpdateHasItsCode(t *testing.T) {
	const g, group = 0x9000, 0x9100
	for code, n := range map[int64]int{107040: 1, 0: 2} {
		p := newProgram(t)
		p.unguarded(g)
		if code == 0 {
			p.update(group, n)
		} else {
			p.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(updates, group))
			p.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(updates), testtrace.Fails(int32(code)))
		}
		if fs := p.check(t); len(fs) != 1 || fs[0].Kind != graphs.MisfitUpdate || fs[0].Code != code {
			t.Errorf("code %d: %+v", code, fs)
		}
	}
}

// A trace that lacks calls may lack a wait, so nothing in it is unordered. What a capture keeps does not depend on that.
func TestLostCallsLeaveOrderUnknown(t *testing.T) {
	p := newProgram(t)
	p.unguarded(0x9000)
	p.capture(0x9001, func() { p.launch(attention, main, input) })
	p.copy(side)
	p.run(0x9001)
	p.Gap(format.Gap{From: p.Now + 1, To: p.Now + 2, Calls: 1, Reason: format.Dropped})
	if all := p.check(t); len(all) != 1 || all[0].Kind != graphs.KeptArguments {
		t.Errorf("%+v", all)
	}
}

// The first task of a trace that lacks calls updated a graph that had not run, and the check ended in a panic.
func TestUpdateWithLostCallsIsNotEarly(t *testing.T) {
	p := newProgram(t)
	p.unguarded(0x9000)
	p.update(0x9100, 1)
	p.Gap(format.Gap{From: p.Now + 1, To: p.Now + 2, Calls: 1, Reason: format.Dropped})
	if all := p.check(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// many captures graphs with three streams each.
func (p *program) many(n uint64) {
	for i := range n {
		p.capture(0xa000+i, func() {
			p.record(event, main)
			for _, s := range []uint64{side, updates} {
				p.wait(event, s)
				p.record(external, s)
				p.wait(external, main)
			}
		})
	}
}

// The graphs that hold the streams are listed by the streams that joined their captures, and how many there were before and after.
func TestStreamsAreListedByGraphAndJoinedStream(t *testing.T) {
	p := newProgram(t)
	p.many(400) // three streams each
	p.capture(0x9000, func() {
		p.record(event, main)
		p.wait(event, side)
		p.record(external, side)
		p.wait(external, main)
	})
	for i := range uint64(400) {
		p.capture(0x9001+i, func() { p.launch(mlp, main, input) })
	}
	all := p.check(t)
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	f := all[0]
	if f.Before != 1535 || f.Have != 1536 || f.Most != 1602 || f.Want != 1920 || f.Graphs != 735 || len(f.Holders) != 3 {
		t.Fatalf("%+v", f)
	}
	var got []string
	for _, h := range f.Holders {
		got = append(got, fmt.Sprintf("%d graphs %d streams %v %v", h.Graphs, h.Streams, h.Joined, h.First == h.Last))
	}
	want := []string{"400 graphs 1200 streams [stream#2 stream#3] false", "334 graphs 334 streams [] false", "1 graphs 2 streams [stream#2] true"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
