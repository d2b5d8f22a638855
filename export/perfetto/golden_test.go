package perfetto

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// A trace for Perfetto shows each kind of event, with tasks on tracks or as GPU stages.
func TestEachKindOfEventIsShown(t *testing.T) {
	tl := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		o    *Options
	}{
		{"perfetto", nil},
		{"perfetto --no-args --zstd --step 1", &Options{NoArgs: true, Zstd: true, Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}}},
		{"perfetto --gpu --from 4100ns --to 16us --func …", &Options{GPU: true, Select: &timeline.Selection{From: 4_100, To: 16_000, Funcs: []string{"*Launch*", "*Memcpy*", "*RecordEvent*", "*Execute*"}}}},
	} {
		var b bytes.Buffer
		res, err := Write(&b, tl.Reader, tl.Model, x.o)
		if err != nil {
			t.Fatal(err)
		}
		if res.Bytes != int64(b.Len()) || res.Files != 1 {
			t.Errorf("%s: %d bytes in %d files, want %d", x.name, res.Bytes, res.Files, b.Len())
		}
		d := decoder{t: t, texts: map[string]string{}}
		d.packets(b.Bytes())
		testenv.Golden(t, "rich.txtar", x.name, d.out.String())
	}
}

// A wireField is a field of a message: its name, and the message or the kind of its value. Kinds that begin with @ are ids of interned texts.
type wireField struct{ name, kind string }

// messages are the fields by number, from perfetto/protos/perfetto/trace.
var messages = map[string]map[protowire.Number]wireField{
	"packet": {6: {"clocks", "clocks"}, 8: {"at", "uint"}, 10: {"seq", "uint"}, 11: {"event", "event"}, 12: {"interned", "interned"}, 13: {"flags", "uint"}, 53: {"stage", "stage"},
		58: {"clock", "uint"}, 59: {"defaults", "defaults"}, 60: {"track", "track"}, 128: {"gpus", "gpus"}},
	"clocks":   {1: {"clock", "clock"}, 2: {"primary", "uint"}},
	"clock":    {1: {"id", "uint"}, 2: {"at", "uint"}, 3: {"increment", "uint"}},
	"defaults": {11: {"event", "default"}, 58: {"clock", "uint"}},
	"default":  {11: {"track", "uint"}},
	"event": {3: {"cat", "@category"}, 4: {"arg", "annotation"}, 9: {"type", "uint"}, 10: {"name", "@name"}, 23: {"text", "text"}, 30: {"count", "int"}, 44: {"value", "double"},
		47: {"flow", "fixed"}, 48: {"flow end", "fixed"}, 3000: {"launches", "correlation"}},
	"correlation": {1: {"stage", "uint"}},
	"annotation":  {1: {"", "@arg"}, 2: {"bool", "uint"}, 3: {"uint", "uint"}, 4: {"int", "int"}, 6: {"text", "text"}, 7: {"pointer", "hex"}, 17: {"", "@text"}},
	"interned":    {1: {"category", "entry"}, 2: {"name", "entry"}, 3: {"arg", "entry"}, 29: {"text", "entry"}, 23: {"context", "context"}, 24: {"spec", "spec"}},
	"context":     {1: {"id", "uint"}, 2: {"pid", "uint"}},
	"spec":        {1: {"id", "uint"}, 2: {"name", "text"}, 4: {"category", "uint"}},
	"track": {1: {"uuid", "uint"}, 2: {"name", "text"}, 3: {"process", "process"}, 4: {"thread", "thread"}, 5: {"parent", "uint"}, 8: {"counter", "counter"}, 11: {"ordering", "uint"},
		12: {"rank", "uint"}},
	"process": {1: {"pid", "uint"}, 2: {"arg", "text"}, 6: {"name", "text"}},
	"thread":  {1: {"pid", "uint"}, 2: {"tid", "uint"}, 5: {"name", "text"}},
	"counter": {3: {"unit", "uint"}, 6: {"unit", "text"}},
	"gpus":    {1: {"gpu", "gpu"}},
	"gpu":     {1: {"name", "text"}, 3: {"model", "text"}},
	"stage": {1: {"id", "uint"}, 2: {"duration", "uint"}, 5: {"context", "uint"}, 11: {"gpu", "uint"}, 13: {"queue", "uint"}, 14: {"kind", "uint"}, 20: {"name", "@name"},
		21: {"launch", "launch"}},
	"launch":   {1: {"grid", "grid"}, 3: {"arg", "argument"}},
	"grid":     {1: {"x", "uint"}},
	"argument": {2: {"", "text"}, 3: {"int", "int"}, 4: {"uint", "uint"}, 6: {"", "text"}},
}

