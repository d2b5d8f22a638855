package ranks

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Rank returns the rank in a recorded program's environment.
func Rank(m *format.Meta) (int, bool) {
	for _, name := range format.RankVariables {
		if n, err := strconv.Atoi(m.Env[name]); err == nil && n >= 0 {
			return n, true
		}
	}
	return 0, false
}

// MergeOptions are Merge's parameters. nil means the defaults.
type MergeOptions struct {
	WallOnly bool                  // do not align clocks by collectives
	Progress func(done, total int) // called now and then with the traces read and the total
}

// Merge writes a job's traces into one trace with one clock. Ranks come from the environments of the
// programs. A trace without one gets its position in the list. Two traces with one rank are an error, and so is a merged trace.
func Merge(path string, readers []*format.Reader, m *api.Model, o *MergeOptions) (*format.Meta, error) {
	if o == nil {
		o = &MergeOptions{}
	}
	if len(readers) == 0 {
		return nil, errors.New("no trace to merge")
	}
	for _, r := range readers {
		if err := r.PayloadsReadable(); err != nil {
			return nil, err
		}
	}
	numbers, err := number(readers)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(readers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return numbers[a] - numbers[b] })
	metas := make([]*format.Meta, len(order))
	for i, k := range order {
		metas[i] = readers[k].Meta()
	}
	began, first := starts(metas, &m.Simulator)
	begin := slices.Min(began)
	parts := make([]*part, len(readers))
	shifts := make([]int64, len(readers))
	for i, k := range order {
		r := readers[k]
		shifts[i] = began[i] - begin
		parts[i] = newPart(mostKept / len(readers))
		if !o.WallOnly {
			if err := walk(r, m, parts[i].add); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Path(), err)
			}
		}
		if o.Progress != nil {
			o.Progress(i+1, 2*len(readers))
		}
	}
	clocks := align(parts, shifts)
	shareClocks(clocks, first)
	meta := *readers[order[0]].Meta()
	meta.UUID, meta.StartWall, meta.EndNS, meta.Merged = format.NewUUID(), begin, 0, nil
	meta.StartMono = 0
	meta.ExitCode, meta.ExitSignal, meta.Ended = 0, 0, ""
	meta.Recovered, meta.Window = "", format.WindowWhole
	meta.KernelLibraries, meta.KernelBuildIDs = nil, map[string]string{}
	a := make([]*format.Source, len(readers))
	for i, k := range order {
		r, c := readers[k], &clocks[i]
		was := r.Meta()
		meta.Merged = append(meta.Merged, format.Merged{UUID: was.UUID, Host: was.Host, Rank: numbers[k], Shift: c.time(0), ErrorNS: c.err, Matched: c.matched, OneClock: c.shared})
		meta.EndNS = max(meta.EndNS, c.time(was.EndNS))
		meta.Replayable = meta.Replayable && was.Replayable
		meta.Simulated = meta.Simulated && was.Simulated
		ended(&meta, was, numbers[k])
		lacks(&meta, r.Completeness(), numbers[k])
		for _, l := range was.KernelLibraries {
			if !slices.Contains(meta.KernelLibraries, l) {
				meta.KernelLibraries = append(meta.KernelLibraries, l)
			}
		}
		maps.Copy(meta.KernelBuildIDs, was.KernelBuildIDs)
		if i > 0 {
			counts(&meta, was)
		}
		a[i] = &format.Source{Reader: r, Time: c.time, Row: func(p format.Process) format.Process {
			p.Rank = numbers[k]
			if was.Host != meta.Host {
				p.Host = was.Host
			}
			return p
		}}
	}
	w, err := format.Create(path, &meta, readers[order[0]].Schema(), &format.WriterOptions{Whole: true})
	if err != nil {
		return nil, err
	}
	if err := format.NewAppender(w).Append(a...); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &meta, nil
}

// ended takes the merged trace's end from the first rank that did not succeed.
func ended(meta, was *format.Meta, rank int) {
	switch {
	case meta.Ended != "":
	case was.Ended != "":
		meta.Ended = fmt.Sprintf("rank %d: %s", rank, was.Ended)
	case was.ExitSignal != 0:
		meta.Ended = fmt.Sprintf("rank %d was killed by signal %d", rank, was.ExitSignal)
	case was.ExitCode != 0:
		meta.Ended = fmt.Sprintf("rank %d with exit code %d", rank, was.ExitCode)
	}
	if meta.ExitCode == 0 {
		meta.ExitCode, meta.ExitSignal = was.ExitCode, was.ExitSignal
	}
}

// lacks copies the first rank's reason for missing calls that no gap describes.
func lacks(meta *format.Meta, c *format.Completeness, rank int) {
	if c.Cut != "" && meta.Recovered == "" {
		meta.Recovered = fmt.Sprintf("rank %d: %s", rank, c.Cut)
	}
	if meta.Window == format.WindowWhole {
		meta.Window = c.Window
	}
}

// number returns each trace's rank.
func number(readers []*format.Reader) ([]int, error) {
	numbers := make([]int, len(readers))
	by := map[int]string{}
	for i, r := range readers {
		if merged := len(r.Meta().Merged); merged > 1 {
			return nil, fmt.Errorf("%s has %d ranks already: merge the traces of the single ranks, all at once", r.Path(), merged)
		}
		for _, other := range readers[:i] {
			if a, b := r.Meta(), other.Meta(); format.SameFile(r.Path(), other.Path()) || a.UUID == b.UUID && !a.Divided && !b.Divided && a.StartMono == b.StartMono {
				return nil, fmt.Errorf("%s and %s are one recording: name each rank's trace once", other.Path(), r.Path())
			}
		}
		n, ok := Rank(r.Meta())
		if !ok {
			n = i
		}
		if other := by[n]; other != "" {
			return nil, fmt.Errorf("%s and %s are both of rank %d: merge one trace a rank", other, r.Path(), n)
		}
		by[n], numbers[i] = r.Path(), n
		if a, b := r.Meta().API, readers[0].Meta().API; a != b {
			return nil, fmt.Errorf("%s is a trace of the runtime %q, %s one of %q", r.Path(), a, readers[0].Path(), b)
		}
	}
	return numbers, nil
}

// Files returns the named files, and the files that end in .aclt in the named folders.
func Files(names []string) ([]string, error) {
	var files []string
	for _, n := range names {
		st, err := os.Stat(n)
		if err != nil {
			return nil, err
		}
		if !st.IsDir() {
			files = append(files, n)
			continue
		}
		in, err := filepath.Glob(filepath.Join(n, "*.aclt"))
		if err != nil {
			return nil, err
		}
		if len(in) == 0 {
			return nil, fmt.Errorf("%s has no file whose name ends in .aclt", n)
		}
		files = append(files, in...)
	}
	return files, nil
}
