package rows

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

type threadKey struct{ pid, tid int }

// threads are a recording's threads.
type threads struct {
	byKey     map[threadKey]*thread
	rows      []format.Thread // in the order of their index
	recent    *thread         // made the latest call
	recentKey threadKey
}

func newThreads() threads { return threads{byKey: map[threadKey]*thread{}} }

// find returns a thread, nil if it is new.
func (ts *threads) find(k threadKey) *thread {
	if ts.recent != nil && ts.recentKey == k {
		return ts.recent
	}
	t := ts.byKey[k]
	if t != nil {
		ts.recent, ts.recentKey = t, k
	}
	return t
}

func (ts *threads) add(k threadKey, index uint32, row format.Thread) *thread {
	t := &thread{index: index, process: row.Process, device: noDevice, open: map[uint64]*openCall{}}
	ts.byKey[k] = t
	ts.rows = append(ts.rows, row)
	return t
}

// latest returns each thread's latest call in a process as text, unfinished calls first.
func (ts *threads) latest(pid int) []string {
	var standing, returned []string
	for k, t := range ts.byKey {
		switch {
		case k.pid != pid || t.latest == nil:
		case t.stands:
			standing = append(standing, fmt.Sprintf("thread %d in %s", k.tid, t.latest.Name))
		default:
			returned = append(returned, fmt.Sprintf("thread %d after %s", k.tid, t.latest.Name))
		}
	}
	slices.Sort(standing)
	slices.Sort(returned)
	return append(standing, returned...)
}

// Thread returns the PID and TID in a row of the thread table.
func (b *Builder) Thread(index uint32) (pid, tid int, ok bool) {
	if int(index) >= len(b.threads.rows) {
		return 0, 0, false
	}
	t := &b.threads.rows[index]
	return b.Processes.rows[t.Process].PID, t.TID, true
}

// ProcessOf returns the index of a thread's process.
func (b *Builder) ProcessOf(thread uint32) uint32 { return b.threads.rows[thread].Process }

// thread is one thread's state.
type thread struct {
	index   uint32
	process uint32
	device  int                  // that it has selected, noDevice if unknown
	open    map[uint64]*openCall // calls that may still get payloads, by sequence number
	next    uint64               // sequence number of the next call
	last    openCall             // latest recorded call, if memory content may belong to it
	seq     uint64               // of last
	latest  *api.Func            // function of the latest call
	stands  bool                 // the latest call never returned
}

// openCall is a call that may still get payloads.
type openCall struct {
	place
	fn     *api.Func
	left   int    // payloads to come, negative if their number is unknown
	took   int64  // nanoseconds of the call
	result int    // parameter of an asynchronous result that has not arrived, -1 for none
	addr   uint64 // of that result
	len    uint64 // of that result
}

// copied reports whether an open call's parameter is copied content, and not a description of the call.
func (t *thread) copied(seq uint64, param uint8) bool { return copied(t.open[seq].fn, param) }

// copied reports whether a parameter is copied content, and not a description of the call.
func copied(f *api.Func, param uint8) bool {
	return f.Task == api.GraphRun || int(param) < len(f.Params) && (f.Params[param].Role == api.Reads || f.Params[param].Role == api.Writes)
}

// arrived notes that an open call's payload is complete, or known to be missing.
func (t *thread) arrived(seq uint64, param uint8) {
	oc := t.open[seq]
	if oc == nil || param == probe.MemoryParam {
		return
	}
	if oc.result == int(param) {
		oc.result = -1
	}
	if oc.left--; oc.left == 0 {
		delete(t.open, seq)
	}
}
