package report

import (
	"io"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay/lab"
)

// ExtractText prints which launch the extract in a file has, and what can be learned from it.
func ExtractText(w io.Writer, path string, e *lab.Extracted, o *TextOptions) error {
	return Wrapped(w, o, 2, func(w io.Writer) {
		Printf(w, "%s: %s; call %d is the launch of %s", path, human.Plural(e.Calls, "call"), e.Launch, human.Kernel(e.Kernel))
		if !e.Alone {
			Printf(w, "; no wait for the launch alone can be added, and only whole repetitions can be timed")
		}
		switch {
		case e.Failed:
			Printf(w, "; the program's wait for it failed, and the launch is guilty if it fails in the replay as in the trace\n")
		case e.Results > 0:
			Printf(w, "; its outputs are in %s\n", human.Plural(e.Results, "result"))
		default:
			Printf(w, "; its results can't be compared: the memory was overwritten before the program read it\n")
		}
	})
}
