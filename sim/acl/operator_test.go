package acl

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/sim/strict"
)

// operator returns a kernel with the argument block of an operator.
func (e *env) operator(name string) acl.FuncHandle {
	e.Helper()
	return e.function(e.load(testenv.KernelBinary(0, []byte{block.Version, 0, 0, 0}, name)), name)
}

// launch launches a kernel and waits for it.
func (e *env) launchBytes(fn acl.FuncHandle, s acl.Stream, args []byte) acl.Error {
	e.Helper()
	e.ok(e.th.LaunchKernelWithHostArgs(fn, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
	return e.th.SynchronizeStream(s)
}

// unknown expects the marks of 8-byte words at an address: the name of a kernel that did not run, "" for none.
func (e *env) unknown(p acl.Addr, want ...string) {
	e.Helper()
	for i, w := range want {
		at := p + 8*acl.Addr(i)
		if k, ok := e.sim.Unknown(at, 8); k != w || ok != (w != "") {
			e.Errorf("word %d at %#x is unknown: %v (%q), want %q", i, p, ok, k, w)
		}
	}
}

// The output of an operator that is not computed is unknown, and nothing else: an unknown kernel made all memory unknown that it could reach.
func TestOperatorsMarkTheirOutputAlone(t *testing.T) {
	e := newEnv(t, Options{})
	s := e.stream()
	pool, other := e.malloc(2<<20), e.malloc(4096)
	e.ok(e.th.Memset(pool, 2<<20, 1, 2<<20))
	e.ok(e.th.Memcpy(pool+1024, 8, addr(&other), 8, acl.ACL_MEMCPY_HOST_TO_DEVICE)) // an unknown kernel would reach it
	o := testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(pool, block.In, 9, 2),
		testtrace.OperatorTensor{Base: pool, Offset: 4, DType: 9, Format: 2, Role: block.Out, Dims: []int64{2}, Strides: []int64{1}, Storage: []int64{64}},
		testtrace.OperatorTensor{Base: pool + 128, DType: 9, Format: 2, Role: block.In | block.Out, Flags: 1, Dims: []int64{1}},
		testtrace.Contiguous(pool+256, block.Out, 9, 0))
	o.Workspace, o.WorkspaceSize = pool+512, 16
	add := e.operator("aclnnAdd")
	for range 3 {
		e.ok(e.launchBytes(add, s, o.Bytes()))
	}
	e.unknown(pool, "", "", "", "", "aclnnAdd", "aclnnAdd", "", "", "", "", "", "", "", "", "", "", "aclnnAdd", "")
	e.unknown(pool+256, "", "")
	e.unknown(pool+512, "aclnnAdd", "aclnnAdd", "")
	e.unknown(pool+1024, "")
	e.unknown(other, "")
	// Known data makes it known again, and copies pass it on.
	e.ok(e.th.Memset(pool+32, 8, 0, 8))
	e.ok(e.th.Memcpy(other, 16, pool+32, 16, acl.ACL_MEMCPY_DEVICE_TO_DEVICE))
	e.unknown(other, "", "aclnnAdd", "")
	// What a kernel that was not computed has written may be the address of anything.
	mystery := e.function(e.load(testBinary(0, "mystery")), "mystery")
	far, args := e.malloc(4096), binary.LittleEndian.AppendUint64(nil, other)
	e.ok(e.th.Memset(far, 4096, 0, 4096))
	e.unknown(far, "")
	e.ok(e.launchBytes(mystery, s, args))
	e.unknown(far, "mystery")
	// A graph marks its output at each run.
	far = e.malloc(64)
	g := e.capture(s, func() {
		b := testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(far+8, block.Out, 9, 1)).Bytes()
		e.ok(e.th.LaunchKernelWithHostArgs(add, 1, s, nil, addr(&b[0]), uint64(len(b)), nil, 0))
	})
	for range 2 {
		e.ok(e.th.Memset(far, 64, 0, 64))
		e.unknown(far, "", "")
		e.ok(e.th.MdlRIExecuteAsync(g, s))
		e.ok(e.th.SynchronizeStream(s))
		e.unknown(far, "", "aclnnAdd", "")
	}
	e.ok(e.th.Finalize())
	if l := e.log.String(); strings.Count(l, "aclnnAdd") != 0 || strings.Count(l, "4 launches of 1 operator that no kernel library computes took modelled time") != 1 {
		t.Errorf("the log says %q", l)
	}
}

