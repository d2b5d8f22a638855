package blame

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
)

// Died is a process that crashed: see format.Process.Crashed.
type Died struct {
	PID     int        `json:"pid"`     // process id
	Command []string   `json:"command"` // command line
	Signal  int        `json:"signal"`  // number of the signal, 0 if not known
	EndNS   int64      `json:"end_ns"`  // when the recorder noticed, on the clock of the calls
	Last    []LastCall `json:"last"`    // each thread's last call, unreturned calls first
}

// LastCall is a thread's last call.
type LastCall struct {
	TID      int    `json:"tid"`      // thread id
	Call     uint64 `json:"call"`     // call number
	Func     string `json:"func"`     // function
	Returned bool   `json:"returned"` // the call had returned
	Operator        // which the thread had begun, and not ended
}

func (d *Died) String() string {
	const most = 3
	s := fmt.Sprintf("process %d (%s) was killed by %s", d.PID, strings.Join(d.Command, " "), human.Signal(d.Signal))
	for i, l := range d.Last {
		if i == most {
			return fmt.Sprintf("%s, and %d more threads", s, len(d.Last)-most)
		}
		where := "in"
		if l.Returned {
			where = "after"
		}
		if l.Operator.Operator != "" {
			where = fmt.Sprintf("in operator %s (%s) %s", l.Operator.Operator, l.Phase, where)
		}
		s += fmt.Sprintf("%s thread %d %s call %d %s", map[bool]string{true: ":", false: ","}[i == 0], l.TID, where, l.Call, l.Func)
	}
	return s
}

// died lists the processes that crashed, with each thread's last call.
func (b *blamer) died() error {
	procs, threads := b.r.Processes(), b.r.Threads()
	if !slices.ContainsFunc(procs, func(p format.Process) bool { return p.Crashed() }) {
		return nil
	}
	last := make([]LastCall, len(threads))
	for c, err := range b.r.Calls(&format.Filter{NoArgs: true, NoData: true}) {
		if err != nil {
			return err
		}
		if f := b.m.Func(api.ID(c.Func)); int(c.Thread) < len(last) && (f == nil || f.Operator == api.NoOperatorMark) {
			last[c.Thread] = LastCall{TID: threads[c.Thread].TID, Call: c.Index, Func: b.r.Schema().FuncName(c.Func), Returned: c.Flags&format.Unfinished == 0}
		}
	}
	operators, err := b.openOperators()
	if err != nil {
		return err
	}
	for i := range operators {
		last[i].Operator = operators[i]
	}
	for i := range procs {
		p := &procs[i]
		if !p.Crashed() {
			continue
		}
		d := Died{PID: p.PID, Command: p.Argv, Signal: p.Signal, EndNS: p.End}
		for k, l := range last {
			if int(threads[k].Process) == i && l.Func != "" {
				d.Last = append(d.Last, l)
			}
		}
		slices.SortStableFunc(d.Last, func(a, b LastCall) int {
			if a.Returned != b.Returned {
				return map[bool]int{false: -1, true: 1}[a.Returned]
			}
			return cmp.Compare(b.Call, a.Call)
		})
		b.rep.Died = append(b.rep.Died, d)
	}
	slices.SortStableFunc(b.rep.Died, func(x, y Died) int { // the one that died first may have ended the others
		return cmp.Compare(x.EndNS, y.EndNS)
	})
	return nil
}

// openOperators returns for each thread the operator in which its calls end. It returns nil if the trace has no operators.
func (b *blamer) openOperators() ([]Operator, error) {
	s, err := b.eachMarked(func(*timeline.Event) {})
	if s == nil || err != nil {
		return nil, err
	}
	out := make([]Operator, len(b.r.Threads()))
	for i, p := range s.OpenOperators(len(out)) {
		if p != nil {
			out[i] = operatorOf(p.Name, p.Phase)
		}
	}
	return out, nil
}

// eachMarked reports the calls of a trace with operators, and returns the State at its end. It returns nil and reports none if the trace has no operators.
func (b *blamer) eachMarked(see func(*timeline.Event)) (*timeline.State, error) {
	if marked, err := timeline.Has(b.r, b.m, func(f *api.Func) bool { return f.Operator != api.NoOperatorMark }); !marked || err != nil {
		return nil, err
	}
	s := timeline.NewState(b.m).Read(b.r)
	for c, err := range b.r.CallsByStart(nil) {
		if err != nil {
			return nil, err
		}
		see(s.Apply(b.r.ProcessOf(c.Thread), c))
	}
	return s, nil
}

// behind finds the ranks that did not call a collective that others called, if a wait failed: it may wait for them.
func (b *blamer) behind() (err error) {
	if b.failure != nil && (b.failure.Flags&format.Unfinished != 0 || b.waitFailed()) {
		b.rep.Behind, err = ranks.FindBehind(b.r, b.m)
	}
	return err
}
