// Package html writes a trace as one page to look at with a browser alone. Command export html calls Write.
//
// The page has the program, its findings, a strip of all steps, pictures of the longest and the median step, tables, memory over time and errors.
// Its data is JSON of at most MaxBytes, whatever the length of the trace: strips and curves keep the highest of neighboring values, and a picture
// that does not fit joins short neighboring slices. The page says so. A browser that opens it makes no request: a content security policy
// allows the page's own script and style alone, and all text of the trace is text.
//
// The figures come from package analyze/stats, the pictures from export/internal/scene, the sentences from package report. The package only reads
// traces. Its memory does not grow with them.
package html

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/report"
)

// MaxBytes limits the data of a page.
const MaxBytes = 1800 << 10

// A Trace is a trace and its name for commands.
type Trace struct {
	Path   string
	Reader *format.Reader
}

// Options configure Write; nil means the zero value.
type Options struct {
	Steps    *human.Numbers // steps to draw besides the longest and the median one, at most maxPictures
	Compare  *Trace         // an earlier run to compare with
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

// Write writes the page of a trace.
func Write(w io.Writer, t *Trace, m *api.Model, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	p, res, err := newPage(t, m, o)
	if err != nil {
		return nil, err
	}
	data, err := p.fit()
	if err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	res.Joined = p.joined
	err = pageTemplate.Execute(w, map[string]any{
		"Title":  p.Title,
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

// A page is the data of a page, as page.js reads it.
type page struct {
	Title    string      `json:"title"`
	About    [][2]string `json:"about"` // names and values
	Findings []finding   `json:"findings"`
	Runs     []run       `json:"runs"` // the trace, then the one that it is compared with
	Pictures []*picture  `json:"pictures"`
	Memory   memory      `json:"memory"`
	Tables   []table     `json:"tables"`

	joined bool
}

type finding struct {
	report.Sentence
	Step *int    `json:"step,omitempty"`
	Call *uint64 `json:"call,omitempty"`
}

// run has the steps of a trace.
type run struct {
	Name   string    `json:"name"`
	Median int64     `json:"median_ns"`
	P99    int64     `json:"p99_ns"`
	Steps  int       `json:"steps"`
	Source string    `json:"source"` // marked, found or none
	Why    string    `json:"why"`    // reason for no steps
	Parts  []string  `json:"parts"`  // names of the parts of a bar
	Bars   [][]int64 `json:"bars"`   // see strip.bars
}

func newPage(t *Trace, m *api.Model, o *Options) (*page, *Result, error) {
	info, err := report.NewInfo(t.Path, t.Reader, m)
	if err != nil {
		return nil, nil, err
	}
	s, err := stats.New(t.Reader, m, &stats.Options{Progress: o.Progress})
	if err != nil {
		return nil, nil, err
	}
	p := &page{Title: filepath.Base(t.Path), Findings: []finding{}}
	info.Summary(func(name, format string, args ...any) {
		p.About = append(p.About, [2]string{name, report.Plain(format, args...)})
	})
	for _, f := range report.Sentences(t.Path, s) {
		p.Findings = append(p.Findings, finding{f, f.Finding.Step, f.Finding.Call})
	}
	st, err := read(t.Reader, m, s, o)
	if err != nil {
		return nil, nil, err
	}
	p.Runs = append(p.Runs, st.run(t.Path, s))
	p.Memory = st.memory.out()
	p.Tables = append(tables(s), st.troubles.table(t.Reader))
	if c := o.Compare; c != nil {
		if err := p.compare(t, m, c, o); err != nil {
			return nil, nil, err
		}
	}
	if p.Pictures, err = st.draw(t.Reader, m); err != nil {
		return nil, nil, err
	}
	return p, &Result{Calls: s.Calls, Steps: s.Steps.Count, Pictures: len(p.Pictures)}, nil
}

// compare adds the steps of an earlier run, and the differences from it.
func (p *page) compare(t *Trace, m *api.Model, c *Trace, o *Options) error {
	d, err := diff.New(c.Reader, t.Reader, m, &diff.Options{Progress: o.Progress})
	if err != nil {
		return err
	}
	d.A.Path, d.B.Path = c.Path, t.Path
	s, err := stats.New(c.Reader, m, &stats.Options{Progress: o.Progress})
	if err != nil {
		return err
	}
	st, err := read(c.Reader, m, s, &Options{Progress: o.Progress})
	if err != nil {
		return err
	}
	p.Runs = append(p.Runs, st.run(c.Path, s))
	p.Tables = append([]table{changes(d)}, p.Tables...)
	p.Findings = append([]finding{{Sentence: report.DiffSentence(d)}}, p.Findings...)
	return nil
}

// fit returns the data as JSON, and joins slices of pictures until it is short enough.
func (p *page) fit() ([]byte, error) {
	for most := maxSlices; ; most /= 2 {
		for _, x := range p.Pictures {
			x.join(most / len(p.Pictures))
			p.joined = p.joined || x.Joined
		}
		data, err := json.Marshal(p)
		if err != nil || len(data) <= MaxBytes || most == 0 {
			return data, err
		}
	}
}

// cut shortens a text of the trace. Kernels of templates have names of kilobytes.
func cut(s string) string {
	const most = 200
	s = report.Escape(s)
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
