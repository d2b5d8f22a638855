package record

import (
	"sync"

	"github.com/acltrace/acltrace/format"
)

// unseen lists processes and libraries whose calls are missing. Any goroutine may add to it.
type unseen struct {
	mu      sync.Mutex
	list    []format.Unhooked
	damaged bool // a program has damaged the session
}

func (u *unseen) add(l format.Unhooked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, l)
}

func (u *unseen) all() []format.Unhooked {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.list
}
