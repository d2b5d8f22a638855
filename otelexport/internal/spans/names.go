package spans

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// A subject holds the encoded fields that all calls of one function for one thing share. The thing is a kernel, a
// size, a stream, an event, or nothing.
type subject struct {
	fn     *api.Func // nil if the model lacks the function
	launch bool      // of a kernel
	text   string    // name of the task, or of the call if it makes none
	call   []byte    // name and kind of the call's span
	name   []byte    // function attribute
	about  []byte    // kernel, event or stream attribute
	waited []byte    // attribute of a wait for the task
	task   [3][]byte // name and kind of the task's span, by ending
}

// How the end of a task is known: indices into subject.task.
const (
	measured = iota // by the device
	bracket         // not before its drawn end, and not after a synchronization
	unknown         // nothing waited for the task
)

// endings mark names of tasks without a measured time.
var endings = [3]string{bracket: " (not measured)", unknown: " (end unknown)"}

type subjectKey struct {
	fn     *api.Func
	name   string // of the kernel or the task, or of a function that the model lacks
	number uint64 // bytes, object, shapes, lane or device
	task   bool   // the call makes a task
}

// A nameCache holds encoded fields that many spans share: names and constant attributes.
type nameCache struct {
	keys     *otlp.Keys
	shapes   func(*timeline.Task) string
	kinds    [api.System + 1][]byte // the task attribute, by kind
	end      []byte                 // the end attribute "unknown"
	subjects map[subjectKey]*subject
	recent   [256]recentSubject
	plain    []*subject // by function id, for calls about nothing
	critical []byte     // the attribute of spans on a critical path

	call, blocks, taskID, bytes, deviceNS, atMostNS, waitedForCall *otlp.NumberKey
}

// recentSubject is a subject with its key.
type recentSubject struct {
	key     subjectKey
	subject *subject
}

// hash returns a hash that costs little.
func (k *subjectKey) hash() uint64 {
	h := k.number*31 + uint64(len(k.name))
	if n := len(k.name); n > 0 {
		h = (h*31+uint64(k.name[n/2]))*31 + uint64(k.name[n-1])
	}
	return h
}

// maxNames bounds nameCache.subjects. A larger map is cleared.
const maxNames = 1 << 16

func newNameCache(keys *otlp.Keys) nameCache {
	n := nameCache{keys: keys, subjects: map[subjectKey]*subject{}, end: otlp.PutText(nil, otlp.SpanAttributes, keys[otlp.KeyEnd], "unknown"),
		critical: otlp.PutTrue(nil, otlp.SpanAttributes, keys[otlp.KeyCritical])}
	for key, to := range map[otlp.Key]**otlp.NumberKey{otlp.KeyCall: &n.call, otlp.KeyBlocks: &n.blocks, otlp.KeyTaskID: &n.taskID, otlp.KeyBytes: &n.bytes,
		otlp.KeyDeviceNS: &n.deviceNS, otlp.KeyAtMostNS: &n.atMostNS, otlp.KeyWaitedForCall: &n.waitedForCall} {
		*to = otlp.NewNumberKey(keys[key])
	}
	for k := range n.kinds {
		n.kinds[k] = otlp.PutText(nil, otlp.SpanAttributes, keys[otlp.KeyTask], api.Task(k).String())
	}
	return n
}

// subject returns the subject of a call and its task, which may be nil.
func (n *nameCache) subject(c *timeline.HostCall, t *timeline.Task, lanes []lane) *subject {
	k := subjectKey{fn: c.Fn, task: t != nil}
	switch {
	case c.Fn == nil:
		k.name = c.Name
	case c.Kernel != "":
		k.name = c.Kernel
		if t != nil {
			k.number = uint64(t.Shapes)
		}
	case t != nil:
		k.name, k.number = t.Name, t.Bytes
		if t.Object != nil {
			k.number = uint64(t.Object.ID)
		}
	case c.Fn.Sync != api.NoSync:
		k.number = uint64(uint32(c.Waits))
	default:
		plain := grow.At(&n.plain, int(c.Fn.ID))
		if *plain == nil {
			*plain = n.make(c, t, lanes)
		}
		return *plain
	}
	recent := &n.recent[k.hash()%uint64(len(n.recent))]
	if recent.subject != nil && recent.key == k {
		return recent.subject
	}
	s := n.subjects[k]
	if s == nil {
		if len(n.subjects) >= maxNames {
			clear(n.subjects)
		}
		s = n.make(c, t, lanes)
		n.subjects[k] = s
	}
	*recent = recentSubject{k, s}
	return s
}

