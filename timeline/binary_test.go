package timeline_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline"
)

// The arguments of an operator are shown with its name, data types and dims. Those that are invalid are shown as words.
func TestOperatorsAreShown(t *testing.T) {
	s := newSequence(t)
	s.Stream(0x5501)
	b := testtrace.OnTensors("aclnnAbs", testtrace.Contiguous(0x124000000000, block.In, 1, 2, 3), testtrace.Contiguous(0x124000001000, block.Out, 1, 2, 3)).Bytes()
	for _, version := range []byte{block.Version, 99} {
		b[8] = version
		s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(0x6601, 1, 0x5501, 0, 0x7ffe0000, uint64(len(b)), 0, 0), testtrace.Reads("hostArgs", 0, append([]byte{}, b...)))
	}
	var got []string
	s.events(func(st *timeline.State, e *timeline.Event) {
		for _, a := range e.Args(nil, acl.Model) {
			if a.Name == "hostArgs" {
				got = append(got, a.Text())
			}
		}
	})
	if len(got) != 2 || got[0] != "0x7ffe0000 aclnnAbs(float16[2,3], out float16[2,3])" || got[1][:30] != "0x7ffe0000 {0x6b6c62706f6c6361" {
		t.Errorf("%q", got)
	}
}

// A description of an operator is shown with its names, kinds and shapes. One of an unknown size is shown as words.
func TestOperatorInfoIsShown(t *testing.T) {
	s := newSequence(t)
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 4), 24)
	b = append(le.AppendUint64(le.AppendUint64(b, opinfo.Hash("aclnnAdd_AddAiCore_Add")), opinfo.Hash("Add")), 0, 0, 0, 0, 1, 0, 0, 0)
	for _, v := range [11]uint32{1, 2, 27, 4, 5} {
		b = le.AppendUint32(b, v)
	}
	for _, b := range [][]byte{b, b[:40]} {
		s.Then("aclrtCacheLastTaskOpInfo", testtrace.A(0x7ffe0000, uint64(len(b))), testtrace.Reads("infoPtr", 0, b))
	}
	var got []string
	s.events(func(st *timeline.State, e *timeline.Event) {
		for _, a := range e.Args(nil, acl.Model) {
			if a.Name == "infoPtr" {
				if got = append(got, a.Text()); len(got) == 1 && a.Value() != got[0] {
					t.Errorf("in JSON: %v", a.Value())
				}
			}
		}
	})
	if len(got) != 2 || got[0] != "{aclnnAdd_AddAiCore_Add, AI core, 24 blocks: out bfloat16[4,5]}" || !strings.HasPrefix(got[1], "0x7ffe0000 {0x1800000000, 0x") {
		t.Errorf("%q", got)
	}
}

// In a program that ran before the trace began, all launches were those of one unknown kernel, and no steps were found.
func TestLaunchesOfOlderFunctions(t *testing.T) {
	const steps = 12
	of := func(name string) testtrace.Mod {
		return testtrace.Reads("hostArgs", 0, testtrace.OnTensors(name, testtrace.Contiguous(devA, block.Out, 0, 64)).Bytes())
	}
	opaque := testtrace.Reads("hostArgs", 0, make([]byte, 64))
	for name, c := range map[string]struct {
		args [3]testtrace.Mod
		want []string
	}{
		"operators":    {[3]testtrace.Mod{of("aclnnMm"), of("aclnnGelu"), of("aclnnAdd")}, []string{"aclnnMm", "aclnnGelu", "aclnnAdd"}},
		"opaque":       {[3]testtrace.Mod{opaque, opaque, opaque}, []string{"function 0x6601", "function 0x6602", "function 0x6603"}},
		"not recorded": {[3]testtrace.Mod{}, []string{"function 0x6601", "function 0x6602", "function 0x6603"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSequence(t)
			for range steps {
				for i, with := range []int{0, 0, 1, 0, 2} {
					var mods []testtrace.Mod
					if c.args[with] != nil && i != 1 { // each function is named once
						mods = append(mods, c.args[with])
					}
					s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(0x6601+uint64(with), 1, strA, 0, 0x7ffe0000, 64, 0, 0), mods...)
				}
				s.Then("aclrtSynchronizeStream", testtrace.A(strA))
			}
			tl := s.Load()
			var got []string
			for i := range tl.Tasks {
				got = append(got, tl.Tasks[i].Name)
			}
			a, b, d := c.want[0], c.want[1], c.want[2]
			if want := slices.Repeat([]string{a, a, b, a, d}, steps); !slices.Equal(got, want) {
				t.Errorf("launches of %q", got)
			}
			if n := len(tl.Steps().List); n < steps-1 || n > steps {
				t.Errorf("%d steps of %d: %s", n, steps, tl.Steps().Why)
			}
		})
	}
}
