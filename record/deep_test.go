package record_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// Memory behind pointers in structures is captured with them. A launch patches its arguments, which are captured before the call.
func TestDeepCapture(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	dir, root := t.TempDir(), testenv.Root(t)
	compile := func(out string, args ...string) string {
		out = filepath.Join(dir, out)
		args = append([]string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-I" + root + "/api/acl/include", "-I" + root + "/probe/shim", "-o", out, "testdata/deep.c"}, args...)
		if b, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("cc %v: %v\n%s", args, err, b)
		}
		return out
	}
	lib := compile("libruntime.so", "-DRUNTIME", "-shared", "-fPIC")
	program := compile("deep", lib, "-Wl,-rpath,"+dir)
	path := filepath.Join(dir, "run.aclt")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	res, err := record.Run(t.Context(), &record.Options{Model: acl.Model, Output: path, Command: []string{program}, Stdin: null, Stdout: null, Stderr: null})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	// Data by call number, parameter, item and direction.
	got := map[string][]byte{}
	count, name := map[string]int{}, map[uint64]string{}
	add := func(d *format.Data) {
		b := d.Bytes
		if d.Status != format.Whole {
			b = fmt.Appendf(nil, "status %d", d.Status)
		} else if d.Blob != 0 {
			if b, err = r.Blob(d.Blob); err != nil {
				t.Fatal(err)
			}
		}
		got[fmt.Sprintf("%s %s %d %d", name[d.Call], acl.Model.Lookup(name[d.Call][:len(name[d.Call])-2]).Params[d.Param].Name, d.Item, d.Dir)] = bytes.Clone(b)
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		fn := r.Schema().FuncName(c.Func)
		count[fn]++
		name[c.Index] = fmt.Sprintf("%s/%d", fn, count[fn])
		for i := range c.Data {
			d := c.Data[i]
			d.Call = c.Index
			add(&d)
		}
		if fn == "aclFloat16ToFloat" && math.Float32frombits(uint32(c.Ret)) != -3 {
			t.Errorf("aclFloat16ToFloat returned %#x", c.Ret)
		}
		if fn == "aclrtIpcOpenEventHandle" && (len(c.Args) != 9 || c.Args[7]>>56 != 0x44 || c.Args[0] != 0x0101010101010101 || c.Outs[0].Value != 0x44) {
			t.Errorf("aclrtIpcOpenEventHandle %#x, %+v", c.Args, c.Outs)
		}
	}
	for d, err := range r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			t.Fatal(err)
		}
		add(d)
	}
	words := func(v ...uint64) (b []byte) {
		for _, w := range v {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	for key, want := range map[string][]byte{
		"rtDevBinaryRegister/1 bin 1 0":           bytes.Repeat([]byte{7}, 100000),
		"rtDevBinaryRegister/2 bin 1 0":           nil, // a null pointer leads nowhere
		"rtFunctionRegister/1 stubName 0 0":       []byte("Add"),
		"rtKernelLaunchWithFlag/1 argsInfo 1 0":   words(1, 2, 3), // as before the call
		"rtKernelLaunchWithFlag/1 argsInfo 2 0":   words(16<<32 | 8),
		"rtKernelLaunchWithFlag/2 argsInfo 1 0":   nil, // device memory
		"rtLaunchDvppTask/1 sqe 0 0":              words(11, 12, 13, 14, 15, 16, 17, 18),
		"aclmdlRIAddCondTask/1 params 1 1":        words(0x71, 0x72),
		"aclmdlRIGetTasksByStream/1 tasks 0 1":    words(0x90, 0x91, 0x92), // as many as the call has said
		"aclmdlRIGetTasksByStream/1 numTasks 0 0": {8, 0, 0, 0},
		"aclrtMemManagedGetAttrs/1 data 1 1":      []byte("aaaa"),
		"aclrtMemManagedGetAttrs/1 data 2 1":      []byte("bbbbbbbbbbbb"),
	} {
		if !bytes.Equal(got[key], want) {
			t.Errorf("%s: %d bytes %.40x, want %d bytes %.40x", key, len(got[key]), got[key], len(want), want)
		}
	}
	if n := len(got["rtKernelLaunchWithFlag/2 argsInfo 0 0"]); n != 40 {
		t.Errorf("the structure of arguments on the device: %d bytes, want 40", n)
	}
}