// A decoder writes packets as text, one a line, with interned texts in place of their ids.
type decoder struct {
	t     *testing.T
	out   strings.Builder
	seq   uint64
	texts map[string]string // by sequence, kind and id
}

func (d *decoder) packets(file []byte) {
	d.t.Helper()
	each(d.t, file, func(_ protowire.Number, v any) {
		each(d.t, v.([]byte), func(n protowire.Number, v any) {
			each(d.t, unpacked(d.t, n, v.([]byte)), func(n protowire.Number, v any) {
				if n != 1 {
					d.t.Errorf("field %d in a trace", n)
				}
				d.learn(v.([]byte))
				d.message("packet", v.([]byte))
				d.out.WriteByte('\n')
			})
		})
	})
}

// unpacked decompresses a packet that has others.
func unpacked(t *testing.T, n protowire.Number, b []byte) []byte {
	t.Helper()
	var r io.Reader
	var err error
	switch n {
	case 50:
		r, err = zlib.NewReader(bytes.NewReader(b))
	case 133:
		r, err = zstd.NewReader(bytes.NewReader(b))
	default:
		t.Fatalf("field %d instead of compressed packets", n)
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// learn notes the texts that a packet interns.
func (d *decoder) learn(packet []byte) {
	each(d.t, packet, func(n protowire.Number, v any) {
		if n == 10 {
			d.seq = v.(uint64)
		}
	})
	each(d.t, packet, func(n protowire.Number, v any) {
		if n != 12 {
			return
		}
		each(d.t, v.([]byte), func(n protowire.Number, v any) {
			if f := messages["interned"][n]; f.kind == "entry" {
				id, text := uint64(0), ""
				each(d.t, v.([]byte), func(n protowire.Number, v any) {
					if n == 1 {
						id = v.(uint64)
					} else {
						text = string(v.([]byte))
					}
				})
				d.texts[fmt.Sprint(d.seq, f.name, id)] = text
			}
		})
	})
}

func (d *decoder) message(kind string, b []byte) {
	first := true
	each(d.t, b, func(n protowire.Number, v any) {
		f, known := messages[kind][n]
		if !known {
			d.t.Errorf("field %d in %s", n, kind)
		}
		if !first {
			d.out.WriteByte(' ')
		}
		first = false
		if f.name != "" {
			d.out.WriteString(f.name)
			d.out.WriteByte(':')
		}
		d.value(f.kind, v)
	})
}

func (d *decoder) value(kind string, v any) {
	switch {
	case kind == "text":
		fmt.Fprintf(&d.out, "%q", v)
	case kind == "uint", kind == "fixed":
		fmt.Fprint(&d.out, v)
	case kind == "int":
		fmt.Fprint(&d.out, int64(v.(uint64)))
	case kind == "hex":
		fmt.Fprintf(&d.out, "%#x", v)
	case kind == "double":
		fmt.Fprint(&d.out, math.Float64frombits(v.(uint64)))
	case kind == "entry": // its text is shown where it is used
		each(d.t, v.([]byte), func(n protowire.Number, v any) {
			if n == 1 {
				fmt.Fprint(&d.out, v)
			}
		})
	case kind[0] == '@':
		text, known := d.texts[fmt.Sprint(d.seq, kind[1:], v)]
		if !known {
			d.t.Errorf("%s %v of sequence %d has no text", kind[1:], v, d.seq)
		}
		d.out.WriteString(strconv.Quote(text))
	default:
		d.out.WriteByte('{')
		d.message(kind, v.([]byte))
		d.out.WriteByte('}')
	}
}

// each calls visit with the number and value of each field: a uint64 or bytes.
func each(t *testing.T, b []byte, visit func(n protowire.Number, v any)) {
	t.Helper()
	for len(b) > 0 {
		n, kind, tag := protowire.ConsumeTag(b)
		size := protowire.ConsumeFieldValue(n, kind, b[max(tag, 0):])
		if tag < 0 || size < 0 {
			t.Fatalf("no field: %x", b[:min(len(b), 20)])
		}
		switch field := b[tag : tag+size]; kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(field)
			visit(n, v)
		case protowire.Fixed64Type:
			v, _ := protowire.ConsumeFixed64(field)
			visit(n, v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(field)
			visit(n, v)
		default:
			t.Fatalf("field %d has type %d", n, kind)
		}
		b = b[tag+size:]
	}
}
