package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

// The processes that were started with a text, and those that map a runtime, are found among others.
func TestProcessesByContent(t *testing.T) {
	const text = "ACLTRACE_TEST_MENTION=here"
	c := exec.Command("cat")
	c.Env = []string{"A=b", text}
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	_, err1 = in.Write([]byte("x"))
	_, err2 = out.Read(make([]byte, 1)) // the kernel sets the environment after Start has returned
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if got := Mentioning(text); !slices.Equal(got, []int{c.Process.Pid}) {
		t.Errorf("%v, want %d", got, c.Process.Pid)
	}
	pids := []int{os.Getpid(), c.Process.Pid}
	if got := UsingRuntime(acl.Model, pids); len(got) > 0 || !slices.Equal(pids, []int{os.Getpid(), c.Process.Pid}) {
		t.Errorf("%v of %v use the runtime", got, pids)
	}
	if got := Environ(c.Process.Pid); !slices.Equal(got, []string{"A=b", text}) {
		t.Errorf("%q", got)
	}
	if libs := Libraries(1<<30, func(string) bool { return true }); libs != nil {
		t.Errorf("%q", libs)
	}
	if got := ThreadName(c.Process.Pid, c.Process.Pid); got != "cat" || ThreadName(1<<30, 1) != "" {
		t.Errorf("%q", got)
	}
}

// What a process says about itself has limits, and files outside its root are not read.
func TestResourceLimits(t *testing.T) {
	r := resource{}
	r.set("long", strings.Repeat("x", maxResourceText+1))
	r.set("empty", "")
	r.set("whole", strings.Repeat("x", maxResourceText))
	r.set("text", "a\xff")
	if len(r) != 2 || r["text"] != "a\uFFFD" || len(r["whole"]) != maxResourceText {
		t.Errorf("%d attributes, %q", len(r), r["text"])
	}
	many := []string{}
	for i := range 2 * maxResourceKeys {
		many = append(many, "k"+strings.Repeat("x", i)+"=v")
	}
	if r = (resource{}); true {
		r.variables([]byte("OTEL_RESOURCE_ATTRIBUTES=" + strings.Join(many, ",")))
	}
	if len(r) != maxResourceKeys {
		t.Errorf("%d attributes", len(r))
	}
	r = resource{}
	r.variables([]byte("OTEL_RESOURCE_ATTRIBUTES= a = b%20c , =x,d=%zz,e=,f\x00POD_NAME=\x00K8S_POD_NAME=pod\x00KUBERNETES_SERVICE_HOST=h"))
	if want := (resource{"a": "b c", "k8s.pod.name": "pod"}); !reflect.DeepEqual(r, want) {
		t.Errorf("%v, want %v", r, want)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), strings.Repeat("y", 2*maxResourceText), 0o600)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"file": maxResourceText, "folder": 0, "gone": 0, "../" + filepath.Base(dir) + "/file": 0} {
		if b := readWithin(dir, name); len(b) != want {
			t.Errorf("%s has %d bytes, want %d", name, len(b), want)
		}
	}
	if b := readWithin(filepath.Join(dir, "gone"), "file"); b != nil {
		t.Errorf("%q", b)
	}
	if n, err := FreeSpace(dir); n == 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := FreeSpace(filepath.Join(dir, "gone")); err == nil {
		t.Error("a folder that does not exist has space")
	}
}

// The functions that a library defines are found by name, each once and sorted. dlsym is none: the shim has its own.
func TestDefinedFunctions(t *testing.T) {
	lib := testenv.Built(t, "lib/libascendcl.so")
	if got := DefinedFunctions(lib, map[string]bool{"aclInit": true, "aclFinalize": true, "none": true, "malloc": true}); !slices.Equal(got, []string{"aclFinalize", "aclInit"}) {
		t.Errorf("%q", got)
	}
	for _, path := range []string{lib + ".gone", "/etc/passwd"} {
		if got := DefinedFunctions(path, map[string]bool{"aclInit": true}); got != nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}