// What an operator declares is checked as if it was computed.
func TestOperatorsAreChecked(t *testing.T) {
	e := newEnv(t, Options{})
	p := e.malloc(64)
	add := e.operator("aclnnAdd")
	for want, o := range map[string]*testtrace.Operator{
		"kernel aclnnAdd: parameter 1 (float32[3000]), written: ": testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(p, block.In, 0, 16), testtrace.Contiguous(p, block.Out, 0, 3000)),
		"kernel aclnnAdd: parameter 0 (int4[1]), read: ":          testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(0, block.In, 29, 1)),
		"kernel aclnnAdd: workspace, ":                            {Name: "aclnnAdd", Workspace: p, WorkspaceSize: 1 << 20},
	} {
		s := e.stream()
		e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.launchBytes(add, s, o.Bytes()))
		if m := space.GoString((*byte)(space.Pointer(e.th.GetRecentErrMsg()))); !strings.Contains(m, want) {
			t.Errorf("error %q, want %q", m, want)
		}
		e.ok(e.th.DestroyStream(s))
	}
	// Strict mode sees the accesses.
	e = strictEnv(t, Options{})
	p, add = e.malloc(64), e.operator("aclnnAdd")
	a, b := e.stream(), e.stream()
	args := testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(p, block.Out, 0, 16)).Bytes()
	e.ok(e.th.LaunchKernelWithHostArgs(add, 1, a, nil, addr(&args[0]), uint64(len(args)), nil, 0))
	e.ok(e.th.LaunchKernelWithHostArgs(add, 1, b, nil, addr(&args[0]), uint64(len(args)), nil, 0))
	e.ok(e.th.SynchronizeDevice())
	e.found(strict.StreamRace)
	// The library keeps its binary: that is no leak of the program.
	e.ok(e.th.DestroyStream(a))
	e.ok(e.th.DestroyStream(b))
	e.ok(e.th.Free(p))
	e.ok(e.th.Finalize())
	e.found(strict.StreamRace)
}

// A block that lies says nothing about the memory that its launch accesses: all that it reaches is unknown, and the log says so once.
func TestOperatorsWithInvalidBlocks(t *testing.T) {
	e := newEnv(t, Options{})
	s, p := e.stream(), e.malloc(4096)
	add := e.operator("aclnnAdd")
	args := testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(p, block.In, 99, 4)).Bytes()
	for range 2 {
		e.ok(e.launchBytes(add, s, args))
	}
	e.unknown(p+1024, "aclnnAdd")
	if l := e.log.String(); strings.Count(l, "operator aclnnAdd: tensor 0: unknown data type 99; its launch may have written all memory that it reaches") != 1 {
		t.Errorf("the log says %q", l)
	}
	var bin acl.BinHandle
	b := testenv.KernelBinary(0, []byte{9, 0, 0, 0}, "aclnnAdd")
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.BinaryLoadFromData(addr(&b[0]), uint64(len(b)), nil, &bin))
	if m := space.GoString((*byte)(space.Pointer(e.th.GetRecentErrMsg()))); !strings.Contains(m, "section .aclsim.operators has version 9: want 1") {
		t.Errorf("error %q", m)
	}
}

