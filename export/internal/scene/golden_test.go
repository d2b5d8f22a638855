package scene_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// drawing lists the events of a scene: on the first slice of a row the row, then slices with their arguments, and points.
type drawing struct {
	*scene.Scene
	*testing.T
	text strings.Builder
	rows int
	kind map[*scene.Counter]bool
	last map[*scene.Counter]int64
	ends map[*scene.Row]int64
}

func (d *drawing) Slice(l *scene.Slice) error {
	r := l.Row
	if r.ID >= d.rows {
		if r.ID != d.rows {
			d.Errorf("row %d is made after row %d", r.ID, d.rows-1)
		}
		d.rows++
		fmt.Fprintf(&d.text, "row %d: kind %d of process %d (%s), thread %d, lane %d, device %d, number %d, %q", r.ID, r.Kind, d.PID(r.Process), d.ProcessName(r.Process), r.Thread, r.Lane, r.Device, r.N, r.Name)
		if r.Moments {
			d.text.WriteString(", moments")
		}
		d.text.WriteString("\n")
	}
	if l.From > l.To || l.Moment && l.From != l.To && r.Kind != scene.Host || (l.Task != nil) != (r.Kind == scene.Measured || r.Kind == scene.Bracketed) {
		d.Errorf("%+v", l)
	}
	if l.Task != nil && !r.Moments {
		if l.From < d.ends[r] {
			d.Errorf("a task at %d begins before the one before it has ended at %d", l.From, d.ends[r])
		}
		d.ends[r] = l.To
	}
	fmt.Fprintf(&d.text, "%d %s %q %d-%d", r.ID, d.Text(l.Category), d.AppendName(nil, l), l.From, l.To)
	if l.Moment {
		d.text.WriteString(" moment")
	}
	switch {
	case l.FlowEnd:
		fmt.Fprintf(&d.text, " ->%d", l.Flow)
	case l.Flow != 0:
		fmt.Fprintf(&d.text, " %d->", l.Flow)
	}
	for _, a := range l.Args {
		fmt.Fprintf(&d.text, " %s", strings.TrimPrefix(d.Text(a.Key), d.W.Model.Name))
		switch a.Kind {
		case scene.Int:
			fmt.Fprintf(&d.text, "=%d", int64(a.Value))
		case scene.Uint:
			fmt.Fprintf(&d.text, "=%du", a.Value)
		case scene.Pointer:
			fmt.Fprintf(&d.text, "=%#x", a.Value)
		case scene.Text:
			fmt.Fprintf(&d.text, "=%q", d.Text(scene.Sym(a.Value)))
		case scene.Handle:
			fmt.Fprintf(&d.text, "=%s", d.AppendHandle(nil, a.Value))
		}
	}
	d.text.WriteString("\n")
	return nil
}

func (d *drawing) Point(c *scene.Counter, at int64, value float64) error {
	if !d.kind[c] {
		d.kind[c] = true
		fmt.Fprintf(&d.text, "counter %d: unit %d, process %d, device %d, %q\n", c.ID, c.Unit, c.Process, c.Device, c.Name)
	} else if at < d.last[c] {
		d.Errorf("%s at %d after %d", c.Name, at, d.last[c])
	}
	d.last[c] = at
	fmt.Fprintf(&d.text, "counter %d at %d: %.4g\n", c.ID, at, value)
	return nil
}

func draw(t *testing.T, tl *timeline.Timeline, o *scene.Options) string {
	t.Helper()
	s, err := scene.New(tl.Reader, tl.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	d := &drawing{Scene: s, T: t, kind: map[*scene.Counter]bool{}, last: map[*scene.Counter]int64{}, ends: map[*scene.Row]int64{}}
	if err := s.Walk(d); err != nil {
		t.Fatal(err)
	}
	n := &s.Drawn
	if events := strings.Count(d.text.String(), "\n") - d.rows - len(d.kind); n.Events() != events {
		t.Errorf("%d events were drawn, %+v are counted", events, *n)
	}
	return fmt.Sprintf("%+v\n%s", *n, d.text.String())
}

// A scene has each kind of event on its row, with its name, its arguments and its arrow. A window or chosen calls leave out others.
func TestEachKindOfEventIsDrawn(t *testing.T) {
	rich := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		tl   *timeline.Timeline
		o    *scene.Options
	}{
		{"rich", rich, nil},
		{"rich from 4us to 16us", rich, &scene.Options{Select: &timeline.Selection{From: 4_000, To: 16_000}}},
		{"rich step 1 without arguments", rich, &scene.Options{NoArgs: true, Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}}},
		{"ranks", testtrace.Ranks(t), nil},
		{"small", testtrace.Small(t), nil},
		{"rows", rows(t), nil},
		{"nothing", testtrace.New(t).Load(), nil},
	} {
		testenv.Golden(t, "scenes.txtar", x.name, draw(t, x.tl, x.o))
	}
}

// failing is a viewer that fails at its nth event.
type failing struct {
	left int
	err  error
}

func (f *failing) Slice(*scene.Slice) error { return f.next() }

func (f *failing) Point(*scene.Counter, int64, float64) error { return f.next() }

func (f *failing) next() error {
	if f.left--; f.left == 0 {
		return f.err
	}
	return nil
}

// An error of the viewer ends the walk, whichever event it refuses.
func TestViewerFails(t *testing.T) {
	tl := testtrace.Rich(t)
	for n := 1; ; n++ {
		s, err := scene.New(tl.Reader, tl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := &failing{left: n, err: errors.New("full")}
		err = s.Walk(v)
		if v.left > 0 {
			if err != nil || n < 100 {
				t.Errorf("%d events: %v", n-1, err)
			}
			return
		}
		if err != v.err || v.left < 0 {
			t.Fatalf("event %d: %v, and %d events after it", n, err, -v.left)
		}
	}
}

// rows is a trace whose tasks overlap more than MaxRows deep, whose calls go on after one that did not return, whose gaps overlap, and whose processes
// can't be told apart by their names or ranks.
func rows(t *testing.T) *timeline.Timeline {
	b := testtrace.New(t)
	at := int64(1000)
	call := func(name string, args []uint64, mods ...testtrace.Mod) {
		b.Call(0, at, at+100, name, args, mods...)
		at += 200
	}
	call("aclrtCreateStream", testtrace.A(1), testtrace.Outs("stream", testtrace.StreamA))
	for range scene.MaxRows + 3 {
		call("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
	}
	call("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	call("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
	call("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Hangs)
	call("aclrtSetDevice", testtrace.A(0))
	for _, from := range []int64{3000, 1500, 1400, 2000} {
		b.Gap(format.Gap{Thread: format.NoThread, From: from, To: from + 1000, Calls: 2})
	}
	b.Process(0, format.Process{Argv: []string{"/bin/job"}})
	b.Process(1, format.Process{PID: 7, Argv: []string{"/usr/bin/job"}})
	b.Call(2, at, at+10, "aclrtSetDevice", testtrace.A(0))
	b.Call(2, at+5, at+20, "aclrtSetDevice", testtrace.A(0))
	b.Call(2, at+20, at+30, "aclrtSetDevice", testtrace.A(0))
	return b.Load()
}
