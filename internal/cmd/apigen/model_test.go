package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
)

func loaded(t *testing.T) *model {
	t.Helper()
	return loadedOf(t, "acl")
}

func loadedOf(t *testing.T, runtime string) *model {
	t.Helper()
	r, err := loadRuntime("../../../api", runtime)
	if err != nil {
		t.Fatal(err)
	}
	return r.model
}

// Every function in the tables has semantics or a reason in docs/dev/coverage.md.
func TestEveryFunctionIsModelled(t *testing.T) {
	for _, runtime := range []string{"acl", "cuda"} {
		m := loadedOf(t, runtime)
		for _, f := range m.Funcs {
			if why := m.why[f.Name]; f.Modelled == (why != "") {
				t.Errorf("%s: modelled %t, but %q", f.Name, f.Modelled, why)
			}
		}
	}
}

// Existing traces contain these ids. Add the block that the test prints for new functions, and never change one.
func TestNumbersStay(t *testing.T) {
	type block struct {
		from, to api.ID
		sum      uint32
	}
	for runtime, blocks := range map[string][]block{
		"acl":  {{1, 428, 0x53bf222a}, {429, 434, 0xb4db6398}, {435, 444, 0x8ee4f2dc}, {1001, 1172, 0xcfa86d2e}, {1173, 1177, 0xb9f2133f}, {1178, 1189, 0xad7b62c6}, {2001, 2045, 0xab9c72e1}, {3001, 3013, 0x1eee39af}, {4001, 4001, 0xf75d8925}, {6001, 6008, 0x2df4e37a}, {7001, 7056, 0xe27886a5}},
		"cuda": {{4001, 4001, 0xf75d8925}, {5001, 5578, 0x71039af8}, {5579, 5626, 0x4561e992}, {5627, 5665, 0xd5c0c208}, {5666, 5672, 0x2eb99556}},
	} {
		names := map[api.ID]string{}
		for _, f := range loadedOf(t, runtime).Funcs {
			names[f.ID] = f.Name
		}
		take := func(from, to api.ID) (n int, sum uint32) {
			for id := from; id <= to; id++ {
				if name, ok := names[id]; ok {
					n++
					sum = crc32.Update(sum, crc32.IEEETable, fmt.Appendln(nil, id, name))
					delete(names, id)
				}
			}
			return n, sum
		}
		for _, b := range blocks {
			if n, sum := take(b.from, b.to); n != int(b.to-b.from)+1 || sum != b.sum {
				t.Errorf("functions %d to %d: %d of them, checksum %#x, want %#x: a function has another number than in old traces", b.from, b.to, n, sum, b.sum)
			}
		}
		for len(names) > 0 {
			from := slices.Min(slices.Collect(maps.Keys(names)))
			to := from
			for names[to+1] != "" {
				to++
			}
			_, sum := take(from, to)
			t.Errorf("new functions of %s: add the block {%d, %d, %#x}", runtime, from, to, sum)
		}
	}
}

// sizes compares the sizes in the semantics with the layouts of the pointed-to types.
func sizes(m *model) []string {
	var bad []string
	for i := range m.Funcs {
		f := &m.Funcs[i]
		for _, p := range f.Params {
			base, pointer := strings.CutSuffix(strings.TrimPrefix(p.Type, "const "), "*")
			want := uint64(m.size(base))
			if !pointer || base == "void" || m.handle(p.Type) {
				continue
			}
			complain := func(got uint64) {
				bad = append(bad, fmt.Sprintf("%s: %s: a %s is %d bytes, not %d", f.Name, p.Name, base, want, got))
			}
			switch p.Role {
			case api.Out, api.InOut, api.New, api.Find, api.Struct:
				if want != uint64(p.Elem) {
					complain(uint64(p.Elem))
				}
			case api.In, api.Answer, api.Uses:
				// A parameter that counts bytes belongs to text or raw memory.
				if want != 0 && p.Size.Unit != want && len(m.factors[factorKey{f.Name, p.Name}]) == 0 && base != "char" {
					complain(p.Size.Unit)
				}
			case api.List:
				s := m.structByName(base)
				if s == nil || len(s.fields) != 2 || s.size != 16 {
					bad = append(bad, fmt.Sprintf("%s: %s: %s is no list", f.Name, p.Name, base))
				} else if want = uint64(m.size(strings.TrimSuffix(s.fields[0].ctype, "*"))); want != uint64(p.Elem) {
					complain(uint64(p.Elem))
				}
			}
		}
	}
	return bad
}

