package device

import (
	"os"
	"sync"
	"time"

	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// Alarms are the idle system timers. A goroutine reads a timer like a file, so its sleep blocks no operating system
// thread.
var Alarms alarmList

type alarmList struct {
	mu   sync.Mutex
	free []*alarm
	dead []*alarm // never closed: the program closed them and may have reused their numbers
}

type alarm struct {
	fd   int
	file *os.File
}

func (l *alarmList) Sleep(d time.Duration) {
	a := l.Take()
	if a == nil {
		time.Sleep(d)
		return
	}
	var ended [8]byte
	err := unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	if err == nil {
		_, err = a.file.Read(ended[:])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.dead = append(l.dead, a)
		return
	}
	l.free = append(l.free, a)
}

func (l *alarmList) Take() *alarm {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		a := l.free[n-1]
		l.free = l.free[:n-1]
		return a
	}
	if len(l.dead) > 0 {
		return nil // the program closes descriptors that it did not open
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil
	}
	space.KeepDescriptor(fd, true)
	return &alarm{fd, os.NewFile(uintptr(fd), "timer")}
}
