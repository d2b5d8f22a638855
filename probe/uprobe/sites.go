package uprobe

import (
	"debug/elf"
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/elffile"
)

// site is an address to probe.
type site struct {
	symbol  string
	offset  uint64   // in the file
	cookie  uint64   // function, the bits below, from bit 24 the distance from the entry, and for marks from bit 32 the code around it
	returns []uint64 // offsets of the return instructions that are probed
}

// Bits of a cookie, as in probe/bpf/uprobe.bpf.c.
const (
	implementation = 1 << 16 // a wrapper calls it
	atReturn       = 1 << 17 // the probe is at a return instruction
	unhooked       = 1 << 18 // it has no return probe, because it may run callbacks or wait
	noEnd          = 1 << 19 // its return instructions are unknown, too
	public         = 1 << 20 // programs call it: it is in the first layer
)

func (s site) id() api.ID { return api.ID(uint16(s.cookie)) }

// findSites finds functions in a library by their names and by those of implementations, which the wrappers in newer releases
// call (aclrtMallocImpl). Each address appears once. refused has the sites that the kernel would not accept.
func findSites(library string, want []*api.Func, arch string) (sites, refused []site, err error) {
	f, err := elffile.Open(library)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return sitesIn(f, want, arch)
}

// machines maps processors to their ELF numbers.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func sitesIn(f *elffile.File, want []*api.Func, arch string) (sites, refused []site, err error) {
	if f.Machine != machines[arch] {
		return nil, nil, fmt.Errorf("it is for %v, not for %s", f.Machine, arch)
	}
	// Stripped libraries have dynamic symbols, too.
	syms, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return nil, nil, err
	}
	suffixes := []string{"", "Impl"}
	wanted := map[string]bool{}
	for _, fn := range want {
		for _, suffix := range suffixes {
			wanted[fn.Symbol()+suffix] = true
		}
	}
	at := map[string]uint64{}
	for _, s := range syms {
		if s.Kind() == elf.STT_FUNC && s.Defined() && wanted[string(s.Name)] {
			at[string(s.Name)] = s.Value
		}
	}
	seen := map[uint64]bool{}
	for layer, suffix := range suffixes {
		for _, fn := range want {
			addr, ok := at[fn.Symbol()+suffix]
			if !ok {
				continue
			}
			offset, code, err := f.Code(addr, 32)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", fn.Symbol()+suffix, err)
			}
			behind, ok := probeOffset(code, arch)
			if offset += behind; seen[offset] {
				continue
			}
			seen[offset] = true
			s := site{symbol: fn.Symbol() + suffix, offset: offset, cookie: uint64(fn.ID) | uint64(layer)*implementation | behind<<24}
			if fn.EntryMark() {
				s.mark(f, addr, behind)
			}
			if waits := fn.Sync != api.NoSync && fn.Sync != api.PollStream && fn.Sync != api.PollEvent; fn.RunsCallbacks || waits {
				if err := s.unhook(f, fn, addr, arch); err != nil {
					return nil, nil, fmt.Errorf("%s: %w", s.symbol, err)
				}
			}
			if ok {
				sites = append(sites, s)
			} else {
				refused = append(refused, s)
			}
		}
	}
	return sites, refused, nil
}

// mark describes a mark's site, which has no return probe: callers may unwind. The cookie gets the number of pages with code of the library before
// the probe's page, and after it. A mark that is entered from there is no boundary.
func (s *site) mark(f *elffile.File, entry, behind uint64) {
	from, to := f.CodeAround(entry)
	page := (entry + behind) / codePage
	before, after := page-from/codePage, (to-1)/codePage-page
	s.cookie |= unhooked | min(before, 1<<16-1)<<32 | min(after, 1<<16-1)<<48
}

// unhook has the end seen at the return instructions, and not by a return probe. A function that waits has a return probe if
// these are unknown: if its thread is cancelled, the program's cleanup handlers may not run.
func (s *site) unhook(f *elffile.File, fn *api.Func, entry uint64, arch string) error {
	returns := findReturns(f, entry, arch)
	switch {
	case len(returns) > 0:
		s.cookie |= unhooked
	case fn.RunsCallbacks:
		s.cookie |= unhooked | noEnd
	}
	for _, at := range returns {
		offset, _, err := f.Code(at, 1)
		if err != nil {
			return err
		}
		s.returns = append(s.returns, offset)
	}
	return nil
}
