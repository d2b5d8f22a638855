package rows

import (
	"fmt"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A join is the largest communicator of a process, and its rank there.
type join struct {
	rank, size int
	differs    bool // it has different ranks in several such communicators
}

// learnRank keeps the rank with which a process joins a communicator, unless its environment has one. A program that spawns its ranks sets their variables
// after they have begun.
func (b *Builder) learnRank(f *api.Func, process uint32, c *format.Call) error {
	ps := &b.Processes
	if _, ok := ps.Ranks[process]; ok && !ps.rows[process].Joined {
		return nil
	}
	rank, size := argument(f, c, f.Param(f.Rank)), math.MaxInt
	if f.Ranks != "" {
		size = argument(f, c, f.Param(f.Ranks))
	}
	switch j := ps.joins[process]; {
	case size < 2 || size < j.size:
		return nil
	case size > j.size:
		ps.joins[process] = join{rank: rank, size: size}
	case rank != j.rank:
		j.differs = true
		ps.joins[process] = j
	}
	for i := range ps.joins {
		if err := b.joined(i); err != nil {
			return fmt.Errorf("rank of process %d: %w", ps.rows[i].PID, err)
		}
	}
	return nil
}

// joined changes the rank of a process to the one that its communicators show. They show none if another process has the same: then they are groups of a
// job, and the rank is one in a group.
func (b *Builder) joined(process uint32) error {
	ps := &b.Processes
	j, row := ps.joins[process], ps.rows[process]
	row.Joined = !j.differs
	for i, o := range ps.joins {
		row.Joined = row.Joined && (i == process || o.rank != j.rank)
	}
	delete(ps.Ranks, process)
	if row.Rank = 0; row.Joined {
		row.Rank = j.rank
		ps.Ranks[process] = Rank{Number: j.rank, Variables: ps.variables[process]}
	}
	if was := &ps.rows[process]; was.Joined == row.Joined && was.Rank == row.Rank {
		return nil
	}
	ps.rows[process] = row
	return b.seg.W.UpdateProcess(process, row)
}
