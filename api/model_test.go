package api_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/api/runtimes"
)

// The calls that acltrace makes itself are found in each model by their meaning.
func TestOwnCalls(t *testing.T) {
	for m, want := range map[*api.Model]struct {
		upload              string
		words               []uint64
		fill, fillAtOnce    string
		value, valueAtOnce  int
		waitDevice, waitOne string
	}{
		acl.Model:  {"aclrtMemcpyAsync", []uint64{0, 100, 0, 100, 1, 0}, "aclrtMemsetAsync", "aclrtMemset", 2, 2, "aclrtSynchronizeDevice", "aclrtSynchronizeStream"},
		cuda.Model: {"cuMemcpyAsync", []uint64{0, 0, 100, 0}, "cuMemsetD8Async", "cuMemsetD8_v2", 1, 1, "cuCtxSynchronize", "cuStreamSynchronize"},
	} {
		if f, words := m.Upload(100); f.Name != want.upload || !slices.Equal(words, want.words) {
			t.Errorf("%s %v, want %s %v", f.Name, words, want.upload, want.words)
		}
		if f, value := m.Fill(true); f.Name != want.fill || value != want.value {
			t.Errorf("%s %d, want %s", f.Name, value, want.fill)
		}
		if f, value := m.Fill(false); f.Name != want.fillAtOnce || value != want.valueAtOnce {
			t.Errorf("%s %d, want %s", f.Name, value, want.fillAtOnce)
		}
		if d, s := m.Waiter(api.SyncDevice), m.Waiter(api.SyncStream); d.Name != want.waitDevice || s.Name != want.waitOne {
			t.Errorf("%s, %s", d.Name, s.Name)
		}
		if runtimes.Named(m.Name) != m {
			t.Errorf("no runtime %s", m.Name)
		}
		for i := range m.Funcs {
			if f := &m.Funcs[i]; m.Func(f.ID) != f || m.Lookup(f.Name) != f {
				t.Errorf("%s is not found", f.Name)
			}
		}
	}
	none := &api.Model{}
	if f, words := none.Upload(1); f != nil || words != nil || none.Waiter(api.SyncDevice) != nil || none.Func(5) != nil || none.Lookup("x") != nil || runtimes.Named("x") != nil {
		t.Error("an empty model has functions")
	}
	if f, value := none.Fill(true); f != nil || value != -1 {
		t.Error("an empty model fills")
	}
}

// A library is known by its file name with any version, and a function beneath the runtime by its prefix.
func TestLibrariesAreKnownByFileName(t *testing.T) {
	m := acl.Model
	lib := m.Layers[0].Libraries[0]
	for file, want := range map[string]bool{lib: true, lib + ".1": true, lib + ".1.2.10": true, lib + ".": false, lib + ".x": false, "x" + lib: false, lib[:len(lib)-1]: false, "": false} {
		if m.Library(file) != want || (m.LayerOf(file) != nil) != want {
			t.Errorf("%q is a library: %t", file, m.Library(file))
		}
	}
	if l := m.LayerOf("libhccl.so.2"); l == nil || !l.Composite || m.Library("libhccl.so.2") || slices.Contains(m.Libraries(), "libhccl.so") {
		t.Errorf("%+v", l)
	}
	if !m.OfMarks("libnnopbase.so.1") || m.LayerOf("libnnopbase.so") != nil || m.OfMarks("libopapi.so") || m.OfMarks(lib) {
		t.Error("a library with marks is taken for another")
	}
	if !m.OfOperators("libopapi.so.3") || m.OfOperators(lib) || !m.ErrorType("aclError") || m.ErrorType("int") || m.Below.Has(lib) || len(m.Below.Libraries) > 0 && !m.Below.Has(m.Below.Libraries[0]) {
		t.Error("a library or a type is taken for another")
	}
	below := &api.Model{Runtime: api.Runtime{Below: api.Below{Prefixes: []string{"hal^", "ra_"}}}}
	for name, want := range map[string]bool{"halMemcpy": true, "halZ": true, "halA": true, "hal[": false, "hal@": false, "halmemcpy": false, "hal": false, "xhalMemcpy": false, "ra_send": true, "ra_": true, "raSend": false} {
		if below.Beneath(name) != want {
			t.Errorf("%s is beneath the runtime: %t", name, !want)
		}
	}
	if m.Beneath("aclrtMalloc") {
		t.Error("a function of the model is beneath the runtime")
	}
	if !m.Beneath(strings.TrimSuffix(m.Below.Prefixes[0], "^")+"Xyz") || m.Beneath("other") {
		t.Errorf("%q", m.Below.Prefixes)
	}
	if m.Counted("aclrtMalloc") || m.Counted("gone") || !m.Counted(m.Declared[0]) {
		t.Error("a function is counted by name, or is not")
	}
	if m.Harmless("aclrtMalloc") || m.Harmless("gone") || !m.Harmless(m.Inert[0]) || !m.Harmless("mstxMarkA") {
		t.Error("a function is harmless, or is not")
	}
	if got := m.ErrorName(507015); got != "ACL_ERROR_RT_AICORE_EXCEPTION" || m.ErrorName(12345) != "12345" {
		t.Errorf("%s", got)
	}
	e := m.Enums[0]
	if m.EnumName(e.Type, e.Values[0].Value) != e.Values[0].Name || m.EnumName(e.Type, math.MinInt64) != "" || m.EnumName("gone", 0) != "" {
		t.Errorf("%s", e.Type)
	}
	if m.Layout("gone") != nil || len(m.Layouts) > 0 && m.Layout(m.Layouts[0].Type) != &m.Layouts[0] {
		t.Error("a layout is that of another type")
	}
	if _, ok := m.Complete("gone"); ok {
		t.Error("a type that does not exist reports completion")
	}
}

