package record

import (
	"os"
	"sync"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/record/host"
)

// unseen lists processes and libraries whose calls are missing. Any goroutine may add to it.
type unseen struct {
	mu      sync.Mutex
	list    []format.Unhooked
	damaged bool // a program has damaged the session
}

// add adds a process or file, with the program of a process that still exists.
func (u *unseen) add(l format.Unhooked) {
	if l.Exe == "" && l.PID != 0 {
		l.Exe, _ = os.Readlink(host.ProcFile(l.PID, "exe"))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, l)
}

func (u *unseen) all() []format.Unhooked {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.list
}
