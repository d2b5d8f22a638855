package report

import (
	"fmt"
	"github.com/acltrace/acltrace/internal/human"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
)

// InfoProcess is a process that called the runtime.
type InfoProcess struct {
	PID     int      `json:"pid"`
	Parent  int      `json:"parent"` // 0 where it is not known
	Rank    int      `json:"rank"`
	Host    string   `json:"host,omitempty"` // where it is not that of the trace
	Command []string `json:"command"`
	StartNS int64    `json:"start_ns"` // of its first call, nanoseconds since 1970 UTC
	// EndNS is when it was found to have ended, 0 where nobody has seen that.
	EndNS int64 `json:"end_ns"`
	// ExitCode is nil for a process that a signal has ended, and where it is not known.
	ExitCode *int `json:"exit_code"`
	// Signal is nil for a process that has ended by itself or whose end nobody has seen, 0 where it is not known.
	Signal *int `json:"signal"`
	start  time.Duration
	end    time.Duration
}

// mostProcesses is how many processes the text form lists.
const mostProcesses = 20

func newInfoProcess(p *format.Process, wall int64) InfoProcess {
	in := InfoProcess{PID: p.PID, Parent: p.PPID, Rank: p.Rank, Host: p.Host, Command: p.Argv, StartNS: wall + p.Start, start: time.Duration(p.Start), end: time.Duration(p.End)}
	if len(in.Command) == 0 && p.Exe != "" {
		in.Command = []string{p.Exe}
	}
	switch {
	case p.End == 0:
		return in
	case p.Killed:
		in.Signal = &p.Signal
	default:
		in.ExitCode = &p.ExitCode
	}
	in.EndNS = wall + p.End
	return in
}

// how says how a process has ended, "" where nobody has seen that.
func (p *InfoProcess) how() string {
	switch {
	case p.Signal != nil:
		return "killed by " + human.Signal(*p.Signal)
	case p.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *p.ExitCode)
	}
	return ""
}

// processes returns a line for each process where there are several, those first that a signal has ended. A process alone has a line if one
// has.
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
		line := fmt.Sprintf("%d from %s", p.PID, human.Duration(int64(p.start)))
		if how := p.how(); how != "" {
			line += fmt.Sprintf(" to %s, %s", human.Duration(int64(p.end)), how)
		}
		if len(p.Command) > 0 {
			line += ": " + short(strings.Join(p.Command, " "), 80)
		}
		lines = append(lines, line)
	}
	return lines
}

// short cuts text to at most n characters.
func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
