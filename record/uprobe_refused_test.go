package record_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
)

// Functions that begin with a LOCK or segment prefix were counted as hooked, and their calls were not recorded, since the kernel puts
// no uprobe on them. Now they are listed and not counted, and a library with only such functions is refused.
func TestUprobesThatTheKernelRefuses(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("prefixes are those of amd64")
	}
	program := testenv.CompileC(t, "four", []string{source("four.c")})
	recorded := func(flags ...string) (*record.Result, string, error) {
		lib := testenv.CompileC(t, "libascendcl.so", []string{source("prefixes.c")}, append(flags, "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libascendcl.so")...)
		o := record.Options{Model: acl.Model, Capture: record.Capture{Probe: "ebpf"}, Output: filepath.Join(t.TempDir(), "run.aclt"), Command: []string{program, "3"},
			Env: append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(lib))}
		res, err := record.Run(context.Background(), &o)
		return res, o.Output, err
	}
	res, output, err := recorded()
	testenv.Uprobes(t, err)
	r := open(t, output)
	if by, want := count(calls(t, r), r), map[string]int{"aclInit": 3, "aclFinalize": 3}; !maps.Equal(by, want) {
		t.Errorf("calls %v, want %v", by, want)
	}
	c := r.Meta().Coverage
	if c.Hooked != 2 || len(res.Unhooked) != 1 || len(c.Unhooked) != 1 || !strings.Contains(c.Unhooked[0].Reason, "(aclrtSetDevice, aclrtSynchronizeDevice)") || filepath.Base(c.Unhooked[0].Exe) != "libascendcl.so" || strings.HasPrefix(c.Unhooked[0].Exe, "/proc/") {
		t.Errorf("%+v", c)
	}
	if _, _, err := recorded("-DALL"); !errors.Is(err, record.ErrStart) || !errors.Is(err, uprobe.ErrRefused) {
		t.Errorf("%v", err)
	}
}

// eBPF with --policy block lost calls, and recommended --policy block. A probe in the kernel can't wait: the combination is refused.
func TestUprobesDoNotBlock(t *testing.T) {
	o := record.Options{Model: acl.Model, Capture: record.Capture{Probe: "ebpf"}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Output: filepath.Join(t.TempDir(), "run.aclt"), Command: []string{"/bin/true"}}
	var conflict *record.OptionError
	if _, err := record.Run(context.Background(), &o); !errors.Is(err, record.ErrStart) || !errors.As(err, &conflict) || conflict.Conflict != record.BlockWithoutShim {
		t.Errorf("%v", err)
	}
	o.Limits.Block, o.Capture.Replayable = false, true // does not imply Block with eBPF
	_, err := record.Run(context.Background(), &o)
	testenv.Uprobes(t, err)
	if policy := open(t, o.Output).Meta().Policy; policy != "drop" {
		t.Errorf("policy %s", policy)
	}
}
