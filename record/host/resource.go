package host

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/acltrace/acltrace/internal/procstat"
	"go.opentelemetry.io/otel/attribute"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The SDK's container detector reads the cgroup of its own process only, and takes any hexadecimal name in it for a
// container. A recorder needs those of other processes, so this file has its own detector. The SDK finds the host's id.

var (
	// Names of container cgroups: docker-ID.scope, cri-containerd-ID.scope, or the id alone.
	containerCgroup = regexp.MustCompile(`(?m)[/:-]([0-9a-f]{64})(?:\.scope)?$`)
	// Sources of files that Docker mounts into a container, such as /etc/hostname.
	containerMount = regexp.MustCompile(`/containers/([0-9a-f]{64})/`)
	// Pods are in the names of cgroups, and in the sources of the kubelet's mounts.
	podCgroup = regexp.MustCompile(`[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})`)
	podMount  = regexp.MustCompile(`/pods/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(?:containers/([a-z0-9][-a-z0-9]*)/)?`)
)

// namespaceFiles contain the namespace in a pod with a service account. Images may have /var/run as a link.
var namespaceFiles = []string{"var/run/secrets/kubernetes.io/serviceaccount/namespace", "run/secrets/kubernetes.io/serviceaccount/namespace"}

// podVariables are common names for variables that a pod's specification sets from the downward API.
var podVariables = map[attribute.Key][]string{
	semconv.K8SPodNameKey:       {"K8S_POD_NAME", "POD_NAME", "OTEL_RESOURCE_ATTRIBUTES_POD_NAME"},
	semconv.K8SPodUIDKey:        {"K8S_POD_UID", "POD_UID", "OTEL_RESOURCE_ATTRIBUTES_POD_UID"},
	semconv.K8SNamespaceNameKey: {"K8S_NAMESPACE_NAME", "K8S_POD_NAMESPACE", "K8S_NAMESPACE", "POD_NAMESPACE", "OTEL_RESOURCE_ATTRIBUTES_POD_NAMESPACE"},
	semconv.K8SNodeNameKey:      {"K8S_NODE_NAME", "NODE_NAME", "OTEL_RESOURCE_ATTRIBUTES_NODE_NAME"},
	semconv.K8SContainerNameKey: {"K8S_CONTAINER_NAME", "CONTAINER_NAME", "OTEL_RESOURCE_ATTRIBUTES_CONTAINER_NAME"},
}

// Limits for the attributes of a process. Every request to a receiver repeats them.
const (
	maxResourceText = 1 << 10
	maxResourceKeys = 64
)

// Resource returns attributes of a process's host, container and pod, by their names in OpenTelemetry's conventions, and
// those that the variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of the process set. env is the environment of a process
// that has ended, as far as it is known. Unknown attributes are missing.
func Resource(pid int, env []string) map[string]string {
	proc := ProcFile(pid, "")
	cgroup, _ := procstat.Text(pid, "cgroup")
	mounts, _ := procstat.Text(pid, "mountinfo")
	environ, err := procstat.Text(pid, "environ")
	if err != nil || len(environ) == 0 { // a zombie's is empty on older kernels
		environ = []byte(strings.Join(env, "\x00"))
	}
	r := resource{}
	r.detect(cgroup, mounts, filepath.Join(proc, "root"))
	r.variables(environ)
	if r[string(semconv.ContainerIDKey)] == "" && r[string(semconv.K8SPodUIDKey)] == "" { // an image may contain a machine id
		r.set(semconv.HostIDKey, hostID())
	}
	return r
}

type resource map[string]string

func (r resource) set(key attribute.Key, value string) {
	if value != "" && len(value) <= maxResourceText && len(r) < maxResourceKeys {
		r[string(key)] = strings.ToValidUTF8(value, "\uFFFD")
	}
}

// detect finds the container and the pod.
func (r resource) detect(cgroup, mounts []byte, root string) {
	if m := containerCgroup.FindSubmatch(cgroup); m != nil {
		r.set(semconv.ContainerIDKey, string(m[1]))
	} else if m := containerMount.FindSubmatch(mounts); m != nil {
		r.set(semconv.ContainerIDKey, string(m[1]))
	}
	if m := podCgroup.FindSubmatch(cgroup); m != nil {
		r.set(semconv.K8SPodUIDKey, strings.ReplaceAll(string(m[1]), "_", "-"))
	}
	for _, m := range podMount.FindAllSubmatch(mounts, -1) {
		r.set(semconv.K8SPodUIDKey, string(m[1]))
		r.set(semconv.K8SContainerNameKey, string(m[2]))
	}
	if r[string(semconv.K8SPodUIDKey)] == "" {
		return
	}
	for _, name := range namespaceFiles {
		r.set(semconv.K8SNamespaceNameKey, strings.TrimSpace(string(readWithin(root, name))))
	}
}

// variables adds the attributes in an environment.
func (r resource) variables(environ []byte) {
	env := map[string]string{}
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if name, value, ok := strings.Cut(string(v), "="); ok {
			env[name] = value
		}
	}
	if env["KUBERNETES_SERVICE_HOST"] != "" || r[string(semconv.K8SPodUIDKey)] != "" { // elsewhere the names have other uses
		for key, names := range podVariables {
			for _, name := range names {
				if env[name] != "" {
					r.set(key, env[name])
					break
				}
			}
		}
	}
	for pair := range strings.SplitSeq(env["OTEL_RESOURCE_ATTRIBUTES"], ",") {
		key, value, _ := strings.Cut(pair, "=")
		if text, err := url.PathUnescape(strings.TrimSpace(value)); err == nil && strings.TrimSpace(key) != "" {
			r.set(attribute.Key(strings.TrimSpace(key)), text)
		}
	}
	r.set(semconv.ServiceNameKey, env["OTEL_SERVICE_NAME"])
}

// readWithin reads a small regular file in another process's root folder. Links can't lead out of the folder.
func readWithin(root, name string) []byte {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil
	}
	defer dir.Close()
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(f, maxResourceText))
	return b
}

// hostID returns the machine's id, "" if unknown.
var hostID = sync.OnceValue(func() string {
	r, err := sdkresource.New(context.Background(), sdkresource.WithHostID())
	if err != nil {
		return ""
	}
	id, _ := r.Set().Value(semconv.HostIDKey)
	return id.AsString()
})
