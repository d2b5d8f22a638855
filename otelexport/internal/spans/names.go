package spans

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// A nameCache holds encoded fields that many spans share: names and constant attributes.
type nameCache struct {
	keys            *otlp.Keys
	kinds           [api.System + 1][]byte // the task attribute, by kind
	bracketed, open []byte                 // true attributes

	functions map[function]*callNames
	known     [][2]*callNames // by function id, for calls without and with a task on a stream
	kernels   map[string]*kernelNames
}

type function struct {
	name string
	kind byte
}

type callNames struct {
	name     []byte // name and kind
	function []byte // function attribute
}

type kernelNames struct {
	kernel []byte // the launch's kernel attribute
	async  []byte // name and kind for a task on a stream
	sync   []byte // name and kind for other tasks
}

// maxNames bounds each nameCache map. Larger maps are cleared.
const maxNames = 1 << 16

func newNameCache(keys *otlp.Keys) nameCache {
	n := nameCache{keys: keys, functions: map[function]*callNames{}, kernels: map[string]*kernelNames{},
		bracketed: otlp.PutTrue(nil, otlp.SpanAttributes, keys[otlp.KeyBracketed]), open: otlp.PutTrue(nil, otlp.SpanAttributes, keys[otlp.KeyOpen])}
	for k := range n.kinds {
		n.kinds[k] = otlp.PutText(nil, otlp.SpanAttributes, keys[otlp.KeyTask], api.Task(k).String())
	}
	return n
}

// call returns the fields for a call's span.
func (n *nameCache) call(c *timeline.HostCall, kind byte) *callNames {
	if c.Fn == nil {
		return n.function(c.Name, kind)
	}
	for len(n.known) <= int(c.Fn.ID) {
		n.known = append(n.known, [2]*callNames{})
	}
	f := &n.known[c.Fn.ID][kind/otlp.Producer]
	if *f == nil {
		*f = n.function(c.Name, kind)
	}
	return *f
}

func (n *nameCache) function(name string, kind byte) *callNames {
	k := function{name, kind}
	f := n.functions[k]
	if f == nil {
		if len(n.functions) >= maxNames {
			clear(n.functions)
		}
		v := otlp.Valid(name)
		f = &callNames{nameField(v, kind), otlp.PutText(nil, otlp.SpanAttributes, otlp.KeyFunction, v)}
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
		k = &kernelNames{kernel: otlp.PutText(nil, otlp.SpanAttributes, n.keys[otlp.KeyKernel], v), async: nameField(v, otlp.Consumer), sync: nameField(v, otlp.Internal)}
		n.kernels[name] = k
	}
	return k
}

// nameField encodes a span's name and kind.
func nameField(name string, kind byte) []byte {
	return append(otlp.PutString(nil, otlp.SpanName, name), otlp.SpanKind, kind)
}
