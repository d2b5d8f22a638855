package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// mutation is one change of a trace.
type mutation struct {
	kind string
	what string
	call int
	do   func([]*format.Call) []*format.Call
	why  string // no replay can see it, by the rules of the planner; "" if it must be seen
}

// Recorded traces are changed in one place at a time, and replayed. A replay proves nothing if it can't distinguish the changed
// trace from the program's own run. So each change must be detected, or be undetectable by the rules below.
// It prints the rates.
func TestMutationsAreDetected(t *testing.T) {
	type tally struct{ made, seen, excused int }
	rates, reasons, tried := map[string]*tally{}, map[string]int{}, map[string]int{}
	// Every replay is a process, so few changes of each kind are tried: one for each function, four for each program.
	soak := os.Getenv("ACLTRACE_SOAK") != ""
	skip := func(program string, m *mutation) bool {
		name, _, _ := strings.Cut(m.what, " ")
		of, in := m.kind+" of "+name, m.kind+" in "+program
		switch {
		case slices.Contains(everywhere, m.kind) && !soak:
			of = in
		case strings.HasPrefix(m.kind, between) && m.why == "":
			of = fmt.Sprint(m.kind, " of call ", m.call)
		case soak:
			of = m.kind + " of " + m.what
		}
		if tried[of] > 0 || tried[in] >= 4 && !soak && (m.why != "" || !strings.HasPrefix(m.kind, between)) {
			return true
		}
		tried[of]++
		tried[in]++
		return false
	}
	simulate(t)
	const binary = "" // its place
	at, compiled := kernels(t), map[string]string{}
	library := os.Getenv("ACLSIM_KERNELS")
	// The others are tried with all kinds of changes in a soak test only.
	const others = 9
	for n, command := range [][]string{
		{"vector_add", "--n", "300"}, {"graph", binary}, {"vmm", binary}, {"batches", binary, "4", "8"}, {"threads", binary},
		{"peers", binary}, {"callbacks", binary}, {"retry", binary}, {"handoff", binary},
		others: {"hello"}, {"matmul_pipeline", "--tiles", "3"}, {"tiny_decoder", "--tokens", "2"}, {"pointers", binary}, {"paged", binary},
		{"condition", binary}, {"jobs", binary, "1"}, {"jobs", binary, "2"},
	} {
		name := command[0]
		if _, ok := programs[name]; ok {
			if compiled[name] == "" {
				compiled[name] = testenv.CompileC(t, name, []string{"testdata/" + name + ".c"})
			}
			command[0], command[1] = compiled[name], at
			t.Setenv("ACLSIM_KERNELS", library)
		} else {
			command[0] = testenv.Example(t, name)
		}
		path := recorded(t, command...)
		calls := load(t, path)
		known := map[string]bool{}
		base := run(t, path, &Options{Verify: true, Strict: true})
		for _, f := range base.Findings {
			known[f.key()] = true
		}
		for _, m := range append(all(calls, processes(t, path)), readLate(calls)...) {
			if n >= others && !soak && !slices.Contains(everywhere, m.kind) || skip(fmt.Sprint(command), &m) {
				continue
			}
			if rates[m.kind] == nil {
				rates[m.kind] = &tally{}
			}
			n := rates[m.kind]
			n.made++
			var r *Report
			var err error
			if m.do == nil {
				r, err = playLate(t, path)
			} else {
				r, err = Run(context.Background(), rewrite(t, path, m.do(clones(calls))), acl.Model, &Options{Verify: true, Strict: true, Timeout: 3 * time.Second})
			}
			switch {
			case err != nil || r.Verdict != base.Verdict || r.Crash != nil || r.Refused() || r.Results.Unproved != base.Results.Unproved || r.OtherMachineTotal > 0 || slices.ContainsFunc(r.Findings, func(f Finding) bool { return !known[f.key()] }):
				n.seen++
			case m.why != "":
				n.excused++
				reasons[m.why]++
			default:
				t.Errorf("%s, call %d: %s: %s is not seen", name, m.call, m.kind, m.what)
			}
		}
	}
	var sum tally
	for _, k := range slices.Sorted(maps.Keys(rates)) {
		n := rates[k]
		t.Logf("%-30s %3d changes, %3d detected (%3.0f %%), %3d undetectable", k, n.made, n.seen, 100*float64(n.seen)/float64(n.made), n.excused)
		sum = tally{sum.made + n.made, sum.seen + n.seen, sum.excused + n.excused}
	}
	for why, n := range reasons {
		t.Logf("undetectable, %d: %s", n, why)
	}
	t.Logf("%d changes: %d detected, %d undetectable, %d missed", sum.made, sum.seen, sum.excused, sum.made-sum.seen-sum.excused)
	if sum.made < 150 || sum.seen < sum.made/2 {
		t.Errorf("%d changes, %d seen", sum.made, sum.seen)
	}
}

