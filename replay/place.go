package replay

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
)

// The simulator puts the nth allocation of device memory at the nth address of the file that a variable names
// (api.Simulator.Place), where there is room, and the others from api.Simulator.Base on. Other libraries know nothing
// of either and place as they like; for some of them the player knows how to have them place where it was
// (player/place.h), where PlaceSame asks for it.

// moveBy is the distance by which PlaceMove moves all device memory.
const moveBy = 0x10000000000

// placement notes where a call's allocation of device memory, or of addresses for it, was.
func (p *planner) placement(c *format.Call, f *api.Func) {
	for i := range f.Params {
		if q := &f.Params[i]; q.Role != api.New || !placeable(q.Object) {
			continue
		}
		v, ok := p.stored(i)
		if ok && p.ok {
			p.placed(v, c.End)
		} else if e := p.model.Exhausted; int32(c.Ret) >= e[0] && int32(c.Ret) <= e[1] {
			// It failed for want of memory, not for its parameters: it counts, and may lie anywhere.
			p.placed(0, c.End)
		}
	}
}

// placed adds an address to the list, which is in the order of the ends of the calls, as overlapping allocations are replayed.
func (p *planner) placed(addr uint64, end int64) {
	pr := &p.procs[p.threads[p.at.thread].process]
	i := len(pr.placeEnds)
	for i > 0 && pr.placeEnds[i-1] > end {
		i--
	}
	pr.placeEnds = slices.Insert(pr.placeEnds, i, end)
	pr.place = slices.Insert(pr.place, i, addr)
}

// simulated reports whether the library is the simulator.
func (p *Plan) simulated() bool {
	return p.o == nil || p.o.Backend == "" || artifacts.Simulates(p.model, p.o.Backend)
}

// environment returns the variables that make the simulator place a process's allocations as wanted.
func (p *Plan) environment(process int) ([]string, error) {
	if p.dir == "" {
		return nil, nil // only to look at
	}
	pr := &p.procs[process]
	low := ^uint64(0)
	for _, a := range pr.place {
		if a != 0 {
			low = min(low, a)
		}
	}
	if low == ^uint64(0) {
		return nil, nil
	}
	var b strings.Builder
	if !p.simulated() {
		if p.o.Place != PlaceSame {
			return nil, nil
		}
		blocks := slices.DeleteFunc(slices.Clone(p.found.deviceBlocks), func(d deviceBlock) bool { return d.object.Process != pr.process })
		slices.SortStableFunc(blocks, func(a, b deviceBlock) int { return cmp.Compare(a.end, b.end) }) // as overlapping ones are replayed
		for _, d := range blocks {
			fmt.Fprintf(&b, "%#x %d\n", d.object.Handle, d.object.Size)
		}
		return p.placeFile("ACLTRACE_PLACE", process, b.String())
	}
	sim := &p.model.Simulator
	const unit = 2 << 20
	base := low / unit * unit
	if p.o.Place == PlaceMove {
		return []string{fmt.Sprintf("%s=%#x", sim.Base, base+moveBy), sim.Place + "="}, nil
	}
	for _, a := range pr.place {
		fmt.Fprintf(&b, "%#x\n", a)
	}
	return p.placeFile(sim.Place, process, b.String())
}

// placeFile writes a list of addresses, which a variable names.
func (p *Plan) placeFile(variable string, process int, list string) ([]string, error) {
	name := fmt.Sprintf("place-%d", process+1)
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(list), 0o600); err != nil {
		return nil, err
	}
	if p.o.relative {
		path = name
	}
	return []string{variable + "=" + path}, nil
}
