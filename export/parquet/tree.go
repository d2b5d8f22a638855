package parquet

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// TreeOptions are the parameters for WriteTree.
type TreeOptions struct {
	Dir      string                // required
	Job      string                // required
	Rank     int                   // for a trace that was not merged from several ranks
	Select   *timeline.Selection   // calls, nil for all
	Progress func(done, total int) // called now and then with the call count in this pass
}

// ranksAtOnce limits the ranks written in one pass over a merged trace. Each holds a row group per table in memory.
const ranksAtOnce = 4

// WriteTree adds the tables to a tree with Hive partitions by job and rank, as Spark and DuckDB read it:
//
//	Dir/calls/job=JOB/rank=RANK/UUID.parquet
//
// and likewise for each table. It replaces parts from the same trace, whichever calls they have, and keeps all others.
// Files appear only when complete, so readers may use the tree meanwhile. In a merged trace each rank gets its own files; every four ranks
// take one pass.
func WriteTree(r *format.Reader, m *api.Model, o *TreeOptions) (*Result, error) {
	if o.Job == "" {
		return nil, errors.New("write parquet: a tree is partitioned by job, which has no name")
	}
	of := make([]int, len(r.Processes())) // rank by process
	for i, p := range r.Processes() {
		if of[i] = o.Rank; len(r.Meta().Merged) > 0 {
			of[i] = p.Rank
		}
	}
	all := slices.Compact(slices.Sorted(slices.Values(of)))
	if len(all) == 0 {
		all = []int{o.Rank}
	}
	sum := &Result{}
	for ranks := range slices.Chunk(all, ranksAtOnce) {
		if err := writeRanks(r, m, o, of, ranks, sum); err != nil {
			return sum, fmt.Errorf("write parquet: %w", err)
		}
	}
	return sum, nil
}

// writeRanks writes the parts for some ranks.
func writeRanks(r *format.Reader, m *api.Model, o *TreeOptions, of, ranks []int, sum *Result) (err error) {
	sel, err := timeline.NewSelector(r, m, o.Select) // it belongs to one pass
	if err != nil {
		return err
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Select: sel, Progress: o.Progress})
	if err := w.FindSteps(); err != nil {
		return err
	}
	var parts []*atomicfile.File
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.Drop())
		}
	}()
	writers := map[int]*writer{}
	for _, rank := range ranks {
		x, err := newWriter(w, func(table string) (io.WriteCloser, error) {
			p, err := newPart(filepath.Join(o.Dir, table, "job="+hiveName(o.Job), fmt.Sprint("rank=", rank)), r.Meta().UUID+".parquet")
			if err == nil {
				parts = append(parts, p)
			}
			return p, err
		})
		if err != nil {
			return err
		}
		defer x.stop()
		writers[rank] = x
	}
	process := func(p uint32) *writer {
		if int(p) >= len(of) {
			return writers[of[0]]
		}
		return writers[of[p]]
	}
	if len(of) == 0 {
		process = func(uint32) *writer { return writers[ranks[0]] }
	}
	err = w.Run(&timeline.Visitor{
		Call: func(c *timeline.HostCall, t *timeline.Task) error {
			if x := process(w.Process(c.Thread)); x != nil {
				return x.call(c, t)
			}
			return nil
		},
		Task: func(t *timeline.Task) error {
			if x := process(t.Process); x != nil {
				return x.task(t)
			}
			return nil
		},
		Step: func(s *step.Step) error {
			if x := process(w.StepRule().Process); x != nil {
				return x.step(s)
			}
			return nil
		},
		Object: func(o *timeline.Object) error {
			if x := process(o.Process); x != nil {
				return x.object(o)
			}
			return nil
		},
		Graph: func(o *timeline.Object, g timeline.Graph) error {
			if x := process(o.Process); x != nil {
				return x.graph(o, g)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	for _, x := range writers {
		if err := x.end(); err != nil {
			return err
		}
		sum.add(x.res)
	}
	return atomicfile.Keep(parts...)
}

// newPart creates a file in the tree. Until it is complete its name starts with a dot, so readers skip it.
func newPart(dir, name string) (*atomicfile.File, error) {
	if err := private.MakeFolder(dir); err != nil {
		return nil, err
	}
	return atomicfile.CreateAs(filepath.Join(dir, name), filepath.Join(dir, "."+name+atomicfile.Suffix))
}

// hiveName escapes a value for a folder name, as Hive does.
func hiveName(v string) string {
	var b strings.Builder
	for i := range len(v) {
		if c := v[i]; c < ' ' || c == 0x7f || strings.IndexByte("\"#%'*/:=?\\{[]^", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
