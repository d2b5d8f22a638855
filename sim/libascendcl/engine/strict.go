//go:build cgo

package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/acltrace/acltrace/internal/private"
	sim "github.com/acltrace/acltrace/sim/acl"
	"github.com/acltrace/acltrace/sim/strict"
	"golang.org/x/sys/unix"
)

// strictExit is the exit code of a program that strict mode ends.
const strictExit = 66

// strictReport receives the findings.
var strictReport struct {
	mu     sync.Mutex
	to     io.Writer
	colour bool
	abort  bool
}

// strictFromEnv reads ACLSIM_STRICT: 1 reports findings, abort ends the program at the first one.
func strictFromEnv() *sim.Strict {
	r := &strictReport
	switch v := getenv("ACLSIM_STRICT"); v {
	case "", "0":
		return nil
	case "1":
	case "abort":
		r.abort = true
	default:
		warn("ignore ACLSIM_STRICT=%s: want 1 or abort", v)
		return nil
	}
	r.to = os.Stderr
	if _, err := unix.IoctlGetTermios(2, unix.TCGETS); err == nil {
		r.colour = getenv("NO_COLOR") == ""
	}
	if path := getenv("ACLSIM_STRICT_LOG"); path != "" {
		var f *os.File
		err := private.Links(path)
		if err == nil {
			f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		}
		if err != nil {
			warn("ignore ACLSIM_STRICT_LOG: %v; findings go to stderr", err)
		} else {
			r.to, r.colour = f, false
		}
	}
	return &sim.Strict{Report: reportFinding, Unchecked: reportUnchecked}
}

func reportFinding(f *strict.Finding) {
	r := &strictReport
	r.mu.Lock()
	defer r.mu.Unlock()
	text := f.Text(os.Getpid(), r.colour)
	if r.abort {
		text += fmt.Sprintf("==%d== aclsim: end the program with code %d (ACLSIM_STRICT=abort)\n", os.Getpid(), strictExit)
	}
	_, _ = io.WriteString(r.to, text)
	if r.abort {
		os.Exit(strictExit)
	}
}

func reportUnchecked(accesses string) {
	r := &strictReport
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.to, "==%d== aclsim: not checked: %s\n", os.Getpid(), accesses)
}

// endStrict checks for leaks at process exit, and prints the summary.
func endStrict() {
	findings := simulator.EndStrict()
	r := &strictReport
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = io.WriteString(r.to, strict.Summary(findings, os.Getpid()))
}
