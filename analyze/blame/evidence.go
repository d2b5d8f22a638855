package blame

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// evidence identifies the failed task. It comes from the runtime or from the user.
type evidence struct {
	task   *format.TaskID
	source Source // of task
	kernel string
	addrs  []uint64
}

var hexNumber = regexp.MustCompile(`0x[0-9a-fA-F]{6,16}\b`)

// parseReport reads the runtime's failure report: the task ids given to a callback for failed tasks, and its
// messages.
func (b *blamer) parseReport() error {
	if b.o.Addr != 0 {
		b.evidence.addrs = append(b.evidence.addrs, b.o.Addr)
	}
	if b.o.Task != nil {
		b.rep.Hints = append(b.rep.Hints, Hint{User, b.o.Task, ""})
	}
	if b.failure == nil {
		return nil
	}
	faults := b.m.Faults
	ids := []string{faults.Stream, faults.Task}
	want := map[uint16]bool{}
	var funcs []uint16
	for i := range b.m.Funcs {
		if f := &b.m.Funcs[i]; isMessage(f) || f.Name == ids[0] || f.Name == ids[1] {
			if in := b.r.Schema().FuncByName(f.Name); in != nil {
				want[in.ID] = true
				funcs = append(funcs, in.ID)
			}
		}
	}
	if len(funcs) == 0 {
		return nil
	}
	var stream, task *uint32
	for c, err := range b.r.Calls(&format.Filter{Funcs: funcs, NoArgs: true}) {
		if err != nil {
			return err
		}
		f := b.m.Func(api.ID(c.Func))
		if f == nil || b.r.ProcessOf(c.Thread) != b.process {
			continue
		}
		v := uint32(c.Ret)
		switch {
		case f.Name == ids[0] && stream == nil:
			stream = &v
		case f.Name == ids[1] && task == nil:
			task = &v
		case isMessage(f) && c.End >= b.failure.Start && b.rep.Message == "":
			b.parseMessage(c)
		}
	}
	if stream != nil && task != nil && b.evidence.task == nil {
		b.evidence.task = &format.TaskID{Stream: *stream, Task: *task}
		b.evidence.source = Callback
		b.rep.Hints = append(b.rep.Hints, Hint{Callback, b.evidence.task, ""})
	}
	return nil
}

// mentions reports whether a message contains a name as a whole word.
func mentions(message, name string) bool {
	for from := 0; ; {
		i := strings.Index(message[from:], name)
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(message[:i])
		after, _ := utf8.DecodeRuneInString(message[i+len(name):])
		if !wordRune(before) && !wordRune(after) {
			return true
		}
		from = i + 1
	}
}

func wordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// isMessage reports whether a function returns a text that is not a name.
func isMessage(f *api.Func) bool { return f.Ret == api.Text && f.RetVolatile }

// parseMessage reads addresses, kernel and task ids from a message.
func (b *blamer) parseMessage(c *format.Call) {
	text := ""
	for _, d := range c.Data {
		if d.Param == api.RetParam && d.Status == format.Whole && d.Blob == 0 {
			text = string(d.Bytes)
		}
	}
	if text == "" {
		return
	}
	b.rep.Message = text
	for _, h := range hexNumber.FindAllString(text, 16) {
		if v, err := strconv.ParseUint(h[2:], 16, 64); err == nil && !slices.Contains(b.evidence.addrs, v) {
			b.evidence.addrs = append(b.evidence.addrs, v)
		}
	}
	if b.m.Faults.Message == "" {
		return
	}
	re, err := regexp.Compile(b.m.Faults.Message)
	if err != nil {
		return
	}
	found := map[string]string{}
	for _, match := range re.FindAllStringSubmatch(text, -1) {
		for i, name := range re.SubexpNames() {
			if name != "" && match[i] != "" && found[name] == "" {
				found[name] = match[i]
			}
		}
	}
	b.evidence.kernel = found["kernel"]
	stream, err1 := strconv.ParseUint(found["stream"], 10, 32)
	task, err2 := strconv.ParseUint(found["task"], 10, 32)
	flip, _ := strconv.ParseUint(found["flip"], 10, 16)
	hint := Hint{Source: Message, Kernel: b.evidence.kernel}
	if err1 == nil && err2 == nil {
		if task>>16 == 0 {
			task |= flip << 16
		}
		hint.Task = &format.TaskID{Stream: uint32(stream), Task: uint32(task)}
		if b.evidence.task == nil {
			b.evidence.task, b.evidence.source = hint.Task, Message
		}
	}
	if hint.Kernel != "" || hint.Task != nil {
		b.rep.Hints = append(b.rep.Hints, hint)
	}
}
