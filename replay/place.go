package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// The simulator puts the nth allocation of device memory at the nth address of the file that a variable names (api.Simulator.Place),
// where there is room, and the others from api.Simulator.Base on. Other libraries know nothing of either and place as they like.

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
	sim := &p.model.Simulator
	const unit = 2 << 20
	base := low / unit * unit
	if p.o.Place == PlaceMove {
		return []string{fmt.Sprintf("%s=%#x", sim.Base, base+moveBy), sim.Place + "="}, nil
	}
	var b strings.Builder
	for _, a := range pr.place {
		fmt.Fprintf(&b, "%#x\n", a)
	}
	name := fmt.Sprintf("place-%d", process+1)
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	if p.o.relative {
		path = name
	}
	return []string{sim.Place + "=" + path}, nil
}