// The default streams have numbers that are no handles, one for all threads or one a thread.
func TestStreamNumbers(t *testing.T) {
	f, own := &api.Func{}, &api.Func{Meaning: api.Meaning{OwnStream: true}}
	m := &api.Model{Runtime: api.Runtime{OwnStream: 2, Constants: 2}}
	for _, c := range []struct {
		f      *api.Func
		handle uint64
		want   uint64
		back   uint64
	}{{f, 0, 0, 0}, {f, 1, 0, 0}, {f, 2, 1<<63 | 7, 2}, {f, 3, 3, 3}, {own, 0, 1<<63 | 7, 2}, {own, 1, 0, 0}, {own, 0x5501, 0x5501, 0x5501}} {
		if n := m.StreamOf(c.f, c.handle, 7); n != c.want || m.StreamHandle(n) != c.back {
			t.Errorf("handle %d is %#x, and back %#x", c.handle, n, m.StreamHandle(n))
		}
	}
	plain := &api.Model{}
	if n := plain.StreamOf(own, 0, 7); n != 0 || plain.StreamOf(f, 5, 7) != 5 || !plain.KeepsVisible() || m.KeepsVisible() {
		t.Errorf("%#x", n)
	}
}

// Sizes are products of a call's words without overflow, and sets of values have the numbers below 16.
func TestSizesDoNotOverflow(t *testing.T) {
	f := &api.Func{Params: []api.Param{{Word: 0}, {Word: 2}}}
	size := func(unit uint64, mul ...uint8) api.Size { return api.Size{Unit: unit, Mul: mul} }
	for _, c := range []struct {
		size  api.Size
		words []uint64
		want  uint64
		ok    bool
	}{
		{size(8), nil, 8, true}, {size(4, 1), []uint64{9, 9, 5}, 20, true}, {size(4, 0, 1), []uint64{3, 9, 5}, 60, true}, {size(0, 1), []uint64{0, 0, math.MaxUint64}, 0, true},
		{size(1, 1), []uint64{0, 0, 1 << 63}, 1 << 63, true}, {size(1, 1), []uint64{0, 0, 1<<63 + 1}, 0, false}, {size(2, 1), []uint64{0, 0, 1 << 62}, 1 << 63, true}, {size(2, 1), []uint64{0, 0, 1<<62 + 1}, 0, false},
		{api.Size{Unit: 8, Stored: true}, nil, 0, false},
	} {
		if n, ok := c.size.Bytes(f, c.words); n != c.want || ok != c.ok {
			t.Errorf("%+v of %v: %d, %t", c.size, c.words, n, ok)
		}
	}
	k := api.Kinds{Param: 1, Bits: 1<<2 | 1<<15}
	for w, want := range map[uint64]bool{0: false, 2: true, 3: false, 15: true, 16: false, 18: false, 1<<32 | 2: true} {
		if k.Has(f, []uint64{2, 2, w}) != want {
			t.Errorf("%d is one of the values: %t", w, !want)
		}
	}
	if (api.Kinds{}).Has(&api.Func{}, nil) {
		t.Error("no values have one")
	}
	b := &api.CopyDesc{Width: 8, Height: api.NoField, Depth: 0}
	b.From.Kind, b.To.Rows = 4, 12
	c := b.Shifted(16)
	if c.Width != 24 || c.Height != api.NoField || c.Depth != 16 || c.From.Kind != 20 || c.To.Rows != 28 || c.From.Rows != 16 || b.Width != 8 {
		t.Errorf("%+v", c)
	}
	field := &api.Field{Tag: api.Member{Offset: 1, Size: 2}, Case: 0x0201}
	for text, want := range map[string]bool{"\x00\x01\x02": true, "\x00\x01\x02\x09": true, "\x00\x01\x03": false, "\x00\x01": false, "": false} {
		if field.Counts([]byte(text)) != want {
			t.Errorf("the member of %q is valid: %t", text, !want)
		}
	}
	if !(&api.Field{}).Counts(nil) {
		t.Error("a member without a tag is not valid")
	}
}

