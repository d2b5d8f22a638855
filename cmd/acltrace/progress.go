package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// progress returns a function that keeps one line up to date while something long runs. It shows nothing where stderr
// is no terminal.
func (a *app) progress(what string) func(done, total int) {
	f, ok := a.err.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	var last time.Time
	return func(done, total int) {
		if done < total && time.Since(last) < 100*time.Millisecond {
			return
		}
		last = time.Now()
		fmt.Fprintf(f, "\r%d of %d %s", done, total, what)
		if done >= total {
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}

// bytes is progress for what counts bytes.
func (a *app) bytes() func(done, total int64) {
	show := a.progress("MiB")
	if show == nil {
		return nil
	}
	return func(done, total int64) { show(int(done>>20), int(total>>20)) }
}
