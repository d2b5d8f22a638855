package uprobe

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// callers finds out whose calls inside other calls are, by their return addresses: the runtime's own, or the program's in a
// callback. The name of the file decides. The BPF programs ask once for each page of code, and callers writes the answer to their
// map. In a process without a library of the runtime, which may be linked statically, such calls count as the runtime's.
type callers struct {
	model  *api.Model
	pages  *ebpf.Map           // callerRuntime or callerProgram by process and page
	code   map[int][]codeRange // of the runtime, by process
	known  map[int][]callerKey // in pages, by process
	ended  map[int]int64       // when processes were found to have ended
	below  *below
	loaded func(path string) // called for each library with operators
	tidied int64
}

type callerKey struct{ pid, page uint64 }

// codeRange is mapped code of the runtime.
type codeRange struct{ from, to uint64 }

const (
	callerRuntime, callerProgram uint8 = 1, 2
	codePage                           = 4096 // as in probe/bpf, like the next one
	byPointer                          = uint64(1) << 63
)

func newCallers(m *api.Model, pages *ebpf.Map, loaded func(path string)) *callers {
	return &callers{model: m, pages: pages, code: map[int][]codeRange{}, known: map[int][]callerKey{}, ended: map[int]int64{}, below: newBelow(m), loaded: loaded}
}

// learn reads what a process maps now. If the process has ended, the last reading stays.
func (c *callers) learn(pid int) {
	maps, err := procstat.Text(pid, "maps")
	if err != nil || len(maps) == 0 {
		return
	}
	code := []codeRange{}
	for file := range procstat.Mapped(maps) {
		if c.model.OfOperators(filepath.Base(file.Path)) {
			c.loaded(file.Path)
		}
		if file.Code && c.model.Library(filepath.Base(file.Path)) {
			code = append(code, codeRange{file.From, file.To})
		}
	}
	c.code[pid] = code
	c.below.learn(pid, maps)
	delete(c.ended, pid)
}

// runtime reports whether a call is the runtime's own. from is its return address, with the bit byPointer.
func (c *callers) runtime(pid int, from uint64) bool {
	at := from &^ byPointer
	return c.ofRuntime(pid, at) && from == at
}

// ofRuntime reports whether code is the runtime's.
func (c *callers) ofRuntime(pid int, at uint64) bool {
	k := callerKey{uint64(pid), at / codePage}
	var who uint8
	if c.pages.Lookup(k, &who) == nil {
		return who == callerRuntime
	}
	c.learn(pid)
	code, read := c.code[pid]
	who = callerProgram
	if read && len(code) == 0 || slices.ContainsFunc(code, func(r codeRange) bool { return r.from <= at && at < r.to }) {
		who = callerRuntime
	}
	if c.pages.Put(k, who) == nil {
		c.known[pid] = append(c.known[pid], k)
	}
	return who == callerRuntime
}

// endProcess forgets a process that has ended or called exec.
func (c *callers) endProcess(pid int) {
	for _, k := range c.known[pid] {
		_ = c.pages.Delete(k)
	}
	c.below.endProcess(pid)
	delete(c.known, pid)
	delete(c.code, pid)
	delete(c.ended, pid)
}

// tidy forgets ended processes, at most once a second, and reads the mappings of the others. Their calls may arrive late.
func (c *callers) tidy(now int64) {
	if now-c.tidied < 1e9 {
		return
	}
	c.tidied = now
	for pid := range c.code {
		if since, ended := c.ended[pid]; ended && now-since > forgetAfter {
			c.endProcess(pid)
		} else if !ended && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			c.ended[pid] = now
		} else if !ended {
			c.learn(pid) // it may have loaded a library
		}
	}
}
