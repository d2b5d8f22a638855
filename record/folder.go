package record

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/format"
)

// outputName writes a trace's name: %h is the host, %r the rank of the program in its job (0 where nothing tells it),
// %p the id of the process, %% a percent sign. Other letters stay as they are.
func outputName(name string, env []string, pid int) string {
	if !strings.Contains(name, "%") {
		return name
	}
	host, _ := os.Hostname()
	return strings.NewReplacer("%%", "%", "%h", host, "%r", rank(env), "%p", strconv.Itoa(pid)).Replace(name)
}

// rank is what the usual launchers call the program's number in its job.
func rank(env []string) string {
	for _, name := range format.RankVariables {
		for _, v := range env {
			if n, ok := strings.CutPrefix(v, name+"="); ok {
				if _, err := strconv.ParseUint(n, 10, 32); err == nil {
					return n
				}
			}
		}
	}
	return "0"
}

// named moves the trace to its name once the program's id is known.
func (r *recorder) named(pid int) error {
	name := outputName(r.pattern, r.env, pid)
	if name == r.o.Output {
		return nil
	}
	if r.flight == nil {
		if err := r.out.rename(name, r.o.Overwrite); err != nil {
			return fmt.Errorf("name the trace: %w", err)
		}
	}
	r.o.Output = name
	return nil
}
