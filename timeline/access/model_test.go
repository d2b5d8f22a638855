package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// called returns a call of a function with memory wherever it takes some: each address is one of a, 256 bytes after the last one, each handle is that of
// an object of its kind, and other words are n.
func called(f *api.Func, a, n uint64, handles map[api.Object]uint64, ok bool) *format.Call {
	c := &format.Call{Func: uint16(f.ID), Args: make([]uint64, f.Words)}
	next := a
	address := func() uint64 {
		next += 256
		return next
	}
	for i := range f.Params {
		q := &f.Params[i]
		put := func(dir format.Dir, item uint32, b []byte) {
			c.Data = append(c.Data, format.Data{Param: uint8(i), Dir: dir, Item: item, Len: uint64(len(b)), Bytes: b})
		}
		words := func(size uint32) []byte {
			var all []uint64
			for range max(size/8, 1) {
				all = append(all, address())
			}
			return testtrace.Words(all...)
		}
		switch q.Role {
		case api.Value:
			c.Args[q.Word] = n
		case api.Use, api.End:
			c.Args[q.Word] = handles[q.Object]
		case api.New, api.Find, api.Place, api.Map, api.Out:
			c.Args[q.Word] = 0x7ffe0000
			if ok {
				c.Outs = append(c.Outs, format.Out{Param: uint8(i), Value: 0x9000 + uint64(i)})
			}
		default:
			for w := range q.Words {
				c.Args[q.Word+w] = address()
			}
			if q.Role == api.Reads || q.Role == api.Writes || q.Role == api.Address {
				break
			}
			put(format.DirIn, 0, words(max(q.Elem, 32)))
			put(format.DirIn, 1, words(32))
			if ok && (q.Token != 0 || q.Role == api.InOut) {
				put(format.DirOut, 0, words(max(q.Elem, q.Token)))
			}
		}
	}
	return c
}

// accesses describes the memory of a call, by allocation.
func accesses(q *access.Call) string {
	var all []string
	name := func(o *timeline.Object) string {
		if o == nil {
			return "nil"
		}
		return fmt.Sprintf("%s %x", o.Kind, o.Handle)
	}
	for _, r := range slices.Concat(q.Regions(), q.Host()) {
		text := fmt.Sprintf("%s %s", r.Kind, name(r.Object))
		if r.Via != nil {
			text += " via " + name(r.Via)
		}
		if n := len(all); n > 0 && strings.HasPrefix(all[n-1], text+" ") {
			all[n-1] += fmt.Sprintf(",%d", r.Lo)
		} else {
			all = append(all, fmt.Sprintf("%s %d", text, r.Lo))
		}
		if r.Hi > r.Lo {
			all[len(all)-1] += fmt.Sprintf(":%d", r.Hi)
		}
	}
	for _, w := range q.Pointers() {
		all = append(all, fmt.Sprintf("points to %s+%d at %d", name(w.Object), w.Offset, w.At))
	}
	for k, list := range [][]*timeline.Object{q.Made(), q.Named(), q.Unseen()} {
		for _, o := range list {
			all = append(all, []string{"makes ", "is named ", "unseen "}[k]+name(o))
		}
	}
	if o, off := q.Origin(0); o != nil {
		all = append(all, fmt.Sprintf("origin %s+%d", name(o), off))
	}
	if o := q.OriginArray(); o != nil {
		all = append(all, "origin "+name(o))
	}
	if q.Lacks() {
		all = append(all, "lacks arguments")
	}
	if n := len(q.Shown()); n > 0 {
		all = append(all, fmt.Sprintf("shows %d allocations", n))
	}
	if q.Event.Fn.Task != api.NoTask || q.Event.Fn.Sync != api.NoSync {
		l := q.Lane()
		all = append(all, fmt.Sprintf("on stream %s, device %d, context %s, synchronous %v", name(l.Stream), l.Device, name(l.Context), l.Synchronous))
	}
	return strings.Join(all, "; ")
}

// Each function of the models accesses the memory that its parameters say.
func TestEachFunction(t *testing.T) {
	for _, m := range []*api.Model{acl.Model, cuda.Model} {
		handles := map[api.Object]uint64{}
		b := testtrace.NewOf(t, m)
		at := int64(0)
		add := func(f *api.Func, c *format.Call) {
			at += 20
			b.Call(0, at, at+10, f.Name, c.Args, func(_ *api.Func, to *format.Call) {
				to.Data, to.Outs, to.Ret = c.Data, c.Outs, c.Ret
				for i := range to.Data {
					to.Data[i].Time = at
				}
			})
		}
		malloc, pinned := "aclrtMalloc", "aclrtMallocHost"
		if m == cuda.Model {
			malloc, pinned = "cuMemAlloc_v2", "cuMemAllocHost_v2"
		}
		fresh := func() { // functions may have freed it
			for _, x := range []struct {
				name string
				addr uint64
			}{{malloc, devA}, {malloc, devB}, {pinned, host}} {
				f := m.Lookup(x.name)
				c := called(f, 0, 1<<16, handles, false)
				c.Outs = []format.Out{{Param: uint8(slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role == api.New })), Value: x.addr}}
				add(f, c)
			}
		}
		for _, addr := range []uint64{devA, host} {
			for i := range m.Funcs {
				f := &m.Funcs[i]
				if f.Words == 0 || !f.Modelled {
					continue
				}
				fresh()
				add(f, called(f, addr, 16, handles, true))
			}
		}
		var text strings.Builder
		err := access.Each(b.Load().Reader, m, func(q *access.Call) error {
			if got := accesses(q); got != "" {
				fmt.Fprintf(&text, "%s: %s\n", q.Event.Fn.Name, got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "functions.txtar", m.Name, text.String())
	}
}
