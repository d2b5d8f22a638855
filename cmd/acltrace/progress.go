package main

import (
	"fmt"
	"io"
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
	last := time.Now() // what is done at once needs no line
	shown := false
	return func(done, total int) {
		switch {
		case done >= total && shown:
			fmt.Fprint(f, wipe)
		case done < total && time.Since(last) >= 100*time.Millisecond:
			last, shown = time.Now(), true
			fmt.Fprintf(f, "\r%d of %d %s", done, total, what)
		}
	}
}

// wipe empties the line that the cursor is in.
const wipe = "\r\x1b[K"

// above returns stdout for lines that come while a progress is shown in the same terminal.
func (a *app) above() io.Writer {
	if f, ok := a.out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return a.out
	}
	return wiping{a}
}

type wiping struct{ a *app }

func (w wiping) Write(b []byte) (int, error) {
	fmt.Fprint(w.a.err, wipe)
	return w.a.out.Write(b)
}

// bytes is progress for what counts bytes.
func (a *app) bytes() func(done, total int64) {
	show := a.progress("MiB")
	if show == nil {
		return nil
	}
	return func(done, total int64) { show(int(done>>20), int(total>>20)) }
}
