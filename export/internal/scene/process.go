package scene

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/timeline"
)

func (s *Scene) process(p uint32) int {
	if int(p) >= len(s.Processes) {
		return 0
	}
	return int(p)
}

// thread returns a thread's index in Threads.
func (s *Scene) thread(t uint32) int { return min(int(t), len(s.Threads)-1) }

// noPID is the greatest process id on Linux.
const noPID = 1 << 22

// identify chooses a distinct number and a name for each process. Ranks in containers or on several hosts may share both.
func (s *Scene) identify() {
	taken, times := map[int]bool{}, map[string]int{}
	ranks := map[int]bool{}
	for i := range s.Processes {
		p := &s.Processes[i]
		pid, name := p.PID, "program"
		if pid <= 0 || taken[pid] {
			pid = noPID + 1 + i
		}
		taken[pid] = true
		switch {
		case p.Exe != "":
			name = filepath.Base(p.Exe)
		case len(p.Argv) > 0:
			name = filepath.Base(p.Argv[0])
		}
		s.pids, s.names = append(s.pids, pid), append(s.names, strings.ToValidUTF8(name, "\uFFFD"))
		times[s.names[i]]++
		ranks[p.Rank] = true
	}
	if len(ranks) < len(s.Processes) {
		return
	}
	for i, name := range s.names {
		if times[name] > 1 {
			s.names[i] = fmt.Sprintf("%s:%d", name, s.Processes[i].Rank)
		}
	}
}

// PID returns a number that no other process has: the process id, or a made-up number if that is unknown or taken.
func (s *Scene) PID(i int) int { return s.pids[i] }

// ProcessName returns the program's base name, with the rank if several processes share it.
func (s *Scene) ProcessName(i int) string { return s.names[i] }

// DeviceName returns a device name such as "npu:0", without a number if that is unknown.
func (s *Scene) DeviceName(device int) string {
	name := cmp.Or(s.W.Model.Accelerator.Kind, "device")
	if device != timeline.NoDevice {
		name += ":" + strconv.Itoa(device)
	}
	return name
}