// Kinds of changes that are tried on every program.
const (
	shrinks   = "count shrinks"
	grows     = "count grows"
	ofFailed  = "output of a failed call"
	readsLate = "arguments are read late"
)

var everywhere = []string{shrinks, grows, ofFailed, readsLate}

// readLate changes the runtime, not the trace: it reads kernel arguments too late.
func readLate(calls []*format.Call) []mutation {
	for i, c := range calls {
		f := acl.Model.Func(api.ID(c.Func))
		if f.Task == api.Kernel && !failed(f, c) && slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Args }) {
			return []mutation{{kind: readsLate, what: f.Name, call: i}}
		}
	}
	return nil
}

// resized changes the size of copies with recorded results.
func resized(i int, c *format.Call) (ms []mutation) {
	f := acl.Model.Func(api.ID(c.Func))
	for n := range f.Params {
		q := &f.Params[n]
		if f.Task != api.Copy || failed(f, c) || q.Role != api.Reads && q.Role != api.Writes || q.ItemSizes >= 0 || len(q.Size.Mul) != 1 {
			continue
		}
		count := f.Params[q.Size.Mul[0]].Word
		had := c.Args[count]
		if had < 2 || !slices.ContainsFunc(c.Data, func(d format.Data) bool { return int(d.Param) == n && uint64(len(d.Bytes)) == had }) {
			continue
		}
		less, more, why := shrinks, grows, ""
		if q.Role == api.Reads {
			less, more = less+" of data to the device", more+" of data to the device"
			why = "bytes that no kernel reads, or that one reads without saying so"
		}
		ms = append(ms,
			mutation{less, f.Name, i, func(cs []*format.Call) []*format.Call { cs[i].Args[count] /= 2; return cs }, why},
			mutation{more, f.Name, i, func(cs []*format.Call) []*format.Call {
				for k := range f.Params {
					// There is as much room for it.
					if p := &f.Params[k]; p.Role == api.Value && cs[i].Args[p.Word] == had {
						cs[i].Args[p.Word] *= 2
					}
				}
				return cs
			}, why})
	}
	return ms
}

// key identifies a finding without its addresses.
func (f *Finding) key() string { return f.Kind + ": " + strings.Join(f.Calls, ", ") }

// all are the changes of a trace.
func all(calls []*format.Call, process []uint32) []mutation {
	state := timeline.NewState(acl.Model)
	var ms []mutation
	for i, c := range calls {
		// The process does not matter for captures: programs with several processes capture no graph.
		e := state.Apply(0, c)
		if e.Fn.HostCallback {
			continue // the program's own function made it
		}
		captured := e.Captured != nil
		for _, m := range append(mutations(i, c, calls, process), inner(i, c, calls, process)...) {
			if captured {
				m.kind = "graph task: " + strings.Fields(m.kind)[0]
			}
			ms = append(ms, m)
		}
	}
	return ms
}

