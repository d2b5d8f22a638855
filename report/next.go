package report

import (
	"io"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/shell"
)

// acltrace returns a command of acltrace for a shell.
func acltrace(words ...string) string {
	return shell.Command(append([]string{"acltrace"}, words...)...)
}

// FirstLook returns the command for the first look at a recording: blame if calls failed, or if the program ended by an error. A program that ends well
// has outlived failed allocations, of which there are noMemory.
func FirstLook(failed, noMemory uint64, exitCode int) string {
	if failed > noMemory || failed > 0 && exitCode != 0 || InError(exitCode) {
		return "blame"
	}
	return "stats"
}

// InError reports whether a program with an exit code ended by an error. The code is 128 and the signal if one killed it, as in a shell.
func InError(exitCode int) bool { return exitCode != 0 && !format.AsksToEnd(exitCode-128) }

// NextText writes the command to type next, after an empty line.
func NextText(w io.Writer, words ...string) { nextText(w, shell.Command(words...)) }

// nextText writes the commands to type next, after an empty line.
func nextText(w io.Writer, commands ...string) {
	head := "next:"
	Printf(w, "\n")
	for _, c := range commands {
		Printf(w, "%-5s %s\n", head, c)
		head = ""
	}
}

// RecoverCommand returns the words of the command that repairs a damaged trace.
func RecoverCommand(path string) []string {
	return []string{"acltrace", "recover", path, "-o", strings.TrimSuffix(path, ".aclt") + ".recovered.aclt"}
}

// NextMessage writes the command to type next after a summary on standard error.
func NextMessage(w io.Writer, words ...string) {
	Printf(w, "acltrace: next: %s\n", shell.Command(words...))
}
