package blame

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// told is what the runtime, or the user, has told of the task that failed.
type told struct {
	task   *format.TaskID
	how    string // where the ids are from
	kernel string
	addrs  []uint64
}

var hexNumber = regexp.MustCompile(`0x[0-9a-fA-F]{6,16}\b`)

// hear reads what the runtime told the program of the failure: its ids to a callback for failed tasks, and its messages.
func (b *blamer) hear() error {
	if b.o.Addr != 0 {
		b.told.addrs = append(b.told.addrs, b.o.Addr)
	}
	if b.o.Task != nil {
		b.told.how = "its task is the one that was asked for"
		b.rep.Told = append(b.rep.Told, fmt.Sprintf("task %d of stream %d, by the user", b.o.Task.Task, b.o.Task.Stream))
	}
	if b.failure == nil {
		return nil
	}
	faults := b.m.Faults
	ids := []string{faults.Stream, faults.Task}
	want := map[uint16]bool{}
	var funcs []uint16
	for i := range b.m.Funcs {
		if f := &b.m.Funcs[i]; tells(f) || f.Name == ids[0] || f.Name == ids[1] {
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
		if f == nil || process(b.r, c) != b.process {
			continue
		}
		v := uint32(c.Ret)
		switch {
		case f.Name == ids[0] && stream == nil:
			stream = &v
		case f.Name == ids[1] && task == nil:
			task = &v
		case tells(f) && c.End >= b.failure.Start && b.rep.Message == "":
			b.read(c)
		}
	}
	if stream != nil && task != nil && b.told.task == nil {
		b.told.task = &format.TaskID{Stream: *stream, Task: *task}
		b.told.how = "the runtime has told the program's callback its task"
		b.rep.Told = append(b.rep.Told, fmt.Sprintf("task %d of stream %d, to the program's callback for failed tasks", *task, *stream))
	}
	return nil
}

// mentions reports whether a message has a name as a word of its own.
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

// tells reports whether a function answers with a text that is no name of something.
func tells(f *api.Func) bool { return f.Ret == api.Text && f.RetVolatile }

// read takes in a message.
func (b *blamer) read(c *format.Call) {
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
		if v, err := strconv.ParseUint(h[2:], 16, 64); err == nil && !slices.Contains(b.told.addrs, v) {
			b.told.addrs = append(b.told.addrs, v)
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
	b.told.kernel = found["kernel"]
	stream, err1 := strconv.ParseUint(found["stream"], 10, 32)
	task, err2 := strconv.ParseUint(found["task"], 10, 32)
	flip, _ := strconv.ParseUint(found["flip"], 10, 16)
	var parts []string
	if b.told.kernel != "" {
		parts = append(parts, "kernel "+b.told.kernel)
	}
	if err1 == nil && err2 == nil {
		if task>>16 == 0 {
			task |= flip << 16
		}
		parts = append(parts, fmt.Sprintf("task %d of stream %d", task, stream))
		if b.told.task == nil {
			b.told.task = &format.TaskID{Stream: uint32(stream), Task: uint32(task)}
			b.told.how = "the runtime's message names its task"
		}
	}
	if len(parts) > 0 {
		b.rep.Told = append(b.rep.Told, strings.Join(parts, ", ")+", in the runtime's message")
	}
}