func TestSizesAgreeWithLayouts(t *testing.T) {
	m := loaded(t)
	for _, s := range slices.Concat(sizes(m), sizes(loadedOf(t, "cuda"))) {
		t.Error(s)
	}
	// The check detects each kind of difference.
	for _, c := range []struct{ fn, param string }{
		{"aclrtPointerGetAttributes", "attributes"}, {"aclrtMemSetAccess", "desc"}, {"aclrtLaunchKernelV2", "cfg"},
		{"rtKernelLaunchWithFlag", "argsInfo"}, {"aclrtGetMemUsageInfo", "memUsageInfo"}, {"aclmdlLoadFromFile", "modelId"},
	} {
		f := m.find(c.fn)
		p := &f.Params[f.Param(c.param)]
		old := *p
		p.Elem++
		p.Size.Unit++
		if got := sizes(m); len(got) != 1 || !strings.HasPrefix(got[0], c.fn+": "+c.param) {
			t.Errorf("%s.%s of another size: %v", c.fn, c.param, got)
		}
		*p = old
	}
}

// A structure passed by value takes a word per 8 bytes. Its role is Struct if it contains pointers.
func TestStructuresByValue(t *testing.T) {
	m := loaded(t)
	var found []string
	for _, f := range m.Funcs {
		words := 0
		for _, p := range f.Params {
			if s := m.structByName(p.Type); s != nil {
				found = append(found, s.name)
				if int(p.Words) != (s.size+7)/8 {
					t.Errorf("%s: %s takes %d words for %d bytes", f.Name, p.Name, p.Words, s.size)
				}
				if pointers := slices.ContainsFunc(s.fields, func(f field) bool { return strings.HasSuffix(f.ctype, "*") || m.handle(f.ctype) }); pointers != (p.Role == api.Struct) {
					t.Errorf("%s: %s is a %s: pointers in it: %t", f.Name, p.Name, p.Role, pointers)
				}
			}
			if int(p.Word) != words {
				t.Errorf("%s: %s is word %d, want %d", f.Name, p.Name, p.Word, words)
			}
			words += int(p.Words)
		}
	}
	slices.Sort(found)
	if want := []string{"HcclConfigValue", "aclmdlRICondTaskParams", "aclrtIpcEventHandle", "aclrtMemManagedLocation", "dim3"}; !slices.Equal(slices.Compact(found), want) {
		t.Errorf("structures by value: %v, want %v", found, want)
	}
}

// A function with a callback parameter, or one that polls for callbacks, may run them, whatever semantics.yaml says.
func TestFunctionsThatRunCallbacks(t *testing.T) {
	for name, want := range map[string]bool{
		"aclrtLaunchCallback": true, "aclrtSetExceptionInfoCallback": true, "aclrtProcessReport": true, "aclrtProcessHostFunc": true, "rtCallbackLaunch": true,
		"aclrtCreateStream": true, "rtStreamDestroy": true, "aclrtMalloc": false, "aclrtSubscribeReport": false, "aclrtAllocatorGetByStream": false,
	} {
		if f := loaded(t).find(name); f.RunsCallbacks != want {
			t.Errorf("%s: RunsCallbacks is %t", name, f.RunsCallbacks)
		}
	}
	for _, name := range []string{"cuLaunchHostFunc", "cuLaunchHostFunc_ptsz", "cuStreamAddCallback", "cuOccupancyMaxPotentialBlockSize", "cuUserObjectCreate", "cuLogsRegisterCallback"} {
		if f := loadedOf(t, "cuda").find(name); !f.RunsCallbacks {
			t.Errorf("%s does not run callbacks", name)
		}
	}
	for _, name := range []string{"aclrtLaunchCallback", "aclrtProcessReport"} {
		m := loaded(t)
		s := &semantics{PollsCallbacks: name == "aclrtProcessReport", Params: map[string]string{}}
		s.RunsCallbacks = true
		if name == "aclrtLaunchCallback" {
			s.Params["userData"] = "opaque"
		}
		if err := m.apply(m.find(name), s); err == nil || !strings.Contains(err.Error(), "runs_callbacks: ") {
			t.Errorf("%s with a key that its signature implies: %v", name, err)
		}
	}
}

