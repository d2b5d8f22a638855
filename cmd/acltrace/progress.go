package main

import (
	"fmt"
	"io"
	"time"

	"github.com/acltrace/acltrace/report"
	"golang.org/x/term"
)

// progress returns a function that keeps one line up to date while something long runs. It shows nothing where stderr
// is no terminal.
func (a *app) progress(what string) func(done, total int) {
	f := a.stderr
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	last := time.Now() // what is done at once needs no line
	return func(done, total int) {
		switch {
		case done >= total:
			a.endProgress()
		case time.Since(last) >= progressEvery:
			last, a.shown = time.Now(), true
			fmt.Fprintf(f, "\r%d of %d %s", done, total, what)
		}
	}
}

// progressEvery is how often the line changes, and how long something takes that has one.
var progressEvery = 100 * time.Millisecond

// endProgress empties the line, if one is shown.
func (a *app) endProgress() {
	if a.shown {
		fmt.Fprint(a.stderr, wipe)
		a.shown = false
	}
}

// text says how wide the terminal is that is written to.
func (a *app) text() *report.TextOptions {
	if f := a.stdout; f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return &report.TextOptions{Width: width}
		}
	}
	return nil
}

// wipe empties the line that the cursor is in.
const wipe = "\r\x1b[K"

// above returns stdout for lines that come while a progress is shown in the same terminal.
func (a *app) above() io.Writer {
	if a.stdout == nil || !term.IsTerminal(int(a.stdout.Fd())) {
		return a.raw
	}
	return wiping{a}
}

type wiping struct{ a *app }

func (w wiping) Write(b []byte) (int, error) {
	fmt.Fprint(w.a.stderr, wipe)
	return w.a.stdout.Write(b)
}

// bytes is progress for what counts bytes.
func (a *app) bytes() func(done, total int64) {
	show := a.progress("MiB")
	if show == nil {
		return nil
	}
	return func(done, total int64) { show(int(done>>20), int(total>>20)) }
}
