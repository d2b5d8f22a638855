// Package docs tests the documents: their links resolve, and their commands run.
package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/acltrace/acltrace/internal/testenv"
)

var (
	fence     = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	heading   = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *$`)
	anyLink   = regexp.MustCompile(`!?\[([^\]]*)\]\(([^)\s]+)\)`)
	namedPage = regexp.MustCompile(`(?:^|[^/\w.-])((?:docs|examples|format|sim|api)/[\w/.-]*\.md)\b`)
	remote    = regexp.MustCompile(`^[a-z]+:`)
)

// files returns the tracked and new files that match the patterns, relative to the root.
func files(t *testing.T, root string, patterns ...string) []string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git ls-files: %v", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := anyLink.ReplaceAllString(m[1], "$1")
		a := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, text)
		name := a
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", a, n)
		}
		all[name] = true
	}
	return all
}

// broken returns the links of a page that lead nowhere. read returns the contents of a file below the root.
func broken(path, page string, read func(path string) ([]byte, error)) []string {
	var bad []string
	text := codeSpan.ReplaceAllString(fence.ReplaceAllString(page, ""), "")
	for _, m := range anyLink.FindAllStringSubmatch(text, -1) {
		link := m[2]
		if remote.MatchString(link) {
			continue
		}
		file, anchor, _ := strings.Cut(link, "#")
		target := page
		if file != "" {
			b, err := read(filepath.Join(filepath.Dir(path), file))
			if err != nil {
				bad = append(bad, fmt.Sprintf("%s: %s: %v", path, link, err))
				continue
			}
			target = string(b)
		}
		if anchor != "" && !anchors(target)[anchor] {
			bad = append(bad, fmt.Sprintf("%s: %s: no such heading", path, link))
		}
	}
	return bad
}

// Relative links in Markdown lead to files and headings that exist.
func TestLinksLeadToExistingTargets(t *testing.T) {
	root := testenv.Root(t)
	read := func(path string) ([]byte, error) {
		full := filepath.Join(root, path)
		if info, err := os.Stat(full); err == nil && info.IsDir() {
			return nil, nil
		}
		return os.ReadFile(full)
	}
	pages := files(t, root, "*.md")
	if len(pages) < 10 {
		t.Fatalf("%d pages", len(pages))
	}
	for _, path := range pages {
		b, err := read(path)
		if err != nil {
			continue // removed and not yet committed
		}
		for _, bad := range broken(path, string(b), read) {
			t.Error(bad)
		}
	}
}

// Pages that code, scripts and messages name exist.
func TestNamedPages(t *testing.T) {
	root := testenv.Root(t)
	for _, path := range files(t, root, "*.go", "*.c", "*.h", "*.sh", "*.yaml", "*.py", "Makefile", "*.md", "*.txtar") {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || bytes.IndexByte(b, 0) >= 0 || strings.Contains(path, "testdata/toy") {
			continue
		}
		for _, m := range namedPage.FindAllStringSubmatch(string(b), -1) {
			name := m[1]
			if _, err := os.Stat(filepath.Join(root, name)); err == nil {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), name)); err != nil { // relative, in a link
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	pages := map[string]string{"pages/b.md": "# A name, and `more`\n## Two\n## Two\n"}
	read := func(path string) ([]byte, error) {
		if s, ok := pages[path]; ok {
			return []byte(s), nil
		}
		return nil, os.ErrNotExist
	}
	for text, want := range map[string]int{
		"[x](pages/b.md#a-name-and-more) [y](pages/b.md#two-1) [z](https://example.com/#no)": 0,
		"[x](pages/b.md#three)":                 1,
		"[x](b.md) ![y](pages/c.png)":           2,
		"# Here\n[x](#here) [y](#there)":        1,
		"`[x](none.md)`\n```\n[y](none)\n```\n": 0,
	} {
		if got := broken("README.md", text, read); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}