func TestSemanticsThatAreWrong(t *testing.T) {
	for _, c := range []struct{ fn, param, role, err string }{
		{"aclrtMemcpy", "dst", "writes(cont)", "no parameter cont"},
		{"aclrtMemcpy", "dst", "overwrites(count)", "no role"},
		{"aclrtMemcpy", "dst", "writes(src.count)", "no field count behind src"},
		{"aclrtMemcpy", "dst", "writes(aclrtStreamQuery(src))", "no question about a parameter"},
		{"aclrtMemcpy", "dst", "writes(count) maybe", "not understood"},
		{"aclrtMemcpy", "dts", "writes(count)", "no parameter dts"},
		{"aclrtGetMemInfo", "attr", "struct", "layout of aclrtMemAttr unknown"},
		{"aclrtMalloc", "devPtr", "", "needs a role"},
		{"aclmdlRIDebugJsonPrint", "path", "", "path: a const char* needs a role: file"}, // a replay passed a path as text, and the call overwrote the file
	} {
		m := loaded(t)
		s := &semantics{}
		if c.role != "" {
			s.Params = map[string]string{c.param: c.role}
		}
		if c.fn == "aclrtMemcpy" {
			s.Params["src"] = "reads(count)"
			if c.param != "dst" {
				s.Params["dst"] = "writes(count)"
			}
		}
		if err := m.apply(m.find(c.fn), s); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s: %q: error %v, want %q", c.fn, c.param, c.role, err, c.err)
		}
	}
}

// Packages between the model and the viewers name no runtime: no string literal in them equals a name in the tables.
func TestCoreNamesNoRuntime(t *testing.T) {
	for _, runtime := range []string{"acl", "cuda"} {
		noneNamed(t, loadedOf(t, runtime))
	}
}

func noneNamed(t *testing.T, m *model) {
	names := map[string]bool{m.Simulator.Symbol: true, m.Simulator.Kernels: true, m.Simulator.Loaded: true, m.Simulator.Beside: true, m.Simulator.Base: true, m.Simulator.Place: true, m.Simulator.Strict: true, m.Simulator.Findings: true, m.Simulator.Uninitialised: true, m.Simulator.Clock: true,
		m.Accelerator.Vendor: true, m.DeviceName: true}
	delete(names, "")                              // absent names
	if kind := m.Accelerator.Kind; kind != "gpu" { // a general term that viewers use
		names[kind] = true
	}
	for _, n := range slices.Concat(m.Installed.Homes, m.Installed.Folders, m.Installed.Driver, m.Installed.Devices) {
		names[n] = true
	}
	for _, f := range m.Funcs {
		names[f.Name] = true
	}
	for _, s := range m.structs {
		names[s.name] = true
	}
	for _, d := range m.typedefs {
		names[d.name] = true
	}
	for _, e := range m.Enums {
		names[e.Type] = true
	}
	for _, l := range m.Layers {
		for _, n := range l.Libraries {
			names[n] = true
		}
	}
	for _, dir := range []string{"probe", "record", "format", "timeline", "report", "otelexport", "otelexport/live", "otelexport/internal/*", "export/*", "replay", "replay/whatif", "analyze/*", "cmd/acltrace"} {
		files, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && (names[strings.Trim(l.Value, "`\"")] || strings.Contains(l.Value, m.Simulator.Prefix)) {
					t.Errorf("%s: %s", set.Position(l.Pos()), l.Value)
				}
				return true
			})
		}
	}
}
