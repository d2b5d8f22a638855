package uprobe

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
)

// Arguments passed by an array of pointers are recorded from the first launch on, with sizes from the kernel's binary. Until the
// BPF programs have the layout, the recorder cuts guessed sizes. Arguments of an unknown kernel are marked as missing, and a
// reused handle does not get the old kernel's arguments.
func TestUprobeArgumentsByArray(t *testing.T) {
	for name, opts := range map[string]Options{"best": {}, "guessed": {noLayouts: true}, "no sleep": {noSleep: true}, "oldest": {OneByOne: true, noSleep: true, noCookie: true}} {
		t.Run(name, func(t *testing.T) {
			opts.Functions = []string{"aclrtBinaryLoadFromData", "aclrtBinaryUnLoad", "aclrtBinaryGetFunction", "aclrtFunctionGetParamInfo", "aclrtLaunchKernelWithArgsArray"}
			s, _ := watch(t, opts, func(c *target) {
				fmt.Fprintln(c.in)
				for waits := 0; ; {
					line, err := c.out.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if line == "done\n" {
						return
					}
					waits++
					testenv.Wait(t, "what the recorder makes of a kernel", func() bool { return c.told(t, waits, opts.noLayouts) })
					fmt.Fprintln(c.in)
				}
			}, "arrays")
			launches := s.of("aclrtLaunchKernelWithArgsArray")
			if len(launches) != 15 {
				t.Fatalf("%d launches", len(launches))
			}
			guessed := [2]string{"8 4 over 1", "4" + strings.Repeat(" 8", 31) + strings.Repeat(" over", 68)}
			exact := [2]string{"8 4 1200 1", "4" + strings.Repeat(" 8", 99)}
			if opts.noLayouts {
				exact = guessed
			}
			// A launch right after the kernel was returned may use a guess or the layout, or nothing for a reused handle.
			for i, want := range [][]string{{guessed[0], exact[0]}, {""}, {"over 4"}, {guessed[1], exact[1]}, {"unknown"},
				{exact[0]}, {""}, {"over 4"}, {exact[1]}, {"unknown"}, {"unknown"}, {"unknown", "4 2"}, {"4 2"}, {"unknown"}, {"12 6 3"}} {
				if got := argumentsOf(launches[i]); !slices.Contains(want, got) {
					t.Errorf("launch %d: %s, want one of %q", i, got, want)
				}
			}
		})
	}
}

// told reports whether the maps have all that can be known about the kernel that the program waits with.
func (c *target) told(t *testing.T, waits int, silent bool) bool {
	t.Helper()
	handle := uint64(0xf300) + uint64("mnlsumo"[waits-1])
	var given [2]uint64
	known := c.probes.decoder.kernels.handles.Lookup(processHandle{uint64(c.Process.Pid), handle}, &given) == nil
	if waits == 1 {
		c.first = given[0]
	}
	known = known && (waits != 6 || given[0] != c.first)
	if silent {
		return known
	}
	var layout []byte
	known = known && c.probes.decoder.kernels.layouts.Lookup(given[0], &layout) == nil
	return known && (waits != 5 || le16(layout) == unknownParams)
}

// argumentsOf lists the argument sizes of a launch by array, or the reasons why they are missing.
func argumentsOf(c probe.Call) string {
	var s []string
	for _, p := range c.Pieces {
		if p.Param != 4 {
			continue
		}
		want := make([]byte, len(p.Bytes))
		for k := range want {
			want[k] = byte(int(p.Item) - 1 + k)
		}
		switch {
		case p.Missing == probe.UnknownSize && p.Item == 0:
			s = append(s, "unknown")
		case p.Missing == probe.OverLimit && int(p.Item) == len(s)+1:
			s = append(s, "over")
		case p.Missing == probe.Present && int(p.Item) == len(s)+1 && bytes.Equal(p.Bytes, want) && p.Addr != 0:
			s = append(s, fmt.Sprint(len(p.Bytes)))
		default:
			s = append(s, fmt.Sprintf("%+v", p))
		}
	}
	return strings.Join(s, " ")
}