// An error is a failure of the program, or an answer: that the runtime is initialized or ended already, or a question's no.
func TestErrorIsFailureOrAnswer(t *testing.T) {
	m := acl.Model
	repeated := slices.Concat(m.Causes.Reinitialized, m.Causes.Refinalized)
	answers := 0
	for i := range m.Funcs {
		f := &m.Funcs[i]
		for _, e := range append(m.Errors, api.EnumValue{Value: 0}, api.EnumValue{Value: int64(f.Pending)}) {
			code := int32(e.Value)
			class := m.ErrorClass(code)
			failed := f.RetError && code != 0 && code != f.Pending
			answered := failed && (slices.Contains(repeated, code) || f.Question && (class == api.CallRefused || class == api.WorkState))
			ret := uint64(uint32(code))
			if got, want := [3]bool{f.Failed(ret), f.Answered(ret), f.Wrong(ret)}, [3]bool{failed, answered, failed && !answered}; got != want {
				t.Fatalf("%s returns %d: failed, answered, wrong: %v, want %v", f.Name, code, got, want)
			}
			if answered {
				answers++
			}
		}
	}
	if answers < len(m.Funcs) {
		t.Errorf("only %d answers", answers)
	}
	if class := (&api.Model{}).ErrorClass(0); class != api.CallRefused {
		t.Errorf("success of a runtime without error codes has class %v", class)
	}
}

// What a call returns, looks up and needs follows from its parameters.
func TestPropertiesFollowFromParameters(t *testing.T) {
	waits := &api.Func{Name: "wait:form", RetError: true, Pending: 5}
	for ret, want := range map[uint64]bool{0: false, 5: false, 6: true, 1 << 32: false, 1<<32 | 6: true} {
		if waits.Failed(ret) != want || (&api.Func{}).Failed(ret) {
			t.Errorf("%d is an error: %t", ret, !want)
		}
	}
	if (&api.Func{RetError: true}).Failed(0) || !(&api.Func{RetError: true}).Failed(5) || waits.Symbol() != "wait" {
		t.Error("an error is none, or a form has a symbol of its own")
	}
	count := func(m *api.Model, has func(*api.Func) bool) (n int) {
		for i := range m.Funcs {
			if has(&m.Funcs[i]) {
				n++
			}
		}
		return n
	}
	plain := func(types ...string) bool {
		f := &api.Func{Return: types[0]}
		for _, c := range types[1:] {
			f.Params = append(f.Params, api.Param{Type: c, Words: 1})
		}
		return f.Plain()
	}
	if !plain("int", "int") || plain("float", "int") || plain("int", "int", "double") || plain("double") || (&api.Func{Params: []api.Param{{Words: 2}}}).Plain() {
		t.Error("a function can be called with its words alone, or can't")
	}
	if n := count(acl.Model, (*api.Func).NeedsData); n == 0 || n > len(acl.Model.Funcs)/4 {
		t.Errorf("%d functions need data", n)
	}
	for name, want := range map[string]bool{"aclrtMalloc": false, "aclrtLaunchKernel": false, "aclrtBinaryGetFunction": true, "aclrtMemcpyBatch": true} {
		if got := acl.Model.Lookup(name).NeedsData(); got != want {
			t.Errorf("%s needs data: %t", name, got)
		}
	}
	f := acl.Model.Lookup("aclrtMemcpyAsync")
	if f.Param("dst") != 0 || f.Param("stream") != 5 || f.Param("gone") != -1 {
		t.Error("parameters are not found by name")
	}
	if !f.SaysHost(2, []uint64{0, 0, 0, 0, 1, 0}) || f.SaysHost(2, []uint64{0, 0, 0, 0, 2, 0}) || !f.SaysHost(0, []uint64{0, 0, 0, 0, 2, 0}) {
		t.Error("the direction of a copy does not decide")
	}
	finds := &api.Func{Params: []api.Param{{Role: api.Find}, {Role: api.Use}, {Role: api.OutHandles}, {Role: api.Answer}}, Meaning: api.Meaning{Ret: api.Find}}
	for param, want := range map[int]bool{0: true, 1: false, 2: true, 3: false, 4: false, -1: false, api.RetParam: true} {
		if finds.LooksUp(param) != want || (&api.Func{}).LooksUp(param) {
			t.Errorf("parameter %d gives handles: %t", param, !want)
		}
	}
	// Calls that add one graph to another.
	use, held := api.Param{Role: api.Use, Object: api.Graph}, api.Param{Role: api.Struct, Memory: api.Memory{Fields: []api.Field{{Object: api.Graph}}}}
	for _, c := range []struct {
		params     []api.Param
		into, from int
	}{{[]api.Param{use, {}, use}, 0, 2}, {[]api.Param{use, held}, 0, 1}, {[]api.Param{held, use}, -1, -1}, {[]api.Param{use}, -1, -1}, {[]api.Param{use, use, {Role: api.New, Object: api.Graph}}, -1, -1}, {[]api.Param{{}, use, use}, 1, 2}, {nil, -1, -1}} {
		f := &api.Func{Params: c.params}
		if into, from := f.Graphs(); into != c.into || from != c.from {
			t.Errorf("%+v: %d, %d", c.params, into, from)
		}
		f.Capture = api.CaptureBegin
		if into, from := f.Graphs(); into != -1 || from != -1 {
			t.Errorf("a capture: %d, %d", into, from)
		}
	}
}

