package scene

import (
	"fmt"
	"path/filepath"
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
		pid := p.PID
		if pid <= 0 || taken[pid] {
			pid = noPID + 1 + i
		}
		taken[pid] = true
		s.pids, s.names = append(s.pids, pid), append(s.names, strings.ToValidUTF8(filepath.Base(p.Program()), "\uFFFD"))
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

// DeviceName returns a device name such as "npu:0".
func (s *Scene) DeviceName(device int) string { return timeline.DeviceName(s.W.Model, device) }
