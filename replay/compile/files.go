package compile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
)

// Paths of a trace never reach the runtime. A call that reads a file gets a copy of the recorded content, and a call that writes a file gets
// a path that does not exist. Both are in the replay's folder, the written ones where the player may write.

// fileName returns the path for a file that the call reads.
func (p *callCompiler) fileName(i int) (plan.Operand, error) {
	if name := p.a.Whole(i, 0, format.DirIn); name != nil && name.Len == 0 {
		return p.zero(1), nil // an empty name
	}
	d := p.a.Whole(i, 1, format.DirIn)
	if d == nil {
		p.refuse("the trace lacks the file that its parameter %s names", p.f.Params[i].Name)
		return p.newPath(i)
	}
	path, err := p.ownPath(p.dir, i)
	if err != nil {
		return plan.Operand{}, err
	}
	r, err := p.reader(d)
	if err != nil {
		return plan.Operand{}, err
	}
	if p.f.Keeps != nil {
		b, err := io.ReadAll(r)
		if err != nil {
			return plan.Operand{}, p.inBlob(d, err)
		}
		r = bytes.NewReader(keepMembers(b, p.f.Keeps))
	}
	f, err := atomicfile.Fresh(path) // replaces the file from an earlier replay, if the folder is kept
	if err != nil {
		return plan.Operand{}, err
	}
	h := sha256.New()
	if _, err = io.Copy(io.MultiWriter(f, h), r); err != nil {
		err = p.inBlob(d, err)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return plan.Operand{}, err
	}
	p.Files = append(p.Files, File{filepath.Base(path), hex.EncodeToString(h.Sum(nil))})
	return p.pathOperand(path)
}

// newPath returns a path that does not exist: the call writes the file, or failed to read it.
func (p *callCompiler) newPath(i int) (plan.Operand, error) {
	dir := OwnDir(p.dir)
	if p.o.Relative {
		dir = p.dir
	}
	path, err := p.ownPath(dir, i)
	if err != nil {
		return plan.Operand{}, err
	}
	_ = os.Remove(path) // from an earlier replay, if the folder is kept
	return p.pathOperand(path)
}

// ownPath returns a new path in a replay folder. It ends like the recorded path.
func (p *callCompiler) ownPath(dir string, i int) (string, error) {
	base := "file"
	if d := p.a.Whole(i, 0, format.DirIn); d != nil {
		b, err := p.bytes(d)
		if err != nil {
			return "", err
		}
		base = string(b)
	}
	p.files++
	return filepath.Join(dir, strconv.Itoa(p.files)+"-"+PlainName(base)), nil
}

func (p *compiler) pathOperand(path string) (plan.Operand, error) {
	if p.o.Relative {
		path = filepath.Base(path)
	}
	return p.put(append([]byte(path), 0))
}

// PlainName returns a path's end as a file name with at most 64 letters, digits, dots, dashes and underscores.
func PlainName(path string) string {
	base := filepath.Base(path)
	base = base[max(0, len(base)-64):]
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, base)
}

// keepMembers removes all other members from a JSON object. Text that is not a JSON object becomes equally damaged text.
func keepMembers(text []byte, keep []string) []byte {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return []byte("{")
	}
	for name := range members {
		if !slices.Contains(keep, name) {
			delete(members, name)
		}
	}
	b, err := json.Marshal(members)
	if err != nil {
		return []byte("{")
	}
	return b
}

// OwnDir returns the folder inside a replay's folder that the player may write to. The plan and the player are outside: this process,
// which has no sandbox, starts the player again for repeated runs.
func OwnDir(dir string) string { return filepath.Join(dir, "acltrace-run") }
