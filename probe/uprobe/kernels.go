package uprobe

import (
	"errors"
	"maps"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/probe"
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// kernels tracks the parameter sizes of device kernels, which it reads from the binaries that programs load. It writes them
// to the map layouts, so that the BPF programs can copy the arguments of launches that pass an array of pointers. Without a
// layout they copy guessed sizes, and params cuts those. The key of a kernel is the call that returned its handle, because
// another kernel may get the same handle later.
type kernels struct {
	handles   *ebpf.Map // by process and handle: the key, and the handle that it was made from
	layouts   *ebpf.Map // by key
	binaries  map[processHandle]*deviceBinary
	functions map[processHandle]*kernelFunction
	byCall    map[uint64]*kernelFunction // by key
	loading   map[int]*loading           // by thread
	tidied    int64
	noLayouts bool // write none
}

type processHandle struct{ pid, handle uint64 }

// deviceBinary is a binary that a program loaded.
type deviceBinary struct {
	params    map[string][]uint32 // parameter sizes by kernel, nil if the binary is unreadable
	functions []*kernelFunction
}

// kernelFunction is a kernel of a process.
type kernelFunction struct {
	handle   processHandle
	call     uint64        // key
	from     uint64        // the handle that it was made from
	binary   *deviceBinary // nil if unknown
	sizes    []uint32
	known    bool
	reported []uint32 // sizes from paramInfo so far
	unloaded int64    // when its binary was unloaded, 0 if loaded
}

// loading is a binary whose content has not arrived in full.
type loading struct {
	binary *deviceBinary
	param  uint8
	item   uint32
	seq    uint64
	data   []byte
}

// forgetAfter is the time in nanoseconds to keep a kernel after its binary was unloaded. The launches of an idle thread arrive
// late.
const forgetAfter = 60e9

func newKernels(handles, layouts *ebpf.Map) *kernels {
	return &kernels{handles: handles, layouts: layouts, binaries: map[processHandle]*deviceBinary{}, functions: map[processHandle]*kernelFunction{},
		byCall: map[uint64]*kernelFunction{}, loading: map[int]*loading{}}
}

// call updates binaries and kernels after a call.
func (k *kernels) call(f *api.Func, c *probe.Call) {
	delete(k.loading, c.TID)
	if c.Unfinished() {
		return
	}
	pid, ok := uint64(c.PID), !f.RetError || c.Ret == 0
	var from processHandle
	var source api.Object
	for i := range f.Params {
		switch p := &f.Params[i]; {
		case p.Object != api.Binary && p.Object != api.Function:
		case p.Role == api.Use && source == "":
			from, source = processHandle{pid, c.Words[p.Word]}, p.Object
		case p.Role == api.End && p.Object == api.Binary && ok:
			k.unload(processHandle{pid, c.Words[p.Word]}, c.Start)
		}
	}
	for i := range f.Params {
		p := &f.Params[i]
		if !ok || !p.Role.Makes() || p.Object != api.Binary && p.Object != api.Function {
			continue
		}
		h, stored := storedWord(c, i)
		switch {
		case !stored:
		case p.Object == api.Function:
			k.add(f, c, processHandle{pid, h}, from, source)
		case source == api.Binary:
			if b := k.binaries[from]; b != nil {
				k.binaries[processHandle{pid, h}] = b
			}
		case source == "":
			k.load(f, c, processHandle{pid, h})
		}
	}
	if f.ParamSizes {
		k.paramInfo(f, c, from, ok)
	}
}

// storedWord returns the word that a call stored through a parameter.
func storedWord(c *probe.Call, param int) (uint64, bool) {
	for i := range c.Pieces {
		if p := &c.Pieces[i]; int(p.Param) == param && p.Dir == probe.Out && p.Missing == probe.Present && len(p.Bytes) >= 8 {
			return le64(p.Bytes), true
		}
	}
	return 0, false
}

// load adds a binary. Its content arrives with the call or later.
func (k *kernels) load(f *api.Func, c *probe.Call, h processHandle) {
	l := &loading{binary: &deviceBinary{}, seq: c.Seq}
	k.binaries[h] = l.binary
	for i := range f.Params {
		switch f.Params[i].Role {
		case api.File:
			l.item = 1
		case api.Image, api.In:
		default:
			continue
		}
		l.param = uint8(i)
		k.loading[c.TID] = l
		for j := range c.Pieces {
			k.content(c.TID, c.Seq, &c.Pieces[j], 0)
		}
		return
	}
}

// content adds content to the binary that a thread has loaded.
func (k *kernels) content(tid int, seq uint64, p *probe.Piece, offset uint64) {
	l := k.loading[tid]
	if l == nil || l.seq != seq || l.param != p.Param || l.item != p.Item {
		return
	}
	if p.Missing != probe.Present || offset != uint64(len(l.data)) || p.Len > kernelbin.MaxUnpacked {
		delete(k.loading, tid)
		return
	}
	if l.data == nil {
		l.data = make([]byte, 0, p.Len)
	}
	if l.data = append(l.data, p.Bytes...); uint64(len(l.data)) == p.Len {
		l.binary.params = kernelbin.Params(l.data)
		delete(k.loading, tid)
	}
}

// add adds a kernel that a program got from a binary by name, or from another handle.
func (k *kernels) add(f *api.Func, c *probe.Call, h, from processHandle, source api.Object) {
	by := uint64(uint32(c.TID))<<32 | uint64(uint32(c.Seq))
	if old := k.functions[h]; old != nil && old.from == from.handle {
		// The BPF programs may have added this call too: two threads got the kernel at once, or an ended kernel with this handle
		// was removed in between.
		var g [2]uint64
		if k.handles.Lookup(h, &g) == nil && g[0] == by {
			k.byCall[by] = old
			_ = k.handles.Put(h, [2]uint64{old.call, old.from})
		}
		return
	}
	fn := &kernelFunction{handle: h, call: by, from: from.handle}
	switch source {
	case api.Binary:
		if fn.binary = k.binaries[from]; fn.binary == nil || f.Names < 0 {
			break
		}
		for i := range c.Pieces {
			if p := &c.Pieces[i]; int(p.Param) == int(f.Names) && p.Missing == probe.Present {
				fn.sizes, fn.known = fn.binary.params[string(p.Bytes)]
			}
		}
	case api.Function:
		if other := k.functions[from]; other != nil {
			fn.binary, fn.sizes, fn.known = other.binary, other.sizes, other.known
		}
	}
	k.put(fn)
}

// paramInfo notes a parameter size that the runtime reported to the program. Programs query all parameters in order; the query
// after the last one fails.
func (k *kernels) paramInfo(f *api.Func, c *probe.Call, h processHandle, ok bool) {
	fn := k.functions[h]
	if fn == nil {
		fn = &kernelFunction{handle: h, call: uint64(uint32(c.TID))<<32 | uint64(uint32(c.Seq))}
		k.functions[h], k.byCall[fn.call] = fn, fn
	}
	last := len(f.Params) - 1
	if fn.known || last < 1 || c.Words[f.Params[1].Word] != uint64(len(fn.reported)) {
		return
	}
	if size, stored := storedWord(c, last); ok && stored {
		fn.reported = append(fn.reported, uint32(min(size, 1<<16)))
	} else if !ok && len(fn.reported) > 0 {
		fn.sizes, fn.known = fn.reported, true
		k.publish(fn)
	}
}

func (k *kernels) put(fn *kernelFunction) {
	if old := k.functions[fn.handle]; old != nil {
		_ = k.layouts.Delete(old.call)
	}
	k.functions[fn.handle], k.byCall[fn.call] = fn, fn
	if fn.binary != nil {
		fn.binary.functions = append(fn.binary.functions, fn)
	}
	k.publish(fn)
}

// publish writes a kernel's layout for the BPF programs. If the map is full, they keep guessing.
func (k *kernels) publish(fn *kernelFunction) {
	l := layout{Count: unknownParams}
	if fn.known {
		l.Count = uint16(min(len(fn.sizes), maxParams))
	}
	for i, size := range fn.sizes[:min(len(fn.sizes), maxParams)] {
		l.Size[i] = uint16(min(size, 1<<16-1))
	}
	if !k.noLayouts {
		_ = k.layouts.Put(fn.call, &l)
	}
	// The entry is missing if the kernel was got before the recording, or if a kernel with the same handles was withdrawn.
	_ = k.handles.Update(fn.handle, [2]uint64{fn.call, fn.from}, ebpf.UpdateNoExist)
}

// withdraw removes a kernel from the maps, unless another kernel has its handle.
func (k *kernels) withdraw(fn *kernelFunction) {
	_ = k.layouts.Delete(fn.call)
	var g [2]uint64
	if k.handles.Lookup(fn.handle, &g) == nil && g[0] == fn.call {
		_ = k.handles.Delete(fn.handle)
	}
}

// unload ends a binary and its kernels.
func (k *kernels) unload(h processHandle, now int64) {
	b := k.binaries[h]
	if b == nil {
		return
	}
	delete(k.binaries, h)
	for _, fn := range b.functions {
		k.endKernel(fn, now)
	}
	b.functions = nil
}

func (k *kernels) endKernel(fn *kernelFunction, now int64) {
	if fn.unloaded == 0 {
		fn.unloaded = now
	}
	if k.functions[fn.handle] == fn {
		delete(k.functions, fn.handle)
	}
	k.withdraw(fn)
}

// endProcess forgets a process that has ended or called exec.
func (k *kernels) endProcess(pid int, now int64) {
	for _, fn := range k.functions {
		if fn.handle.pid == uint64(pid) {
			k.endKernel(fn, now)
		}
	}
	for h := range k.binaries {
		if h.pid == uint64(pid) {
			delete(k.binaries, h)
		}
	}
}

// tidy forgets ended processes and long-gone kernels, at most once a second.
func (k *kernels) tidy(now int64) {
	if now-k.tidied < 1e9 {
		return
	}
	k.tidied = now
	lives := map[uint64]bool{}
	for _, fn := range k.functions {
		lives[fn.handle.pid] = true
	}
	for h := range k.binaries {
		lives[h.pid] = true
	}
	for pid := range lives {
		if errors.Is(unix.Kill(int(pid), 0), unix.ESRCH) {
			k.endProcess(int(pid), now)
		}
	}
	maps.DeleteFunc(k.byCall, func(_ uint64, fn *kernelFunction) bool { return fn.unloaded != 0 && now-fn.unloaded > forgetAfter })
}

// params splits the piece p with a launch's arguments into one piece for each parameter, numbered from p.Item on. p.Addr is the
// kernel's key. p.Len has the number of parameters in its upper half, and the number with content in its lower half.
func (k *kernels) params(p probe.Piece, began int64, list uint64, b []byte) []probe.Piece {
	fn, done, n := k.byCall[p.Addr], int(uint32(p.Len)), int(p.Len>>32)
	p.Addr, p.Len = list, 0
	switch {
	case p.Missing != probe.Present:
	case fn == nil || !fn.known || fn.unloaded != 0 && began > fn.unloaded || len(b) < (10*n+7)&^7:
		p.Missing = probe.UnknownSize
	}
	if p.Missing != probe.Present {
		if p.Item > 0 {
			p.Item++
		}
		return []probe.Piece{p}
	}
	addrs, lengths, content := b, b[8*n:], b[(10*n+7)&^7:]
	ps := make([]probe.Piece, len(fn.sizes))
	for i, size := range fn.sizes {
		q := &ps[i]
		*q = probe.Piece{Param: p.Param, Item: p.Item + uint32(i) + 1, Len: uint64(size), Missing: probe.OverLimit}
		if i < n {
			q.Addr = le64(addrs[8*i:])
		}
		if i >= done {
			continue
		}
		got := int(le16(lengths[2*i:]))
		switch padded := (got + 7) &^ 7; {
		case padded > len(content):
			content = nil
		case got >= int(size):
			q.Missing, q.Bytes, content = probe.Present, content[:size:size], content[padded:]
		default:
			if content = content[padded:]; got == 0 && size <= maxParamBytes {
				q.Missing = probe.Unreadable
			}
		}
	}
	return ps
}
