// Package html writes a trace as one page to look at with a browser alone. Command export html calls Write.
//
// The page has the program, its findings, a strip of all steps, pictures of the longest, the median and the failed step, tables, memory over time and errors.
// Its data is JSON of at most MaxBytes, whatever the length of the trace: strips and curves keep the highest of neighboring values, and a picture
// that does not fit joins short neighboring slices. The page says so. A browser that opens it makes no request: a content security policy
// allows the page's own script and style alone, and all text of the trace is text.
//
// The figures are the JSON of packages analyze/stats and analyze/diff, the pictures come from export/internal/scene, the sentences from package
// report. The package only reads traces. Its memory does not grow with them.
package html

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/report"
)

const (
	MaxBytes = 1800 << 10 // of the data of a page
	maxRows  = 300        // of a table
)

// A Trace is a trace and its name for commands.
type Trace struct {
	Path   string
	Reader *format.Reader
}

// Options configure Write; nil means the zero value.
type Options struct {
	Steps    []human.Numbers // steps to draw too
	Compare  *Trace          // an earlier run to compare with
	Progress func(done, total int)
}

// Result counts the contents of the page.
type Result struct {
	Calls    uint64 // in the trace
	Steps    int    // whole steps
	Pictures int
	Joined   bool // some slices were joined
}

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	style string
	//go:embed page.js
	script string

	pageTemplate = template.Must(template.New("page").Parse(pageText))
)

// A page is the data of a page, as page.js reads it.
type page struct {
	File     string      `json:"file"`  // for commands
	About    [][2]string `json:"about"` // names and values
	Findings []finding   `json:"findings"`
	Blame    string      `json:"blame"` // report on a failure, "" for none
	Runs     []run       `json:"runs"`  // the trace, then the one that it is compared with
	Diff     any         `json:"diff"`  // differences from the second run, null without one
	Pictures []*picture  `json:"pictures"`
	NotDrawn int         `json:"not_drawn"` // chosen steps beyond maxPictures
	Curves   []*curve    `json:"curves"`    // device memory
	Tables   any         `json:"tables"`
}

type finding struct {
	report.Sentence
	Step *int    `json:"step,omitempty"`
	Call *uint64 `json:"call,omitempty"`
	At   *int64  `json:"at_ns,omitempty"`
}

// run has the steps and the figures of a trace.
type run struct {
	Name  string           `json:"name"`
	Bars  *series[[]int64] `json:"bars"`  // see survey.bar
	Stats any              `json:"stats"` // as in stats --json
	Why   string           `json:"why"`   // reason for no steps
}

// Write writes the page of a trace.
func Write(w io.Writer, t *Trace, m *api.Model, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	p, s, err := newPage(t, m, o)
	if err != nil {
		return nil, err
	}
	res := &Result{Calls: s.Calls, Steps: s.Steps.Count, Pictures: len(p.Pictures)}
	data, err := p.fit(res)
	if err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	err = pageTemplate.Execute(w, map[string]any{
		"Title":  report.Plain("%s", filepath.Base(t.Path)),
		"Policy": "default-src 'none'; script-src '" + hash(script) + "'; style-src '" + hash(style) + "'",
		"Style":  template.CSS(style), //nolint:gosec // it is a part of this package
		"Script": template.JS(script), //nolint:gosec // as above
		"Data":   json.RawMessage(data),
	})
	if err != nil {
		err = fmt.Errorf("write page: %w", err)
	}
	return res, err
}

// hash returns the source of a content security policy for an inline text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func newPage(t *Trace, m *api.Model, o *Options) (*page, *stats.Stats, error) {
	info, err := report.NewInfo(t.Path, t.Reader, m)
	if err != nil {
		return nil, nil, err
	}
	p := &page{File: t.Path, Findings: []finding{}}
	info.Summary(func(name, format string, args ...any) {
		value := report.Plain(format, args...)
		if name == "" { // it continues the row before
			p.About[len(p.About)-1][1] += "; " + value
			return
		}
		p.About = append(p.About, [2]string{name, value})
	})
	s, x, err := p.run(t, m, o)
	if err != nil {
		return nil, nil, err
	}
	if c := o.Compare; c != nil {
		if _, _, err := p.run(c, m, &Options{Progress: o.Progress}); err != nil {
			return nil, nil, err
		}
		d, err := diff.New(c.Reader, t.Reader, m, &diff.Options{Progress: o.Progress})
		if err != nil {
			return nil, nil, err
		}
		d.A.Path, d.B.Path = c.Path, t.Path
		p.Findings = append(p.Findings, finding{Sentence: report.DiffSentence(d)})
		if p.Diff, err = short(d); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range report.Sentences(t.Path, s) {
		of, found := f.Finding, finding{f, f.Finding.Step, f.Finding.Call, nil}
		if of.Device != nil && of.Device.LongestIdle != nil {
			found.At = &of.Device.LongestIdle.Time
		}
		p.Findings = append(p.Findings, found)
	}
	if meta := t.Reader.Meta(); slices.ContainsFunc(s.Findings, failure) || report.InError(meta.ExitCode) {
		rep, err := blame.Blame(t.Reader, m, nil)
		if err != nil && !errors.Is(err, blame.ErrNothingFailed) {
			return nil, nil, err
		}
		if err == nil {
			p.Blame = report.BlamePage(rep)
		}
	}
	p.Curves, p.NotDrawn = x.curves.list, x.notDrawn
	if p.Tables, err = short(map[string]any{"owners": x.sites.Sum().AtPeak(), "troubles": x.troubles.with(t.Reader)}); err != nil {
		return nil, nil, err
	}
	p.Pictures, err = x.draw(t.Reader, m)
	return p, s, err
}

// failure reports whether blame explains a finding.
func failure(f stats.Finding) bool {
	return f.Kind == stats.Killed || f.Kind == stats.FailedCalls || f.Kind == stats.Unfinished
}

// run adds the figures and the steps of a trace.
func (p *page) run(t *Trace, m *api.Model, o *Options) (*stats.Stats, *survey, error) {
	s, err := stats.New(t.Reader, m, &stats.Options{Progress: o.Progress})
	if err != nil {
		return nil, nil, err
	}
	x, err := read(t.Reader, m, s, o)
	if err != nil {
		return nil, nil, err
	}
	figures, err := short(s)
	p.Runs = append(p.Runs, run{cut(t.Path), &x.bars, figures, s.Steps.Why})
	return s, x, err
}

// fit returns the data as JSON, and joins slices of pictures until it is short enough.
func (p *page) fit(res *Result) ([]byte, error) {
	for most := maxSlices; ; most /= 2 {
		for _, x := range p.Pictures {
			x.join(most / len(p.Pictures))
			res.Joined = res.Joined || x.Joined
		}
		data, err := json.Marshal(p)
		if err != nil || len(data) <= MaxBytes || most == 0 {
			return data, err
		}
	}
}

// short returns a value as JSON has it, with short texts and lists: KEY_left_out is the number of elements that the list KEY lacks.
func short(v any) (any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return shorten(v), nil
}

func shorten(v any) any {
	switch v := v.(type) {
	case string:
		return cut(v)
	case []any:
		for i := range v {
			v[i] = shorten(v[i])
		}
	case map[string]any:
		for key, x := range v {
			if l, ok := x.([]any); ok && len(l) > maxRows {
				v[key+"_left_out"], x = len(l)-maxRows, l[:maxRows]
			}
			v[key] = shorten(x)
		}
	}
	return v
}

// cut shortens a text of the trace. Kernels of templates have names of kilobytes.
func cut(s string) string {
	const most = 200
	if s = report.Escape(s); len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
