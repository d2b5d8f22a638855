package spans

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// A nameCache holds encoded name fields that many spans share.
type nameCache struct {
	functions map[function][]byte
	known     [][2][]byte // by function id, for calls without and with a task on a stream
	kernels   map[string]*kernelNames
}

type function struct {
	name string
	kind byte
}

type kernelNames struct {
	kernel []byte // the launch's acl.kernel attribute
	async  []byte // name and kind for a task on a stream
	sync   []byte // name and kind for other tasks
}

// maxNames bounds each nameCache map. Larger maps are cleared.
const maxNames = 1 << 16

func newNameCache() nameCache {
	return nameCache{functions: map[function][]byte{}, kernels: map[string]*kernelNames{}}
}

// call returns the name and kind fields for a call's span.
func (n *nameCache) call(c *timeline.HostCall, kind byte) []byte {
	if c.Fn == nil {
		return n.function(c.Name, kind)
	}
	for len(n.known) <= int(c.Fn.ID) {
		n.known = append(n.known, [2][]byte{})
	}
	f := &n.known[c.Fn.ID][kind/otlp.Producer]
	if *f == nil {
		*f = n.function(c.Name, kind)
	}
	return *f
}

func (n *nameCache) function(name string, kind byte) []byte {
	k := function{name, kind}
	f := n.functions[k]
	if f == nil {
		if len(n.functions) >= maxNames {
			clear(n.functions)
		}
		f = nameField(otlp.Valid(name), kind)
		n.functions[k] = f
	}
	return f
}

// kernel returns the fields for a kernel or task name.
func (n *nameCache) kernel(name string) *kernelNames {
	k := n.kernels[name]
	if k == nil {
		if len(n.kernels) >= maxNames {
			clear(n.kernels)
		}
		v := otlp.Valid(name)
		k = &kernelNames{kernel: otlp.PutText(nil, otlp.SpanAttributes, "acl.kernel", v), async: nameField(v, otlp.Consumer), sync: nameField(v, otlp.Internal)}
		n.kernels[name] = k
	}
	return k
}

// nameField encodes a span's name and kind.
func nameField(name string, kind byte) []byte {
	return append(otlp.PutString(nil, otlp.SpanName, name), otlp.SpanKind, kind)
}

// kinds are the encoded acl.task attributes.
var kinds = func() (out [api.System + 1][]byte) {
	for k := range out {
		out[k] = otlp.PutText(nil, otlp.SpanAttributes, "acl.task", api.Task(k).String())
	}
	return out
}()

var (
	bracketed = otlp.PutTrue(nil, otlp.SpanAttributes, "acl.bracketed")
	open      = otlp.PutTrue(nil, otlp.SpanAttributes, "acl.open")
)
