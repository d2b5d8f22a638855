package timeline_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// operands adds the calls by which a program makes arguments of operators.
type operands struct {
	*testtrace.Sequence
	handle uint64 // of the last one
}

func numbers(list ...int64) string {
	var b []byte
	for _, v := range list {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return string(b)
}

func (o *operands) gives(v uint64) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) { c.Ret = v }
}

// tensor makes a tensor of dims and strides at an address; no strides mean none.
func (o *operands) tensor(address uint64, dims, strides []int64) uint64 {
	o.handle++
	n := uint64(len(dims))
	o.Then("aclCreateTensor", testtrace.A(0x10, n, 0, 0x20, 0, 2, 0x30, n, address), testtrace.Text("viewDims", numbers(dims...)), testtrace.Text("stride", numbers(strides...)),
		testtrace.Text("storageDims", numbers(dims...)), o.gives(o.handle))
	return o.handle
}

func (o *operands) list(handles ...int64) {
	o.handle++
	o.Then("aclCreateTensorList", testtrace.A(0x10, uint64(len(handles))), testtrace.Text("value", numbers(handles...)), o.gives(o.handle))
}

// lookUp looks up a kept executor for tensors at addresses.
func (o *operands) lookUp(key, executor uint64, addresses ...uint64) {
	for _, a := range addresses {
		o.Then("AddTensorAddrToCachedList", testtrace.A(a))
	}
	o.Then("PTAGetExecCache", testtrace.A(key, 0x40), o.gives(executor))
}

func (o *operands) two(name string, executor uint64) {
	o.PhaseTwo(name, executor, func() {
		o.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceB, 64, testtrace.StreamA))
	})
}

// A launch without a description has the arguments that the program made for its operator, in the order of the parameters where look-ups show it.
func TestOperandsAreShapes(t *testing.T) {
	matrix, strides := []int64{4, 8}, []int64{8, 1}
	tests := []struct {
		name string
		do   func(o *operands)
		want []string
	}{
		{"made before phase one", func(o *operands) {
			o.tensor(1, matrix, strides)
			o.tensor(2, []int64{3}, []int64{1})
			o.PhaseOne("aclnnAdd", 0x7000, func() { o.tensor(9, []int64{9}, nil) }) // the operator's own
			o.two("aclnnAdd", 0x7000)
			o.PhaseOne("aclnnMul", 0x7000, nil) // made by an older call
			o.two("aclnnMul", 0x7000)
		}, []string{"(float32[4,8], float32[3])", ""}},
		{"strides, lists and destroyed ones", func(o *operands) {
			o.Then("aclDestroyTensor", testtrace.A(o.tensor(1, []int64{5}, nil)))
			a, b := o.tensor(1, matrix, []int64{1, 4}), o.tensor(2, []int64{1, 3}, []int64{77, 1})
			o.list(int64(a), 0x999, int64(b))
			o.tensor(3, nil, nil)
			o.PhaseOne("aclnnCat", 0x7000, nil)
			o.two("aclnnCat", 0x7000)
		}, []string{"({float32[4,8] strides [1,4], …, float32[1,3]}, float32[])"}},
		{"made from the last to the first", func(o *operands) {
			o.lookUp(55, 0, 1, 2, 3)
			out := o.tensor(3, []int64{6}, nil)
			o.list(int64(o.tensor(1, []int64{4}, nil)), int64(o.tensor(2, []int64{5}, nil)))
			_ = out
			o.PhaseOne("aclnnCat", 0x7000, nil)
			o.two("aclnnCat", 0x7000)
		}, []string{"({float32[4], float32[5]}, float32[6])"}},
		{"kept executors", func(o *operands) {
			for _, dim := range []int64{4, 6} {
				o.lookUp(uint64(dim), 0, 1)
				o.tensor(1, []int64{dim}, nil)
				o.PhaseOne("aclnnAbs", 0x7000, nil)
				o.two("aclnnAbs", 0x7000)
			}
			o.lookUp(4, 0x8000, 2)
			o.lookUp(6, 0x8100, 3)
			o.two("aclnnAbs", 0x8100)
			o.two("aclnnAbs", 0x8000)
			o.two("aclnnAbs", 0x8000) // it has ended
		}, []string{"(float32[4])", "(float32[6])", "(float32[6])", "(float32[4])", ""}},
		{"a kept executor has the address of one that another thread runs", func(o *operands) {
			o.lookUp(4, 0, 1)
			o.tensor(1, []int64{4}, nil)
			o.PhaseOne("aclnnAbs", 0x7000, nil)
			o.Thread = 1
			o.Mark("InitL2Phase2Context", testtrace.A(0x10, 0x7000), testtrace.Text("name", "aclnnAbs"))
			o.Thread = 0
			o.lookUp(4, 0x7000, 2)
			o.Thread = 1
			o.Mark("OpDfxGuardEnd", testtrace.A(0))
			o.two("aclnnAbs", 0x7000)
		}, []string{"(float32[4])"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := &operands{Sequence: testtrace.NewSequence(t), handle: 0x100}
			o.Then("aclrtSetDevice", testtrace.A(0))
			tt.do(o)
			w := timeline.NewWalk(o.Load().Reader, acl.Model, &timeline.WalkOptions{Shapes: true})
			var got []string
			if err := w.Run(&timeline.Visitor{Call: func(_ *timeline.HostCall, k *timeline.Task) error {
				if k != nil && k.Kind == api.Kernel {
					got = append(got, w.ShapesOf(k))
				}
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}