// Parameters that hold or store handles are told from those with addresses.
func TestHandleAndAddressParametersDiffer(t *testing.T) {
	for _, c := range []struct {
		p     api.Param
		out   bool
		names bool
		lists bool
	}{
		{api.Param{Role: api.New}, true, false, false}, {api.Param{Role: api.Find}, true, false, false}, {api.Param{Role: api.Buffer}, true, false, false},
		{api.Param{Role: api.Out, Memory: api.Memory{Elem: 8}}, true, false, false}, {api.Param{Role: api.InOut, Memory: api.Memory{Elem: 9}}, false, false, false}, {api.Param{Role: api.Value}, false, false, false},
		{api.Param{Role: api.Use, Object: api.Stream}, false, true, false}, {api.Param{Role: api.End, Object: api.Device}, false, false, false}, {api.Param{Role: api.Launch, Object: api.Graph}, false, true, false},
		{api.Param{Role: api.OutHandles}, false, false, true}, {api.Param{Role: api.Answer, Object: api.Stream}, false, false, true}, {api.Param{Role: api.Answer}, false, false, false},
	} {
		if c.p.Out() != c.out || c.p.Names() != c.names || c.p.ListsHandles() != c.lists {
			t.Errorf("%+v: %t, %t, %t", c.p, c.p.Out(), c.p.Names(), c.p.ListsHandles())
		}
	}
	p := &api.Param{Memory: api.Memory{Fields: []api.Field{{Object: api.Graph, New: true}}}}
	if !p.Handles() || !p.Inside() || p.Has(api.Graph) || (&api.Param{}).Handles() || (&api.Param{}).Inside() {
		t.Errorf("%+v", p)
	}
	for o, want := range map[api.Object][2]bool{api.Device: {true, false}, api.Host: {true, true}, api.Registered: {true, true}, api.Reservation: {true, false}, api.Physical: {false, false}, api.Stream: {false, false}} {
		if o.Memory() != want[0] || o.OnHost() != want[1] {
			t.Errorf("%s: memory %t, on the host %t", o, o.Memory(), o.OnHost())
		}
	}
	for r := api.Value; r <= api.Target; r++ {
		if back, ok := api.ParseRole(r.String()); back != r || !ok {
			t.Errorf("%s is %s", r, back)
		}
	}
	if r, ok := api.ParseRole("gone"); ok || r != 0 || api.Role(200).String() != "role(200)" || !api.New.Makes() || api.Use.Makes() {
		t.Error("a role that is none")
	}
	var task api.Task
	if err := task.UnmarshalText([]byte("copy")); err != nil || task != api.Copy || task.String() != "copy" || !task.Works() || api.Record.Works() {
		t.Errorf("%v, %v", task, err)
	}
	if err := task.UnmarshalText([]byte("gone")); err == nil || task != api.Copy {
		t.Errorf("%v, %v", task, err)
	}
}

// A trace sets only variables of the simulator that a replay allows, to values of their syntax.
func TestCheckVariable(t *testing.T) {
	s := &api.Simulator{Replayed: map[string]string{"A": "[0-9]+|x.y"}, Kernels: "K", Strict: "S"}
	for _, c := range []struct{ name, value, want string }{
		{"A", "17", ""}, {"A", "x\ny", ""}, {"A", "17x", "a trace can't set it to this value"}, {"A", "", "a trace can't set it to this value"}, {"B", "17", "a trace can't set it"},
		{"A", strings.Repeat("1", 64<<10), ""}, {"A", strings.Repeat("1", 64<<10+1), "65537 bytes: at most 65536 are allowed"},
	} {
		err := s.CheckVariable(c.name, c.value)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s=%.20q: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	if !s.Decides("K") || !s.Decides("S") || s.Decides("A") || s.Decides("") {
		t.Error("a replay sets another variable")
	}
}
