package uprobe

import (
	"errors"
	"fmt"
	"sync"

	"github.com/acltrace/acltrace/api"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// probed holds the attached probes. Add may run concurrently with Run.
type probed struct {
	sync.Mutex
	files          map[fileID]bool // with probes; false: only on marks
	functions      map[api.ID]bool
	endless        map[api.ID]bool   // see Endless
	refused        map[string][]site // by library
	enters, leaves []link.Link
}

// attachSites attaches the programs at sites in a file.
func (u *Probes) attachSites(path string, sites []site) error {
	var hooked, returns []site
	for _, s := range sites {
		if s.cookie&unhooked == 0 {
			hooked = append(hooked, s)
		}
		for _, at := range s.returns {
			returns = append(returns, site{symbol: s.symbol, offset: at, cookie: s.cookie | atReturn})
		}
	}
	if err := u.raiseFileLimit(len(sites) + len(returns)); err != nil {
		return err
	}
	ex, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	// Returns first, so that each recorded entry has its return.
	if u.programs.exit != "" {
		for _, s := range []struct {
			sites []site
			how   how
		}{{hooked, atLeave}, {returns, atReturnInstruction}} {
			ls, err := u.attach(ex, s.sites, s.how)
			u.probed.leaves = append(u.probed.leaves, ls...)
			if err != nil {
				return err
			}
		}
	}
	ls, err := u.attach(ex, sites, atEntry)
	u.probed.enters = append(u.probed.enters, ls...)
	return err
}

// how says what a probe does: it runs the entry program, or the exit program, as a return probe or at an instruction.
type how uint8

const (
	atEntry how = iota
	atLeave
	atReturnInstruction
)

// raiseFileLimit raises the file limit for more probes. Without uprobe_multi each entry takes two files, and each return two.
func (u *Probes) raiseFileLimit(functions int) error {
	var limit unix.Rlimit
	if u.programs.multi || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return nil
	}
	need := uint64(2*(len(u.probed.enters)+len(u.probed.leaves)) + 4*functions + 256)
	if limit.Cur >= need {
		return nil
	}
	for _, most := range []uint64{1 << 20, need} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: max(most, limit.Max)}) == nil {
			return nil
		}
	}
	return fmt.Errorf("this kernel takes probes one by one, %d files in all, and this process may have no more than %d: raise the limit, as by ulimit -n %[1]d", need, limit.Max)
}

func (u *Probes) attach(ex *link.Executable, sites []site, as how) ([]link.Link, error) {
	if len(sites) == 0 {
		return nil, nil
	}
	p := u.programs.coll.Programs[u.programs.entry]
	if as != atEntry {
		p = u.programs.coll.Programs[u.programs.exit]
	}
	if u.programs.multi {
		o := &link.UprobeMultiOptions{}
		for _, s := range sites {
			o.Addresses = append(o.Addresses, s.offset)
			o.Cookies = append(o.Cookies, s.cookie)
		}
		attach := ex.UprobeMulti
		if as == atLeave {
			attach = ex.UretprobeMulti
		}
		l, err := attach(nil, p, o)
		if err != nil {
			return nil, err
		}
		return []link.Link{l}, nil
	}
	attach := ex.Uprobe
	if as == atLeave {
		attach = ex.Uretprobe
	}
	var ls []link.Link
	own := p
	for _, s := range sites {
		o := &link.UprobeOptions{Address: s.offset, Cookie: s.cookie}
		if !u.programs.cookies {
			o.Cookie = 0
			var err error
			if own, err = u.stub(s.cookie, as); err != nil {
				return ls, fmt.Errorf("%s: %w", s.symbol, err)
			}
		}
		l, err := attach("", own, o)
		if !u.programs.cookies {
			own.Close() // the probe holds a reference
		}
		if errors.Is(err, unix.EACCES) {
			return ls, fmt.Errorf("%s: this kernel attaches one by one, which takes CAP_SYS_ADMIN too: %w", s.symbol, err)
		}
		if err != nil {
			return ls, fmt.Errorf("%s: %w", s.symbol, err)
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// has reports whether a file has probes.
func (u *Probes) has(path string) bool {
	file, err := identify(path)
	return err == nil && u.hasFile(file)
}

func (u *Probes) hasFile(file fileID) bool {
	u.probed.Lock()
	defer u.probed.Unlock()
	_, ok := u.probed.files[file]
	return ok
}

// detach removes the probes, entries first, so that no call lacks its return. The kernel waits for running programs.
func (u *Probes) detach() error {
	u.probed.Lock()
	defer u.probed.Unlock()
	var errs []error
	for _, ls := range []*[]link.Link{&u.probed.enters, &u.probed.leaves, &u.programs.life} {
		for _, l := range *ls {
			errs = append(errs, l.Close())
		}
		*ls = nil
	}
	return errors.Join(errs...)
}
