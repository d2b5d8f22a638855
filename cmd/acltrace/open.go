package main

import (
	"cmp"
	"os"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/internal/standing"
	"github.com/acltrace/acltrace/record/detect"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
	"github.com/spf13/pflag"
)

// runtime returns the runtime that --api names, or the one that a program will call.
func runtime(name, program string) (*api.Model, error) {
	m, _, err := runtimeWhy(name, program)
	return m, err
}

// runtimeWhy also returns the reason.
func runtimeWhy(name, program string) (m *api.Model, why string, err error) {
	if name == "auto" {
		m, why = detect.Runtime(runtimes.All, program, os.Environ()) // the machine's runtime if there is no program
		return m, cmp.Or(why, "default; choose with --api"), nil
	}
	if m := runtimes.Named(name); m != nil {
		return m, "chosen with --api", nil
	}
	return nil, "", usage("--api %s: want auto, %s", name, list(" or ", func(m *api.Model) string { return m.Name }))
}

// apiFlag adds --api.
func apiFlag(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "api", "auto", "`NAME`: runtime: auto, "+list(", ", func(m *api.Model) string { return m.Name }))
	explain(f, "api", "The runtime that the program calls: "+list(" or ", func(m *api.Model) string { return m.Name + " (" + m.Title + ")" })+
		". auto examines the program and the machine.")
}

// list joins a text for each runtime with commas and a last word.
func list(last string, text func(*api.Model) string) string {
	var texts []string
	for _, m := range runtimes.All {
		texts = append(texts, text(m))
	}
	return join(texts, last)
}

// join joins at least one text with commas and a last word.
func join(texts []string, last string) string {
	n := len(texts) - 1
	if n == 0 {
		return texts[0]
	}
	return strings.Join(texts[:n], ", ") + last + texts[n]
}

// open opens a trace and finds its runtime's model.
func open(path string) (*format.Reader, *api.Model, error) { return timeline.OpenReader(path) }

// close closes a trace and prints the losses.
func (a *app) close(r *format.Reader) error {
	a.complete(r.Path(), r.Completeness())
	if dir := session.Killed(r); dir != "" {
		report.Printf(a.err, "acltrace: %s has the calls that its recorder had not written yet: acltrace recover %s -o FILE\n", dir, shell.Quote(r.Path()))
	}
	return r.Close()
}

// inProgress asks the recorder of a trace for the calls in progress. It responds only while its program runs.
func inProgress(uuid string, complete bool) []standing.Call {
	if complete {
		return nil
	}
	if dir := session.Writing(uuid); dir != "" {
		if st, err := session.Ask(dir, &session.Request{Do: session.ActStatus}); err == nil {
			return st.Standing
		}
	}
	return nil
}

// stands prints the calls in progress if the trace is being recorded: the file does not have them yet.
func (a *app) stands(r *format.Reader) {
	if list := inProgress(r.Meta().UUID, r.Complete()); len(list) > 0 {
		report.Printf(a.err, "acltrace: %s is being recorded; calls in progress:\n", r.Path())
		report.StandingText(a.err, "  ", list)
	}
}

// complete prints a trace's losses and their replacement in the output, so that nobody takes the output for complete.
func (a *app) complete(path string, c *format.Completeness) {
	said := report.Completeness(c)
	if said == "" {
		return
	}
	if len(c.Lost) > 0 && a.instead != "" {
		said += ": " + a.instead
	}
	if c.Damaged > 0 || c.Cut != "" && !c.Recording {
		said += "; acltrace fsck lists the damage"
	}
	a.lacking = a.lacking || !c.Whole()
	report.Printf(a.err, "acltrace: %s: %s\n", path, said)
}

// shows sets the replacement for lost calls and reports unfinished calls, which are not a loss.
func (a *app) shows(r *format.Reader, lost, unfinished string) error {
	a.instead = lost
	c, err := r.Counts()
	if err != nil {
		return err
	}
	cut := min(r.Meta().Coverage.Cut, c.Unfinished)
	if n := c.Unfinished - cut; n > 0 {
		report.Printf(a.err, "acltrace: %s in %s never returned: %s\n", human.Plural(n, "call"), r.Path(), unfinished)
	}
	if cut > 0 {
		report.Printf(a.err, "acltrace: %s in progress when the recording of %s ended: %s\n", human.Plural(cut, "call"), r.Path(), unfinished)
	}
	return nil
}

// How an output shows unfinished calls.
const (
	untilEnd = "shown until the end of the trace"
	untimed  = "counted, but not in sums of times"
)