// A kernel of a library without code counts as not computed. It was ignored, and one with empty code made its output known.
func TestKernelsWithoutCode(t *testing.T) {
	kernels := testKernels()
	code := kernels["fill"].Run
	kernels["fill"].Run = nil
	kernels["load"] = &device.Kernel{Name: "load"} // neither code nor extents
	e := newEnv(t, Options{Kernels: kernels})
	s, p, q := e.stream(), e.malloc(4096), e.malloc(4096)
	bin := e.load(testBinary(11, "load", "fill"))
	fill, load := e.function(bin, "fill"), e.function(bin, "load")
	e.ok(e.launchBytes(fill, s, fillArgs(7, p+8, 8)))
	e.unknown(p, "", "fill", "")
	if b := space.Bytes(p, 16); b[8] != 0 {
		t.Errorf("memory is %v", b)
	}
	e.ok(e.launchBytes(load, s, binary.LittleEndian.AppendUint64(nil, q)))
	e.unknown(q+1024, "load")
	e.ok(e.th.Finalize())
	if l := e.log.String(); !strings.Contains(l, `kernel "load" has neither code nor extents`) || strings.Count(l, "1 launch of 1 operator that no kernel library computes") != 1 {
		t.Errorf("the log says %q", l)
	}

	// A library with code for an operator computes it.
	out := uint64(0)
	kernels["aclnnFill"] = &device.Kernel{Name: "aclnnFill",
		Extents: func(_ *device.Launch, to []space.Extent) []space.Extent {
			return append(to, space.Extent{Addr: out, Size: 8, Access: space.Write})
		},
		Run: func(*device.Launch) { space.Bytes(out, 8)[0] = 5 },
	}
	kernels["fill"].Run = code
	e = newEnv(t, Options{Kernels: kernels})
	s, out = e.stream(), e.malloc(64)
	e.ok(e.launchBytes(e.operator("aclnnFill"), s, testtrace.OnTensors("aclnnFill", testtrace.Contiguous(out, block.Out, 9, 2)).Bytes()))
	e.unknown(out, "", "")
	if space.Bytes(out, 1)[0] != 5 {
		t.Error("the operator was not computed")
	}
}

// An operator that only moves and fills is done, with what is unknown of the bytes that it moves, and counts as computed. All data that a
// program gathered from one rank was unknown, and padded data was zero. An operator with several types or blocks is not computed.
func TestOperatorsThatOnlyMove(t *testing.T) {
	e := newEnv(t, Options{})
	s := e.stream()
	from, to := e.malloc(4096), e.malloc(4096)
	const moves = "aclnnInplaceCopy"
	fn := e.operator(moves)
	add := testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(from+8, block.Out, 9, 1)).Bytes()
	e.ok(e.launchBytes(e.operator("aclnnAdd"), s, add)) // its output is unknown
	view := func(base uint64, role block.Role, dims, strides []int64) testtrace.OperatorTensor {
		return testtrace.OperatorTensor{Base: base, Offset: 1, DType: 9, Format: 2, Role: role, Dims: dims, Strides: strides, Storage: []int64{32}}
	}
	const adds = "aclnnAdd"
	for _, c := range []struct {
		name    string
		out, in testtrace.OperatorTensor
		want    []uint64 // words of the output's memory
		unknown []string // kernels
	}{
		{"contiguous", testtrace.Contiguous(to, block.Out, 9, 2, 3), testtrace.Contiguous(from, block.In, 9, 2, 3), []uint64{1, 0, 3, 4, 5, 6, 0}, []string{"", adds, "", "", "", "", ""}},
		{"of one order, with an offset", view(to, block.Out, []int64{2, 3}, []int64{1, 2}), view(from, block.In, []int64{2, 3}, []int64{1, 2}), []uint64{0, 0, 3, 4, 5, 6, 7, 0}, []string{"", adds, "", "", "", "", "", ""}},
		{"one element's stride", view(to, block.Out, []int64{1, 3}, []int64{7, 1}), view(from, block.In, []int64{1, 3}, []int64{1, 1}), []uint64{0, 0, 3, 4, 0}, []string{"", adds, "", "", ""}},
		{"transposed", view(to, block.Out, []int64{2, 3}, []int64{3, 1}), view(from, block.In, []int64{2, 3}, []int64{1, 2}), []uint64{0, 0, 4, 6, 3, 5, 7, 0}, []string{"", adds, adds, adds, adds, adds, adds, ""}},
		{"with gaps", view(to, block.Out, []int64{2}, []int64{2}), view(from+8, block.In, []int64{2}, []int64{2}), []uint64{0, 3, 0, 5, 0}, []string{"", "", "", "", ""}},
		{"into gaps", view(to, block.Out, []int64{2}, []int64{2}), view(from, block.In, []int64{2}, []int64{1}), []uint64{0, 0, 0, 3, 0}, []string{"", adds, adds, adds, ""}},
		{"of another type", testtrace.Contiguous(to, block.Out, 9, 3), testtrace.Contiguous(from, block.In, 10, 3), []uint64{0, 0, 0, 0}, []string{moves, moves, moves, ""}},
	} {
		in, out := make([]uint64, 512), make([]uint64, 512)
		for i := range in {
			in[i] = uint64(i) + 1
		}
		e.ok(e.th.Memset(to, 4096, 0, 4096))
		e.ok(e.th.Memcpy(from, 8, addr(&in[0]), 8, acl.ACL_MEMCPY_HOST_TO_DEVICE))
		e.ok(e.th.Memcpy(from+16, 4080, addr(&in[2]), 4080, acl.ACL_MEMCPY_HOST_TO_DEVICE))
		e.ok(e.launchBytes(fn, s, testtrace.OnTensors(moves, c.out, c.in).Bytes()))
		e.ok(e.th.Memcpy(addr(&out[0]), 4096, to, 4096, acl.ACL_MEMCPY_DEVICE_TO_HOST))
		if got := out[:len(c.want)]; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		e.unknown(to, c.unknown...)
	}
	e.ok(e.th.Finalize())
	if l := e.log.String(); !strings.Contains(l, "2 launches of 2 operators that no kernel library computes") {
		t.Errorf("the log says %q", l)
	}
}

