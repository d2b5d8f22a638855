package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/export/html"
	"github.com/acltrace/acltrace/internal/testenv"
)

var hostileToPages = regexp.MustCompile(`^(nasty|name|functions|time|gaps|arguments|ranges)`)

// The pages of traces with hostile texts, functions and times are bounded. In Chromium they draw themselves without an
// error, a request, or an element of the trace. TestHostileTraces writes pages of the other traces.
func TestPagesOfHostileTraces(t *testing.T) {
	var actions []string
	dir := t.TempDir()
	for _, x := range hostileTraces(300) {
		if !hostileToPages.MatchString(x.Name) {
			continue
		}
		path, _, err := x.Write(dir)
		if err != nil {
			t.Fatal(err)
		}
		page := filepath.Join(dir, x.Name+".html")
		var out, said bytes.Buffer
		if code := run([]string{"export", "html", "-o", page, path}, strings.NewReader(""), &out, &said); code != 0 && code != exitLacks {
			t.Errorf("%s: exit %d: %s", x.Name, code, said.String())
			continue
		}
		os.Remove(path)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > html.MaxBytes+(64<<10) || bytes.Count(text, []byte("<script")) != 2 {
			t.Errorf("%s: %d bytes, %d scripts", x.Name, len(text), bytes.Count(text, []byte("<script")))
		}
		actions = append(actions, "open="+page, "text=img, a, iframe, link")
	}
	testenv.NeedsBrowser(t)
	var said struct {
		Errors, Requests []string
		Texts            [][]string
	}
	testenv.Browse(t, &said, "html-page.mjs", append([]string{strings.TrimPrefix(actions[0], "open=")}, actions[1:]...)...)
	if len(said.Errors)+len(said.Requests) > 0 {
		t.Errorf("errors %q, requests %q", said.Errors, said.Requests)
	}
	for i, elements := range said.Texts {
		if len(elements) > 0 {
			t.Errorf("%s: elements of the trace %q", actions[2*i], elements)
		}
	}
}
