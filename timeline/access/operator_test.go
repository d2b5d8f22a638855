package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline/access"
)

// operator launches an operator.
func (s *sequence) operator(o *testtrace.Operator) {
	s.t.Helper()
	b := o.Bytes()
	s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(fn, 1, strA, 0, host, uint64(len(b)), 0, 0), testtrace.Reads("hostArgs", 0, b))
}

// binary loads a binary with the kernel of the operators. section is nil for a binary that declares no operators.
func (s *sequence) binary(section []byte) {
	s.t.Helper()
	b := testenv.KernelBinary(0, section, "aclnnAdd")
	s.Then("aclrtBinaryLoadFromData", testtrace.A(host, uint64(len(b)), 0, host), testtrace.Reads("data", 0, b), testtrace.Outs("binHandle", 0x9901))
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x9901, host, host), testtrace.Text("kernelName", "aclnnAdd"), testtrace.Outs("funcHandle", fn))
}

// add has two inputs, an output with gaps, an empty tensor, and a number that looks like an address.
func add() *testtrace.Operator {
	o := testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(devA, block.In, 0, 4),
		testtrace.OperatorTensor{Base: devA, Offset: 16, DType: 0, Format: 2, Role: block.In, Dims: []int64{4}},
		testtrace.OperatorTensor{Base: devB + 512, Offset: 1, DType: 0, Format: 2, Role: block.Out, Dims: []int64{2, 2}, Strides: []int64{4, 1}, Storage: []int64{64}},
		testtrace.Contiguous(devB+1024, block.Out, 1, 2, 3), testtrace.Contiguous(devB, block.Out, 1, 0))
	o.Params = append(o.Params, testtrace.OperatorParam{Type: 'i', Value: int64(devA + 64)}, testtrace.OperatorParam{Type: 'I', Value: []int64{devB, devA}})
	o.Workspace, o.WorkspaceSize = devB+2048, 64
	return o
}

// An operator accesses the bytes that its argument block declares. Each word that may be an address counted, and all memory that it led to.
func TestOperatorsAccessTheirOperands(t *testing.T) {
	const table = devA + 0x200000
	program := func(section []byte, known bool) *sequence {
		s := newSequence(t)
		s.Stream(strA)
		s.Malloc(devA, 4096)
		s.Malloc(devB, 4096)
		s.Malloc(table, 4096)
		s.Then("aclrtMemcpy", testtrace.A(devA, 8, host, 8, 1), testtrace.Reads("src", 0, testtrace.Words(table))) // it leads to other memory
		if known {
			s.binary(section)
		}
		s.operator(add())
		return s
	}
	want := "0x124000000000 reads 0:16, 0x124000000000 reads 64:80, 0x124000100000 reads 516:540, 0x124000100000 writes 516:540, 0x124000100000 writes 1024:1036"
	last := func(s *sequence) string { c := s.each(); return c[len(c)-1] }
	for _, s := range []*sequence{program(nil, false), program([]byte{1, 0, 0, 0}, true)} {
		if got := last(s); !strings.HasSuffix(got, ": 0x124000100000 writes 2048:2112, "+want) {
			t.Errorf("an operator: %q, want %q", got, want)
		}
	}
	if got := last(program(nil, true)); !strings.Contains(got, "names via") || strings.Contains(got, "reads") {
		t.Errorf("a kernel whose binary declares no operators: %q", got)
	}

	var all []string
	s := program(nil, false)
	s.calls(func(q *access.Call) {
		e := q.Event
		accesses, known := q.Addresses()
		if all = all[:0]; !known {
			t.Errorf("call %d: its arguments are unknown", e.Call.Index)
		}
		for _, a := range accesses {
			if e.Fn.Params[a.Param].Name != "hostArgs" {
				continue
			}
			all = append(all, fmt.Sprintf("%s %#x+%d", a.Kind, a.Addr, a.Size))
		}
	})
	if want := []string{"writes 0x124000100800+64", "reads 0x124000000000+16", "reads 0x124000000040+16", "reads 0x124000100204+24", "writes 0x124000100204+24", "writes 0x124000100400+12"}; !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
}

// The address words of an operator's argument block are those of its operands: no number is one, and none is left out.
func TestOperatorsDeclareAddresses(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Malloc(devA, 4096)
	s.Malloc(devB, 4096)
	s.operator(add())
	b := add().Bytes()
	x, err := block.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, o := range x.Operands() {
		want = append(want, fmt.Sprintf("%d:%#x layout", o.At, o.Addr))
	}
	var got []string
	err = access.Each(s.Load().Reader, acl.Model, func(q *access.Call) error {
		if q.Event.Kernel == "" && q.Event.Fn.Name != "aclrtLaunchKernelWithHostArgs" {
			return nil
		}
		scan := q.Scan(&q.Data[0], access.Input)
		// In pieces, as a long payload is read.
		for at := 0; at < len(b); at += 64 {
			scan.Next(b[at:min(at+64+int(scan.Ahead), len(b))], 64)
			for _, w := range scan.Words {
				got = append(got, fmt.Sprintf("%d:%#x %s", w.At, w.Addr, w.Evidence))
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) || len(want) != 6 {
		t.Errorf("%q, want %q: %v", got, want, err)
	}
}

// Operators with arguments in device memory declare their accesses and addresses in the same way.
func TestOperatorsWithDeviceArguments(t *testing.T) {
	const args = devA + 0x200000
	s := newSequence(t)
	s.Stream(strA)
	s.Malloc(devA, 4096)
	s.Malloc(devB, 4096)
	s.Malloc(args, 4096)
	b := add().Bytes()
	s.Then("aclrtMemcpy", testtrace.A(args, uint64(len(b)), host, uint64(len(b)), 1), testtrace.Reads("src", 0, b))
	s.run(args, uint64(len(b)), strA)
	var pointers []string
	err := access.Each(s.Load().Reader, acl.Model, func(q *access.Call) error {
		for _, w := range q.Pointers() {
			pointers = append(pointers, fmt.Sprintf("%d:%#x %s", w.At, w.Addr, w.Evidence))
		}
		return nil
	})
	if want := 6; err != nil || len(pointers) != want || !strings.HasSuffix(pointers[0], "layout") {
		t.Errorf("%q, want %d: %v", pointers, want, err)
	}
}
