package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

type InfoProcess struct {
	PID      int               `json:"pid"`                   // process id
	Parent   int               `json:"parent"`                // process id of its parent, 0 if not known
	Forked   bool              `json:"forked,omitempty"`      // its parent had called the runtime before it forked this process, whose calls fail
	Rank     int               `json:"rank"`                  // rank in its job, 0 if it has none
	Env      map[string]string `json:"environment,omitempty"` // recorded variables that differ from those of the trace, such as RANK
	Host     string            `json:"host,omitempty"`        // host name, if it differs from the trace's
	Command  []string          `json:"command"`               // command line, or only the file if the command line is not known
	StartNS  int64             `json:"start_ns"`              // start of its first call, since 1970 UTC
	EndNS    int64             `json:"end_ns"`                // when its end was noticed, since 1970 UTC; 0 if not known
	ExitCode *int              `json:"exit_code"`             // nil if a signal killed the process, or if its code is not known
	Signal   *int              `json:"signal"`                // signal that killed the process, 0 if its number is not known; nil otherwise
	start    int64
	end      int64
	role     string
}

// mostProcesses limits the processes in the text form.
const mostProcesses = 20

// newInfoProcess describes a process. known has the process ids of the trace.
func newInfoProcess(p *format.Process, m *format.Meta, known map[int]bool) InfoProcess {
	wall := m.StartWall
	in := InfoProcess{PID: p.PID, Parent: p.PPID, Forked: p.ForkedFrom != 0, Rank: p.Rank, Env: p.Env, Host: p.Host, Command: p.Argv, StartNS: wall + p.Start, start: p.Start, end: p.End}
	switch {
	case p.Ranked(m):
		in.role = fmt.Sprintf(", rank %d,", p.Rank)
	case in.Forked:
		in.role = fmt.Sprintf(", forked from %d,", p.ForkedFrom)
	case known[p.PPID]:
		in.role = fmt.Sprintf(", started by %d,", p.PPID)
	}
	if len(in.Command) == 0 && p.Exe != "" {
		in.Command = []string{p.Exe}
	}
	switch {
	case p.End == 0:
		return in
	case p.Killed:
		in.Signal = &p.Signal
	case !p.ExitUnknown:
		in.ExitCode = &p.ExitCode
	}
	in.EndNS = wall + p.End
	return in
}

// EndedBy says which signal ended a program: "killed by SIGSEGV", but "ended by SIGINT".
func EndedBy(signal int) string {
	if format.AsksToEnd(signal) {
		return "ended by " + human.Signal(signal)
	}
	return "killed by " + human.Signal(signal)
}

// how describes the process's end, "" if not known.
func (p *InfoProcess) how() string {
	switch {
	case p.Signal != nil:
		return EndedBy(*p.Signal)
	case p.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *p.ExitCode)
	case p.end != 0:
		return "exit code not known"
	}
	return ""
}

// processes returns a line for each process, killed ones first. A single process has a line only if a signal killed it.
func (in *Info) processes() (lines []string) {
	list := slices.Clone(in.ProcessList)
	if len(list) == 1 && list[0].Signal == nil {
		return nil
	}
	slices.SortStableFunc(list, func(a, b InfoProcess) int {
		switch {
		case a.Signal != nil && b.Signal == nil:
			return -1
		case a.Signal == nil && b.Signal != nil:
			return 1
		}
		return 0
	})
	for i := range list {
		p := &list[i]
		line := fmt.Sprintf("%d%s from %s", p.PID, p.role, human.Moment(p.start))
		if how := p.how(); how != "" {
			line += fmt.Sprintf(" to %s, %s", human.Moment(p.end), how)
		}
		if len(p.Command) > 0 {
			line += ": " + short(strings.Join(p.Command, " "), 80)
		}
		lines = append(lines, line)
	}
	return lines
}

// short cuts text to n characters.
func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