// inner changes the content of a call's arguments, and the call's place among other threads' calls.
func inner(i int, c *format.Call, calls []*format.Call, process []uint32) []mutation {
	f := acl.Model.Func(api.ID(c.Func))
	var ms []mutation
	add := func(kind, what, why string, do func(c *format.Call)) {
		ms = append(ms, mutation{kind, f.Name + " " + what, i, func(cs []*format.Call) []*format.Call { do(cs[i]); return cs }, why})
	}
	for n := range f.Params {
		q := &f.Params[n]
		if q.Role == api.Use || q.Role == api.End || q.Role == api.Launch {
			if v := another(calls[:i], q.Object, c.Args[q.Word]); v != 0 {
				why := ""
				if q.Object == api.Stream || q.Object == api.Event || q.Object == api.Context {
					why = "work, or a wait, on another stream that no result depends on"
				} else if q.Object == api.Binary {
					why = "a binary that has the same functions"
				} else if q.Object == api.Host {
					why = "pinned memory that is gone: in the replay the other one may lie where it was"
				}
				add("another object", fmt.Sprintf("%s: %s", q.Name, q.Object), why, func(c *format.Call) { c.Args[q.Word] = v })
			}
		}
		for _, d := range q.Fields {
			why := ""
			if d.Item != 0 {
				why = "an address of the program's own memory: what lay there counts"
			}
			add("field of a structure", fmt.Sprintf("%s+%d", q.Name, d.Offset), why, func(c *format.Call) {
				if q.Words > 1 {
					c.Args[int(q.Word)+int(d.Offset)/8] ^= 1 << 3
				} else if k := piece(c, n); k >= 0 && len(c.Data[k].Bytes) >= int(d.Offset)+8 {
					c.Data[k].Bytes = bytes.Clone(c.Data[k].Bytes)
					c.Data[k].Bytes[d.Offset] ^= 1 << 3
				} else {
					c.Args[q.Word] = 0
				}
			})
		}
		if k := piece(c, n); q.ItemSizes >= 0 && k >= 0 && len(c.Data[k].Bytes) >= 16 {
			// Another item's memory instead of the first one's; program memory is filled with the first one's content.
			why := ""
			if w := plan.Number(c.Data[k].Bytes[:8]); w < acl.Model.Device.From || w >= acl.Model.Device.To {
				why = "an address of the program's own memory: what lay there counts"
			}
			add("address table: "+q.Role.String(), q.Name, why, func(c *format.Call) {
				b := bytes.Clone(c.Data[k].Bytes)
				copy(b, c.Data[k].Bytes[8:16])
				c.Data[k].Bytes = b
			})
			if s := piece(c, int(q.ItemSizes)); s >= 0 {
				add("address table: sizes", q.Name, "", func(c *format.Call) {
					b := bytes.Clone(c.Data[s].Bytes)
					b[0]++
					c.Data[s].Bytes = b
				})
			}
		}
	}
	return append(ms, overtaking(i, calls, process)...)
}

// between starts the kinds that change the order of threads.
const between = "order of threads: "

// overtaking changes the order of threads: later calls of other threads come before a call. Each is the next call of its
// thread, so no other order changes.
func overtaking(i int, calls []*format.Call, process []uint32) (ms []mutation) {
	c := calls[i]
	seen := map[uint32]bool{c.Thread: true}
	for j := i + 1; j < len(calls) && j < i+20; j++ {
		b := calls[j]
		if seen[b.Thread] {
			continue
		}
		seen[b.Thread] = true
		last := int64(math.MinInt64)
		for _, k := range calls[:j] {
			if k.Thread == b.Thread {
				last = max(last, k.End)
			}
		}
		if b.Start <= c.End || last >= c.Start-2 {
			continue
		}
		why, need := "", needs(b, c, process)
		if need == "" {
			if j > i+1 {
				continue
			}
			why, need = unordered(c, b, process), "none"
		}
		f, g := acl.Model.Func(api.ID(c.Func)), acl.Model.Func(api.ID(b.Func))
		ms = append(ms, mutation{between + need, f.Name + " and " + g.Name, i, func(cs []*format.Call) []*format.Call {
			b := cs[j]
			b.Start, b.End = cs[i].Start-2, cs[i].Start-1
			return slices.Insert(slices.Delete(cs, j, j+1), i, b)
		}, why})
	}
	return ms
}

// needs gives the reason why a call must come after an earlier one of another thread, by the trace; "" for none.
func needs(later, c *format.Call, process []uint32) string {
	f, g := acl.Model.Func(api.ID(c.Func)), acl.Model.Func(api.ID(later.Func))
	if process[later.Thread] != process[c.Thread] || failed(f, c) || failed(g, later) {
		return ""
	}
	if names(later, c, process) {
		return "an object that it makes"
	}
	for i := range g.Params {
		q := &g.Params[i]
		for k := range f.Params {
			p := &f.Params[k]
			if q.Role == api.End && q.Object == p.Object && p.Role == api.Use && c.Args[p.Word] == later.Args[q.Word] {
				return "an object that the other ends"
			}
		}
	}
	if f.Task == api.Record && (g.Task == api.Wait || g.Sync == api.SyncEvent) && c.Args[f.Params[f.Event].Word] == later.Args[g.Params[g.Event].Word] {
		return "an event"
	}
	for _, a := range extents(f, c) {
		for _, b := range extents(g, later) {
			if a.lo < b.hi && b.lo < a.hi && (a.writes || b.writes) {
				return "memory"
			}
		}
	}
	return ""
}

// extent is device memory that a call uses before it returns, or frees.
type extent struct {
	lo, hi uint64
	writes bool
}

