package replay

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/timeline/access"
)

// Addresses in device arguments are relocated in the copy that writes them. At the launch they may point to another allocation
// in the same place: then the launch corrects the address first.
func TestDeviceArguments(t *testing.T) {
	for name, again := range map[string]bool{"as copied": false, "another allocation": true} {
		tw := newTrace(t)
		tw.begin()
		tw.load()
		tw.malloc(dev, 64)
		tw.malloc(dev+512, 64)
		tw.toDevice(dev, words(dev+512, 64))
		if again {
			tw.call("aclrtFree", []uint64{dev + 512})
			tw.malloc(dev+512, 128)
		}
		tw.call("aclrtLaunchKernel", []uint64{fun, 1, dev, 16, stream})
		tw.sync()
		r, err := format.Open(tw.close(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p, err := compile.Trace(r, acl.Model, t.TempDir(), (&Options{}).forCompiler(acl.Model))
		if err != nil {
			t.Fatal(err)
		}
		repaired := slices.ContainsFunc(p.Found.Relocated, func(r compile.Relocated) bool {
			return r.Func == "aclrtLaunchKernel" && r.Param == "argsData" && r.Offset == 0
		})
		if len(p.Found.Unsupported) > 0 || len(p.Found.Doubts) > 0 || repaired != again {
			t.Errorf("%s: %+v, %+v, unsupported %+v", name, p.Found.Relocated, p.Found.Doubts, p.Found.Unsupported)
		}
	}
}

// Device arguments name an allocation that is made after the copy, at the address of an earlier one.
// The simulator's list of addresses puts both there.
func TestDeviceArgumentsMoved(t *testing.T) {
	program := testenv.CompileC(t, "devargs", []string{"testdata/devargs.c"})
	binary := kernels(t)
	simulate(t)
	place := filepath.Join(t.TempDir(), "place")
	if err := os.WriteFile(place, []byte("0x124000000000\n0x124000400000\n0x124000400000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACLSIM_PLACE", place)
	path := recorded(t, program, binary)
	t.Setenv("ACLSIM_PLACE", "")
	again(t, path, 1)
}

// A kernel's binary has its pointer arguments. A number stays unchanged, even if it looks like an address.
func TestArgumentLayout(t *testing.T) {
	program := testenv.CompileC(t, "values", []string{"testdata/values.c"})
	binary := kernels(t)
	simulate(t)
	r := again(t, recorded(t, program, binary), 1)
	if len(r.Relocated) != 1 || r.Relocated[0].Offset != 0 || r.Relocated[0].Evidence != access.ByLayout.String() {
		t.Errorf("%+v", r.Relocated)
	}
}
