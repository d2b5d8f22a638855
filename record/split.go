package record

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/record/host"
)

// A launcher such as torchrun or mpirun starts the ranks of a job as its children, each with its rank in its environment.
// The recording of a launcher is one file. If its name has %r, it is divided at the end: each rank gets a trace of the
// processes with its number. Processes without a number count as rank 0.

// launches reports whether a finished recording is to be divided.
func (r *recorder) launches(res *Result) bool {
	w := r.rows.Writer()
	if r.o.Command == nil || rankName(r.file.pattern, 0, 0) == rankName(r.file.pattern, 1, 0) || w.Calls() == w.Lost() || res.File.OlderKept || res.File.Missing != "" {
		return false
	}
	if _, ok := host.Rank(r.target.env); ok {
		return false // the program is a rank itself
	}
	for _, rank := range r.rows.Processes.Ranks {
		if rank.Number != 0 {
			return true
		}
	}
	return false
}

// split divides the trace. After an error the whole trace stays, and there is no trace of a rank.
func (r *recorder) split(res *Result) (err error) {
	if r.file.blobs != "" {
		return errors.New("payloads in a second file can't be divided")
	}
	whole, err := format.Open(r.file.name, nil)
	if err != nil {
		return err
	}
	defer whole.Close()
	members := map[int][]uint32{} // processes by rank
	for i := range uint32(len(whole.Processes())) {
		n := r.rows.Processes.Ranks[i].Number
		members[n] = append(members[n], i)
	}
	defer func() {
		for _, f := range res.Ranks {
			if err != nil && f.Output != r.file.name {
				err = errors.Join(err, os.Remove(f.Output))
			}
		}
		if err != nil {
			res.Ranks = nil
		}
	}()
	own := -1 // rank whose trace has the name of the whole one, and replaces it last
	for _, n := range slices.Sorted(maps.Keys(members)) {
		name := rankName(r.file.pattern, n, r.target.root)
		if name == r.file.name {
			own = n
		} else if err := r.writeRank(res, whole, n, members[n], name); err != nil {
			return err
		}
	}
	if own >= 0 {
		err = r.writeRank(res, whole, own, members[own], r.file.name)
	}
	slices.SortFunc(res.Ranks, func(a, b RankFile) int { return a.Rank - b.Rank })
	if err == nil && !slices.ContainsFunc(res.Ranks, func(f RankFile) bool { return f.Output == r.file.name }) {
		err = os.Remove(r.file.name)
	}
	return err
}

// writeRank writes the trace of a rank, unless it made no call. It moves an older file of the name aside.
func (r *recorder) writeRank(res *Result, whole *format.Reader, n int, members []uint32, name string) error {
	at, older := name, (*atomicfile.Successor)(nil)
	var err error
	if name != r.file.name {
		if at, older, err = r.file.successor(name); err != nil {
			return err
		}
	}
	calls, err := r.writeMembers(whole, members, at)
	switch {
	case older == nil:
	case err != nil || calls == 0:
		err = errors.Join(err, older.Leave())
	default:
		var aside string
		if aside, err = older.Take(); aside != "" {
			r.file.moved = append(r.file.moved, aside)
		}
		r.file.prune(name)
	}
	if err != nil || calls == 0 {
		return err
	}
	info, err := os.Stat(name)
	if err == nil {
		res.Ranks = append(res.Ranks, RankFile{Rank: n, Output: name, Calls: calls, Bytes: info.Size()})
	}
	return err
}

// writeMembers writes a trace of some processes. It writes none if they made no call.
func (r *recorder) writeMembers(whole *format.Reader, members []uint32, path string) (calls uint64, err error) {
	meta := r.rankMeta(whole, members)
	w, err := format.Create(path, &meta, whole.Schema(), &format.WriterOptions{Whole: true})
	if err != nil {
		return 0, err
	}
	of := func(p uint32) bool { return slices.Contains(members, p) }
	row := func(p format.Process) format.Process {
		p.Env = meta.OwnEnv(p.Env)
		return p
	}
	if err := format.NewAppender(w).Append(&format.Source{Reader: whole, Of: of, Row: row}); err != nil {
		return 0, errors.Join(err, w.Abort())
	}
	if calls = w.Calls(); calls == 0 {
		return 0, w.Abort()
	}
	return calls, w.Close()
}

// rankMeta describes the trace of some processes. The program is the first of them.
func (r *recorder) rankMeta(whole *format.Reader, members []uint32) format.Meta {
	meta := *whole.Meta()
	meta.UUID, meta.Divided = format.NewUUID(), true
	meta.Tracer.PayloadNS, meta.Tracer.Copies = 0, nil // sums of all ranks, which stats would take for those of the rank
	procs := whole.Processes()
	first := &procs[members[0]]
	if meta.Argv = first.Argv; len(meta.Argv) == 0 {
		meta.Argv = []string{first.Exe}
	}
	if rank, ok := r.rows.Processes.Ranks[members[0]]; ok {
		meta.Env = recordedEnv(r.o.Model, rank.Variables, ".")
	}
	if first.End != 0 {
		meta.ExitCode, meta.ExitSignal, meta.Ended = first.ExitCode, first.Signal, ""
		switch {
		case first.Killed && first.Signal == 0:
			meta.Ended = fmt.Sprintf("process %d was killed", first.PID)
		case first.Killed:
			meta.ExitCode = 128 + first.Signal
		}
	}
	meta.Coverage.Unhooked = slices.DeleteFunc(slices.Clone(meta.Coverage.Unhooked), func(u format.Unhooked) bool {
		return slices.ContainsFunc(procs, func(p format.Process) bool { return p.PID == u.PID }) &&
			!slices.ContainsFunc(members, func(i uint32) bool { return procs[i].PID == u.PID })
	})
	return meta
}