// Joined tensors keep the marks of their parts. Output that an operator fills is known, and costs the host no memory if it is zero.
func TestOperatorsThatFill(t *testing.T) {
	e := newEnv(t, Options{})
	s := e.stream()
	const large = 2 << 30
	a, b, to, zeros := e.malloc(64), e.malloc(64), e.malloc(64), e.malloc(large)
	add := e.operator("aclnnAdd")
	for _, p := range []uint64{b, to, zeros} {
		e.ok(e.launchBytes(add, s, testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(p, block.Out, 9, 2)).Bytes()))
	}
	parts := []testtrace.OperatorTensor{testtrace.Contiguous(a, block.In, 9, 1), testtrace.Contiguous(b, block.In, 9, 1), testtrace.Contiguous(a, block.In, 9, 1)}
	cat := testtrace.Operator{Name: "aclnnCat", Params: []testtrace.OperatorParam{{Type: 'L', Tensors: parts}, {Type: 'i', Value: int64(0)},
		{Type: 'T', Tensors: []testtrace.OperatorTensor{testtrace.Contiguous(to, block.Out, 9, 3)}}}}
	e.ok(e.launchBytes(e.operator("aclnnCat"), s, cat.Bytes()))
	e.unknown(to, "", "aclnnAdd", "")
	gaps := testtrace.OperatorTensor{Base: b, DType: 9, Format: 2, Role: block.Out, Dims: []int64{2}, Strides: []int64{2}, Storage: []int64{4}}
	zero := e.operator("aclnnInplaceZero")
	e.ok(e.launchBytes(zero, s, testtrace.OnTensors("aclnnInplaceZero", gaps).Bytes()))
	e.unknown(b, "aclnnAdd", "aclnnAdd", "aclnnAdd", "") // the second word was not written
	before := resident(t)
	e.ok(e.launchBytes(zero, s, testtrace.OnTensors("aclnnInplaceZero", testtrace.Contiguous(zeros, block.Out, 2, large)).Bytes()))
	e.ok(e.th.SynchronizeStream(s))
	e.unknown(zeros, "", "")
	if n := resident(t); n > before+large/4 {
		t.Errorf("zeros use %d bytes of the host", n-before)
	}
}
