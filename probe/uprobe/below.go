package uprobe

import (
	"debug/elf"
	"path/filepath"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/procstat"
)

// below counts references of mapped files to functions under and beside the runtime (api.Below), by name, once for each process and file. Probes on
// the functions would also count the calls by the runtime itself. It does not see what a program looks up.
type below struct {
	model  *api.Model
	files  map[string]*belowFile
	seen   map[belowKey]bool // counted references
	counts map[string]uint64
}

type belowKey struct {
	pid        int
	file, name string
}

// belowFile is a mapped file by its device and inode.
type belowFile struct {
	part            bool            // of the runtime, or under or beside it
	defines, wanted map[string]bool // functions with the names in question
}

func newBelow(m *api.Model) *below {
	return &below{model: m, files: map[string]*belowFile{}, seen: map[belowKey]bool{}, counts: map[string]uint64{}}
}

// learn counts the references of the files that a process maps now.
func (b *below) learn(pid int, maps []byte) {
	if len(b.model.Below.Prefixes) == 0 {
		return
	}
	mapped := map[string]*belowFile{}
	var parts []*belowFile
	for file := range procstat.Mapped(maps) {
		if mapped[file.ID] != nil {
			continue
		}
		f := b.file(pid, &file)
		if mapped[file.ID] = f; f.part {
			parts = append(parts, f)
		}
	}
	for id, f := range mapped {
		if f.part {
			continue
		}
		for name := range f.wanted {
			k := belowKey{pid, id, name}
			if !b.seen[k] && slices.ContainsFunc(parts, func(p *belowFile) bool { return p.defines[name] }) {
				b.seen[k] = true
				b.counts[name]++
			}
		}
	}
}

// file reads a file at its first mapping.
func (b *below) file(pid int, mapped *procstat.MappedFile) *belowFile {
	if f := b.files[mapped.ID]; f != nil {
		return f
	}
	name := filepath.Base(mapped.Path)
	f := &belowFile{part: b.model.LayerOf(name) != nil || b.model.Below.Has(name), defines: map[string]bool{}, wanted: map[string]bool{}}
	b.files[mapped.ID] = f
	for _, path := range filesOf(pid, mapped.From, mapped.To, mapped.Path) {
		if e, err := elffile.Open(path); err == nil {
			f.read(b.model, e)
			e.Close()
			break
		}
	}
	return f
}

func (f *belowFile) read(m *api.Model, e *elffile.File) {
	symbols, err := e.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return
	}
	for _, s := range symbols {
		if len(s.Name) == 0 || !m.Beneath(string(s.Name)) {
			continue
		}
		if name := string(s.Name); s.Defined() {
			f.defines[name] = true
		} else {
			f.wanted[name] = true
		}
	}
}

// endProcess forgets a process.
func (b *below) endProcess(pid int) {
	for k := range b.seen {
		if k.pid == pid {
			delete(b.seen, k)
		}
	}
}
