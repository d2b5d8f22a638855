package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The ids of containers and pods, as Docker, containerd and the kubelet leave them in a process's cgroup and mounts.
func TestIDsOfContainersAndPods(t *testing.T) {
	container := strings.Repeat("0123abcd", 8)
	const pod = "6c1b3c5e-9f4e-4a4f-8f0f-1f2e3d4c5b6a"
	root := t.TempDir()
	file := filepath.Join(root, "run/secrets/kubernetes.io/serviceaccount/namespace")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("train\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "var"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil { // leads out of root
		t.Fatal(err)
	}
	kubelet := "800 790 0:50 /var/lib/kubelet/pods/" + pod + "/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n" +
		"801 790 0:50 /var/lib/kubelet/pods/" + pod + "/containers/trainer/0a1b2c3d /dev/termination-log rw - ext4 /dev/sda rw\n"
	for _, c := range []struct {
		name, cgroup, mounts string
		environ              []string
		want                 map[string]string
	}{
		{"a machine", "0::/user.slice/user-0.slice/session-1.scope\n", "", []string{"POD_NAME=x", "OTEL_SERVICE_NAME=job"}, map[string]string{"service.name": "job"}},
		{"a short hexadecimal name", "4:memory:/process_api/3570c0d9646d2fa27b7e7e8e5b9f22bc\n", "", nil, map[string]string{}},
		{"docker", "12:cpu:/docker/" + container + "\n", "", nil, map[string]string{"container.id": container}},
		{"systemd", "0::/system.slice/docker-" + container + ".scope\n", "", nil, map[string]string{"container.id": container}},
		{"its own cgroup namespace", "0::/\n", "629 608 8:1 /docker/containers/" + container + "/hostname /etc/hostname rw - ext4 /dev/sda rw\n", nil, map[string]string{"container.id": container}},
		{"a pod from outside", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-" + container + ".scope\n", "", nil,
			map[string]string{"container.id": container, "k8s.pod.uid": pod, "k8s.namespace.name": "train"}},
		{"a pod from inside", "0::/\n", kubelet, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1", "POD_NAME=train-0", "K8S_NODE_NAME=node7", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=a%20b,service.name=other,bad", "OTEL_SERVICE_NAME=trainer"},
			map[string]string{"k8s.pod.uid": pod, "k8s.pod.name": "train-0", "k8s.node.name": "node7", "k8s.container.name": "trainer", "k8s.namespace.name": "train", "deployment.environment.name": "a b", "service.name": "trainer"}},
	} {
		r := resource{}
		r.detect([]byte(c.cgroup), []byte(c.mounts), root)
		r.variables([]byte(strings.Join(c.environ, "\x00")))
		if d := cmp.Diff(c.want, map[string]string(r)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	if r := Resource(os.Getpid(), nil); r["container.id"] == "" && r["k8s.pod.uid"] == "" && r["host.id"] != hostID() {
		t.Errorf("the test's own process: %v", r)
	}
}

// A process that has ended has the environment that its starter knows. A living one has its own.
func TestResourceOfEndedProcess(t *testing.T) {
	known := []string{"A=b", "OTEL_SERVICE_NAME=known"}
	cmd := exec.Command("cat")
	cmd.Env = []string{"OTEL_SERVICE_NAME=own"}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	_, err1 = in.Write([]byte("x"))
	_, err2 = out.Read(make([]byte, 1)) // the kernel sets the environment after Start has returned
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if got := Resource(cmd.Process.Pid, known)["service.name"]; got != "own" {
		t.Errorf("the service of a living process is %q", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("it was not killed")
	}
	if got := Resource(cmd.Process.Pid, known)["service.name"]; got != "known" {
		t.Errorf("the service of an ended process is %q", got)
	}
}

// An unreadable /proc/PID/stat was taken for the end of the process, and attach ended.
func TestUnreadableProcessIsAlive(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}); err != nil { // no file can be opened
		t.Fatal(err)
	}
	alive := AnyAlive([]int{os.Getpid()})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !alive {
		t.Error("a process that can't be read is taken for gone")
	}
	if AnyAlive([]int{gone.Process.Pid}) {
		t.Error("a process that is gone is taken for alive")
	}
}