func extents(f *api.Func, c *format.Call) (es []extent) {
	if f.Stream >= 0 {
		return nil // tasks use memory in stream order
	}
	for i := range f.Params {
		q := &f.Params[i]
		w := c.Args[q.Word]
		n, ok := q.Size.Bytes(f, c.Args)
		if w < acl.Model.Device.From || w >= acl.Model.Device.To {
			continue
		}
		switch q.Role {
		case api.Reads, api.Writes, api.Fills:
			if ok && n > 0 && q.Size.Pitch < 0 {
				es = append(es, extent{w, w + n, q.Role != api.Reads})
			}
		case api.End:
			if q.Object == api.Device {
				es = append(es, extent{w, w + 1, true})
			}
		}
	}
	return es
}

// another returns a different handle of the same kind from an earlier call, 0 if there is none.
func another(before []*format.Call, kind api.Object, not uint64) uint64 {
	for _, c := range before {
		f := acl.Model.Func(api.ID(c.Func))
		for _, o := range c.Outs {
			if int(o.Param) < len(f.Params) && f.Params[o.Param].Role == api.New && f.Params[o.Param].Object == kind && o.Value != not {
				return o.Value
			}
		}
	}
	return 0
}

// piece is the data of a parameter, -1 if it was not recorded.
func piece(c *format.Call, param int) int {
	return slices.IndexFunc(c.Data, func(d format.Data) bool { return int(d.Param) == param && d.Item == 0 && d.Dir == format.DirIn })
}

// mutations are all changes to one call.
func mutations(i int, c *format.Call, calls []*format.Call, process []uint32) []mutation {
	f := acl.Model.Func(api.ID(c.Func))
	var ms []mutation
	add := func(kind, what, why string, do func(c *format.Call)) {
		ms = append(ms, mutation{kind, f.Name + " " + what, i, func(cs []*format.Call) []*format.Call { do(cs[i]); return cs }, why})
	}
	for n := range f.Params {
		q := &f.Params[n]
		add("argument: "+q.Role.String(), q.Name, undetectable(f, q, c), func(c *format.Call) { c.Args[q.Word] ^= 1 << 3 })
	}
	for n := range c.Outs {
		if int(c.Outs[n].Param) >= len(f.Params) {
			add("output: task id", "", "the runtime's own numbers of tasks are volatile", func(c *format.Call) { c.Outs[n].Value ^= 1 << 3 })
			continue
		}
		q := &f.Params[c.Outs[n].Param]
		why := ""
		switch {
		case q.Volatile:
			why = "volatile outputs are not compared"
		case q.Role == api.New || q.Role == api.Find || q.Role == api.Buffer:
			why = unusedHandle
		}
		kind := "output: " + q.Role.String()
		if failed(f, c) {
			kind = ofFailed
		}
		add(kind, q.Name, why, func(c *format.Call) { c.Outs[n].Value ^= 1 << 3 })
	}
	for n := range c.Data {
		d := &c.Data[n]
		if len(d.Bytes) == 0 {
			continue
		}
		if int(d.Param) >= len(f.Params) {
			continue
		}
		q := &f.Params[d.Param]
		kind, why := "payload in: ", ""
		if d.Dir == format.DirOut {
			kind = "payload out: "
		}
		switch {
		case q.ItemSizes >= 0 && d.Item == 0:
			why = "an address of the program's own memory: what lay there counts"
		case q.Role == api.String && !compile.Makes(f) && !slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Find }):
			why = "a name that no later call asks for"
		case q.Role == api.Args || q.Role == api.In || q.Role == api.InOut || q.Role == api.Struct || q.Role == api.File || q.Role == api.List:
			why = "bytes that neither the runtime nor the kernel looks at"
		case q.Role == api.Text || q.Role == api.Out:
			why = "volatile outputs are not compared"
		}
		add(kind+q.Role.String(), fmt.Sprintf("%s.%d", q.Name, d.Item), why, func(c *format.Call) {
			b := bytes.Clone(c.Data[n].Bytes)
			b[len(b)/2] ^= 0x41
			c.Data[n].Bytes = b
		})
	}
	ms = append(ms, resized(i, c)...)
	if f.RetError {
		why := ""
		if f.PollsCallbacks && failed(f, c) {
			why = "a wait for functions of the program's that was in vain is not made"
		}
		add("returned value", "", why, func(c *format.Call) { c.Ret ^= 107002 })
	}
	ms = append(ms, mutation{"missing call", f.Name, i, func(cs []*format.Call) []*format.Call { return slices.Delete(cs, i, i+1) }, harmless(f, c, calls[i+1:], process)})
	if i+1 < len(calls) && calls[i+1].Thread == c.Thread {
		g := acl.Model.Func(api.ID(calls[i+1].Func))
		ms = append(ms, mutation{"order", f.Name + " and " + g.Name, i, func(cs []*format.Call) []*format.Call {
			a, b := cs[i], cs[i+1]
			a.Start, b.Start, a.End, b.End = b.Start, a.Start, b.End, a.End
			cs[i], cs[i+1] = b, a
			return cs
		}, unordered(c, calls[i+1], process)})
	}
	return ms
}