func (n *nameCache) make(c *timeline.HostCall, t *timeline.Task, lanes []lane) *subject {
	s := &subject{fn: c.Fn, name: otlp.PutText(nil, otlp.SpanAttributes, otlp.KeyFunction, otlp.Valid(c.Name))}
	kind := byte(otlp.Internal)
	if t != nil && t.Fn.Stream >= 0 {
		kind = otlp.Producer
	}
	call := n.describe(s, c, t, lanes)
	s.text = otlp.Valid(s.text)
	s.call = nameField(otlp.Valid(call), kind)
	s.waited = otlp.PutText(nil, otlp.SpanAttributes, n.keys[otlp.KeyWaitedFor], s.text)
	if t == nil {
		return s
	}
	if kind == otlp.Producer {
		kind = otlp.Consumer
	}
	for i, ending := range endings {
		s.task[i] = nameField(s.text+ending, kind)
	}
	return s
}

// describe sets the subject's text and attributes. It returns the name of the call's span.
func (n *nameCache) describe(s *subject, c *timeline.HostCall, t *timeline.Task, lanes []lane) (call string) {
	about := func(key otlp.Key, text string) {
		s.about = otlp.PutText(s.about, otlp.SpanAttributes, n.keys[key], otlp.Valid(text))
	}
	object := func(kind string) string {
		if t == nil || t.Object == nil {
			return kind
		}
		about(otlp.KeyEvent, objectName(t.Object.Kind, t.Object.ID))
		return kind + " " + objectName(t.Object.Kind, t.Object.ID)
	}
	switch {
	case c.Kernel != "":
		about(otlp.KeyKernel, c.Kernel)
		s.text, s.launch = c.Kernel, true
		if t != nil && t.Shapes != 0 {
			about(otlp.KeyShapes, n.shapes(t))
		}
		return "launch " + c.Kernel
	case t != nil:
		s.text = t.Name
		switch t.Kind {
		case api.Kernel:
			s.launch = true
			about(otlp.KeyKernel, t.Name)
			return "launch " + t.Name
		case api.Copy, api.Fill:
			s.text += " " + human.Bytes(t.Bytes)
		case api.Record, api.Reset:
			s.text = object(t.Name)
		case api.Wait:
			s.text = object(t.Name)
			return "stream " + s.text
		case api.GraphRun:
			if t.Object != nil {
				s.text = objectName(t.Object.Kind, t.Object.ID)
			}
			if t.Content != nil {
				about(otlp.KeyGraphKernels, t.Content.String())
			}
			return "launch " + s.text
		case api.System:
			return c.Name
		}
		return s.text
	case c.Fn != nil && c.Fn.Sync != api.NoSync:
		s.text = n.waits(s, c, lanes)
		return s.text
	}
	s.text = c.Name
	return c.Name
}

// waits names a synchronization or a poll after the stream, event or device that it waits for.
func (n *nameCache) waits(s *subject, c *timeline.HostCall, lanes []lane) string {
	verb := "wait "
	if c.Fn.Sync.Polls() {
		verb = "poll "
	}
	switch c.Fn.Sync {
	case api.SyncDevice:
		if c.Waits >= 0 {
			return fmt.Sprintf("%sdevice %d", verb, c.Waits)
		}
		return verb + "device"
	case api.SyncStream, api.PollStream:
		if c.Waits < 0 || int(c.Waits) >= len(lanes) {
			return verb + "stream"
		}
		s.about = lanes[c.Waits].stream
		return verb + lanes[c.Waits].name
	}
	kind := c.Fn.Params[c.Fn.Event].Object
	if c.Waits < 0 {
		return verb + string(kind)
	}
	s.about = otlp.PutText(nil, otlp.SpanAttributes, n.keys[otlp.KeyEvent], objectName(kind, int(c.Waits)))
	return verb + objectName(kind, int(c.Waits))
}

// objectName names an object like `acltrace cat`.
func objectName(kind api.Object, id int) string { return fmt.Sprintf("%s#%d", kind, id) }

// nameField encodes a span's name and kind.
func nameField(name string, kind byte) []byte {
	return append(otlp.PutString(nil, otlp.SpanName, name), otlp.SpanKind, kind)
}
