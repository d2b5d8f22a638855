package uprobe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

// The BPF programs read the arguments of every function in the model correctly, from registers and stack as compilers use them,
// on both processors.
func TestUprobeArgumentReaders(t *testing.T) {
	testenv.Uses(t, "testdata/uprobe_user.c", "../bpf/uprobe.bpf.c", "../bpf/kernel.h")
	for arch, tools := range map[string][]string{"amd64": {"cc"}, "arm64": {"aarch64-linux-gnu-gcc", "qemu-aarch64"}} {
		t.Run(arch, func(t *testing.T) {
			for _, tool := range tools {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed: run `scripts/setup.sh cross`", tool)
				}
			}
			if arch == "amd64" && len(branchTargets) > 0 && branchTargets[0] != "-fcf-protection=full" {
				t.Skip("this machine is no x86-64 one")
			}
			dir := t.TempDir()
			calls, n := argumentCalls(arch)
			if err := os.WriteFile(filepath.Join(dir, "calls.h"), []byte(calls), 0o600); err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "program")
			target := map[string]string{"amd64": "-D__TARGET_ARCH_x86", "arm64": "-D__TARGET_ARCH_arm64"}[arch]
			if out, err := exec.Command(tools[0], "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wno-pedantic", "-static", target, "-I"+dir, "-o", program, "testdata/uprobe_user.c").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := exec.Command(tools[len(tools)-1], program).CombinedOutput()
			if arch == "amd64" {
				out, err = exec.Command(program).CombinedOutput()
			}
			if want := fmt.Sprintf("%d functions\n", n); err != nil || string(out) != want {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// A probe reads the buffers of a launch, if the launch passes a handle of them.
func TestProbesReadBuffersOfLaunches(t *testing.T) {
	n := 0
	for i := range acl.Model.Funcs {
		f := &acl.Model.Funcs[i]
		for j := range f.Params {
			if f.Params[j].Role != api.Launch {
				continue
			}
			n++
			if rs := readersOf(f, j); len(rs) != 1 || rs[0].Kind != kindBuffers || rs[0].Flags != readEntry || int(rs[0].Param) != j {
				t.Errorf("%s: %+v", f.Name, rs)
			}
		}
	}
	if n == 0 {
		t.Error("no launch has a handle")
	}
}

// argumentCalls returns C code that calls a function with each signature in the model, with its function table and the expected
// words.
func argumentCalls(arch string) (text string, n int) {
	var protos, rows strings.Builder
	for i := range acl.Model.Funcs {
		f := &acl.Model.Funcs[i]
		table, err := functionTable(acl.Model, f, arch)
		if err != nil || f.HostCallback || f.Words == 0 {
			continue
		}
		var b bytes.Buffer
		_ = binary.Write(&b, binary.LittleEndian, table)
		b.Write(make([]byte, 8*((b.Len()+7)/8)-b.Len()))
		var types, args, want []string
		for j := range f.Params {
			p := &f.Params[j]
			ctype, value, words := argument(p, j)
			if strings.HasPrefix(ctype, "struct") {
				fmt.Fprintf(&protos, "typedef %s type_%d_%d;\n", ctype, n, j)
				ctype = fmt.Sprintf("type_%d_%d", n, j)
				value = fmt.Sprintf("(%s){%s}", ctype, value)
			}
			types, args, want = append(types, ctype), append(args, value), append(want, words...)
		}
		if f.Operator == api.OperatorEnd {
			want = []string{"0"} // of no phase one, and not the argument
		}
		fmt.Fprintf(&protos, "static void call_%d(void) { ((void (*)(%s))landed)(%s); }\n", n, strings.Join(types, ", "), strings.Join(args, ", "))
		fmt.Fprintf(&rows, "{%q, {%s}, %d, {%s}, call_%d},\n", f.Name, numbers(b.Bytes()), f.Words, strings.Join(want, ", "), n)
		n++
	}
	return protos.String() + "static const struct test tests[] = {\n" + rows.String() + "};\n", n
}

// argument returns a C type like a parameter's, a value, and the value's words.
func argument(p *api.Param, number int) (ctype, value string, words []string) {
	word := func(k, width int) string {
		v := uint64(0x8182838485868700) + uint64(number)*16 + uint64(k)
		if width < 8 {
			v &= 1<<(8*width) - 1
		}
		return fmt.Sprintf("%#xULL", v)
	}
	if p.Words == 1 && (p.Width == 1 || p.Width == 2 || p.Width == 4 || p.Width == 8) {
		w := word(0, int(p.Width))
		return fmt.Sprintf("uint%d_t", 8*p.Width), w, []string{w}
	}
	// A structure of words, or of half words if its size is not a multiple of eight.
	half := p.Width%8 != 0
	left := int(p.Width)
	var members []string
	for k := range int(p.Words) {
		w := word(k, min(left, 8))
		words = append(words, w)
		if !half {
			members = append(members, w)
			continue
		}
		for at := 0; at < min(left, 8); at += 4 {
			members = append(members, fmt.Sprintf("(uint32_t)(%s >> %d)", w, 8*at))
		}
		left -= 8
	}
	ctype = fmt.Sprintf("struct { uint%d_t v[%d]; }", map[bool]int{true: 32, false: 64}[half], len(members))
	return ctype, fmt.Sprintf("{%s}", strings.Join(members, ", ")), words
}

func numbers(b []byte) string {
	var s []string
	for _, n := range b {
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, ",")
}