const unusedHandle = "the number of a handle or of an allocation that no later call names; replay makes its own"

// undetectable gives the reason why no replay sees a changed argument.
func undetectable(f *api.Func, q *api.Param, c *format.Call) string {
	switch q.Role {
	case api.Callback:
		return "a function of the program's: a stub stands for it"
	case api.Opaque:
		if slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Callback }) {
			return "what the program gives to its own function"
		}
	case api.New, api.Find, api.Out, api.InOut, api.Text, api.Buffer, api.In, api.Args, api.ArgArray, api.List, api.String, api.File, api.Scratch, api.Struct, api.Place:
		return "an address of the program's own memory: what lay there counts"
	case api.Reads, api.Writes, api.Fills:
		return "an address of the program's own memory: what lay there counts; or bytes that are not copied back"
	case api.Value:
		// The size of a copy to or from the program is always seen.
		for i := range f.Params {
			p := &f.Params[i]
			if n := f.Param(q.Name); f.Task == api.Copy && p.Role == api.Reads && slices.Contains(p.Size.Mul, uint8(n)) {
				return ""
			}
		}
		return "a number that does not change what the runtime does here: policies, flags, room behind a buffer"
	}
	return ""
}

// harmless gives the reason why a call may be missing.
func harmless(f *api.Func, c *format.Call, later []*format.Call, process []uint32) string {
	switch {
	case failed(f, c):
		return "a call that failed has done nothing"
	case f.Task == api.Kernel:
		return "" // a copy of its result follows each
	case slices.ContainsFunc(later, func(l *format.Call) bool { return names(l, c, process) }):
		return ""
	case f.Task == api.Fill || f.Task == api.Copy || f.Sync != api.NoSync:
		return "a fill, a copy or a wait whose absence changes no result"
	case !compile.Makes(f):
		return "a call that makes nothing later calls name"
	}
	return unusedHandle
}

// names reports if a call's argument names the object of an earlier call, and no later call has made the same value.
func names(later, c *format.Call, process []uint32) bool {
	if process[later.Thread] != process[c.Thread] {
		return false // handles of two processes may be equal
	}
	f, g := acl.Model.Func(api.ID(c.Func)), acl.Model.Func(api.ID(later.Func))
	for _, o := range c.Outs {
		if int(o.Param) >= len(f.Params) || f.Params[o.Param].Role != api.New {
			continue
		}
		for i := range g.Params {
			q := &g.Params[i]
			if (q.Role == api.Use || q.Role == api.End || q.Role == api.Launch) && later.Args[q.Word] == o.Value {
				return true
			}
		}
	}
	return false
}

// unordered gives the reason why two calls may change places.
func unordered(a, b *format.Call, process []uint32) string {
	if needs(b, a, process) != "" {
		return ""
	}
	return "two calls of which neither needs the other"
}

// processes are the processes of a trace's threads.
func processes(t *testing.T, path string) (of []uint32) {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, th := range r.Threads() {
		of = append(of, th.Process)
	}
	return of
}

func load(t *testing.T, path string) []*format.Call {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := r.DataByCall(nil, func(*format.Data) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	var calls []*format.Call
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		k := c.Clone()
		k.Data = data[c.Index]
		for i := range k.Data {
			d := &k.Data[i]
			if d.Blob != 0 {
				b, err := r.BlobReader(d.Blob)
				if err != nil {
					t.Fatal(err)
				}
				if d.Bytes, err = io.ReadAll(b); err != nil {
					t.Fatal(err)
				}
				d.Blob = 0
			}
		}
		calls = append(calls, k)
	}
	return calls
}

func clones(calls []*format.Call) []*format.Call {
	var cs []*format.Call
	for _, c := range calls {
		cs = append(cs, c.Clone())
	}
	return cs
}

// rewrite makes a trace of the given calls, with all other content of another trace.
func rewrite(t *testing.T, like string, calls []*format.Call) string {
	t.Helper()
	r, err := format.Open(like, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "changed.aclt")
	w, err := format.Create(path, r.Meta(), r.Schema(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Processes() {
		_, _ = w.Process(p)
	}
	for _, th := range r.Threads() {
		_, _ = w.Thread(th)
	}
	for _, c := range calls {
		if _, err := w.Call(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func failed(f *api.Func, c *format.Call) bool { return f.RetError && uint32(c.Ret) != 0 }
