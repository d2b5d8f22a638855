package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/human"
	"golang.org/x/term"
)

// A progressLine is a line on the terminal that long work updates. All other output on the terminal wipes it first.
type progressLine struct {
	to    *os.File // nil if stderr is not a terminal
	mu    sync.Mutex
	shown bool
	over  bool // a signal is ending the program
}

// progressEvery is the update interval, and the shortest duration that shows a line.
var progressEvery = 100 * time.Millisecond

// progressShown is called after each update, for tests.
var progressShown = func() {}

// wipe is the control sequence that clears the current line.
const wipe = "\r\x1b[K"

func (p *progressLine) show(text string) {
	p.mu.Lock()
	if !p.over {
		p.shown = true
		fmt.Fprint(p.to, wipe, text)
	}
	p.mu.Unlock()
	progressShown()
}

// wipe clears the line, if shown.
func (p *progressLine) wipe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.to, wipe)
		p.shown = false
	}
}

// end clears the line for good.
func (p *progressLine) end() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.wipe()
}

// above returns w for output on the same terminal, which wipes the line first.
func (p *progressLine) above(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); p.to == nil || !ok || !term.IsTerminal(int(f.Fd())) {
		return w
	}
	return wiping{p, w}
}

type wiping struct {
	line *progressLine
	to   io.Writer
}

func (w wiping) Write(b []byte) (int, error) {
	w.line.wipe()
	return w.to.Write(b)
}

// progress returns a function that updates the progress line. It is nil if stderr is not a terminal.
func (a *app) progress(what string) func(done, total int) {
	if a.line.to == nil {
		return nil
	}
	last := time.Now() // short work shows no line
	return func(done, total int) {
		switch {
		case done >= total:
			a.line.wipe()
		case time.Since(last) >= progressEvery:
			last = time.Now()
			a.line.show(fmt.Sprintf("%s of %s %s", human.Count(done), human.Count(total), what))
		}
	}
}

// busy shows on the progress line what goes on and for how long. While the work counts its parts with count, it shows these instead. The work
// must print nothing until end is called.
func (a *app) busy(what string) (count func(parts string, done, total int), end func()) {
	if a.line.to == nil {
		return nil, func() {}
	}
	stop, stopped, begun := make(chan struct{}), make(chan struct{}), time.Now()
	var counted atomic.Pointer[string] // nil between the parts that are counted
	go func() {
		defer close(stopped)
		tick := time.NewTicker(max(progressEvery, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if s := counted.Load(); s != nil {
					a.line.show(*s)
				} else {
					a.line.show(fmt.Sprintf("%s: %.1f s", what, time.Since(begun).Seconds()))
				}
			case <-stop:
				return
			}
		}
	}()
	count = func(parts string, done, total int) {
		if s := fmt.Sprintf("%s: %s of %s %s", what, human.Count(done), human.Count(total), parts); done < total {
			counted.Store(&s)
		} else {
			counted.Store(nil)
		}
	}
	return count, func() {
		close(stop)
		<-stopped
		a.line.wipe()
	}
}

// bytes is progress for byte counts.
func (a *app) bytes() func(done, total int64) {
	show := a.progress("MiB")
	if show == nil {
		return nil
	}
	return func(done, total int64) { show(int(done>>20), int(total>>20)) }
}

// interruptible returns a context that ends with the first SIGINT or SIGTERM.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// endOnSignals wipes the progress line and removes partial files when a signal ends the program, until stop is called.
func (a *app) endOnSignals() (stop func()) { return atomicfile.EndOnSignals(a.line.end) }
