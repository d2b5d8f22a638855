package host

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/procstat"
)

const (
	maxAsleep  = 1024     // threads of a process that are examined
	stackBytes = 64 << 10 // of a stack that are examined, from its innermost frame
)

// Asleep are threads that sleep, with the number of times that they have been scheduled away. A thread with the same number later has slept
// throughout.
type Asleep struct{ threads []asleep }

type asleep struct {
	format.Asleep
	switches string
}

// NewAsleep lists the threads of processes that sleep on a stack with addresses of a runtime library, or whose stacks can't be read.
func NewAsleep(m *api.Model, pids []int) *Asleep {
	a := &Asleep{}
	for _, pid := range pids {
		b, _ := procstat.Text(pid, "maps")
		code := slices.DeleteFunc(slices.Collect(procstat.Mapped(b)), func(f procstat.MappedFile) bool { return !f.Code || !m.Library(filepath.Base(f.Path)) })
		if len(code) == 0 {
			continue
		}
		tasks, _ := filepath.Glob(ProcFile(pid, "task/*"))
		for _, task := range tasks[:min(len(tasks), maxAsleep)] {
			tid, _ := strconv.Atoi(filepath.Base(task))
			switches, sleeps := scheduled(task)
			if !sleeps {
				continue
			}
			stack, known := innermost(task, pid)
			library := ""
			for s := stack; len(s) >= 8 && library == ""; s = s[8:] {
				pc := binary.LittleEndian.Uint64(s)
				if i := slices.IndexFunc(code, func(f procstat.MappedFile) bool { return pc >= f.From && pc < f.To }); i >= 0 {
					library = filepath.Base(code[i].Path)
				}
			}
			if library != "" || !known && tid == pid {
				a.threads = append(a.threads, asleep{format.Asleep{PID: pid, TID: tid, Name: ThreadName(pid, tid), Library: library}, switches})
			}
		}
	}
	return a
}

// Still returns the threads that have slept since NewAsleep.
func (a *Asleep) Still() (list []format.Asleep) {
	for i := range a.threads {
		t := &a.threads[i]
		if switches, sleeps := scheduled(ProcFile(t.PID, "task/"+strconv.Itoa(t.TID))); sleeps && switches == t.switches {
			list = append(list, t.Asleep)
		}
	}
	return list
}

// scheduled returns the counts of a thread's context switches as text, and whether it sleeps.
func scheduled(task string) (switches string, sleeps bool) {
	b, err := os.ReadFile(filepath.Join(task, "status"))
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(b)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "State":
			state := strings.TrimSpace(value)
			sleeps = strings.HasPrefix(state, "S") || strings.HasPrefix(state, "D")
		case "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches":
			switches += value
		}
	}
	return switches, sleeps
}

// innermost returns the end of a sleeping thread's stack that was used last, false if it can't be read.
func innermost(task string, pid int) (stack []byte, known bool) {
	b, err := os.ReadFile(filepath.Join(task, "syscall"))
	f := bytes.Fields(b)
	if err != nil || len(f) < 3 {
		return nil, false
	}
	sp, err := strconv.ParseInt(strings.TrimPrefix(string(f[len(f)-2]), "0x"), 16, 64)
	if err != nil || sp <= 0 {
		return nil, false
	}
	mem, err := os.Open(ProcFile(pid, "mem"))
	if err != nil {
		return nil, false
	}
	defer mem.Close()
	stack = make([]byte, stackBytes)
	n, _ := mem.ReadAt(stack, sp&^7)
	return stack[:n], n > 0
}
