// Command prose measures the language of comments and documents. It counts words that make sentences hard to read, by package,
// and lists the sentences that most need a rewrite.
//
//	go run ./internal/cmd/prose [-n SENTENCES] [-texts] [FOLDER...]
//
// It reads Markdown, and the comments in hand-written Go and C. With -texts it reads what users see: the commands' help, and the
// strings in the code of the folders that print messages. `make lint` runs it. It advises and never fails: a sentence is
// good if a stranger understands it at once, even if it contains these words.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// aims are the rates to stay below, per 1,000 words.
var aims = []struct {
	word string
	aim  float64
}{{"what", 3}, {"of", 30}, {"tell", 0.3}, {"behind", 0.3}}

var (
	hard     = regexp.MustCompile(`(?i)\b(what(?:ever)?|whoever|tells?|told|behind|nobody|none|nothing|as far as|such|answers)\b`)
	of       = regexp.MustCompile(`\bof\b`)
	word     = regexp.MustCompile(`[a-z']+`)
	quoted   = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|https?://\\S+")
	sentence = regexp.MustCompile(`[.!?]\s+`)
	comment  = regexp.MustCompile(`^\s*(?://|/\*+|\*)\s?(.*?)(?:\*/)?\s*$`)
	trailing = regexp.MustCompile(`\s//\s(.*)$`)
	noProse  = regexp.MustCompile(`^(go:|\s{2}|\t)|\S {3,}\S`) // directives, code and tables
	item     = regexp.MustCompile(`^(?:[-*]|\d+\.)\s`)
	tells    = map[string]string{"tells": "tell", "told": "tell", "telling": "tell"}
)

// A paragraph is a run of comment lines or document lines.
type paragraph struct {
	path string
	line int
	text string
}

// paragraphs returns a file's paragraphs. In code, these are the comments.
func paragraphs(path string, content []byte, code bool) []paragraph {
	var all []paragraph
	var open *paragraph
	fence := false
	for n, l := range strings.Split(string(content), "\n") {
		var text string
		alone := false // a comment after code is a paragraph
		if code {
			m := comment.FindStringSubmatch(l)
			if m == nil {
				m = trailing.FindStringSubmatch(l)
				alone = m != nil
			}
			if m != nil && !noProse.MatchString(m[1]) {
				text = m[1]
			}
		} else {
			trimmed := strings.TrimSpace(l)
			if strings.HasPrefix(trimmed, "```") {
				fence = !fence
			} else if !fence && !strings.HasPrefix(l, "|") && !strings.HasPrefix(l, "    ") && !strings.HasPrefix(l, "#") {
				text = strings.TrimLeft(trimmed, "> ")
			}
		}
		if text == "" || alone || item.MatchString(text) {
			open = nil
		}
		if text == "" {
			continue
		}
		if open == nil {
			all = append(all, paragraph{path, n + 1, text})
			open = &all[len(all)-1]
		} else {
			open.text += " " + text
		}
		if alone {
			open = nil
		}
	}
	return all
}

// A rated is a sentence and how hard it is to read.
type rated struct {
	paragraph
	score float64
}

// A survey counts words by package and collects hard sentences.
type survey struct {
	words map[string]int
	count map[string]map[string]int // by package and word
	hard  []rated
}

func newSurvey() *survey {
	return &survey{words: map[string]int{}, count: map[string]map[string]int{}}
}

// hardFrom is the lowest score of a listed sentence.
const hardFrom = 4

func (s *survey) add(p paragraph) {
	pkg := filepath.Dir(p.path)
	plain := quoted.ReplaceAllString(p.text, " X ")
	if s.count[pkg] == nil {
		s.count[pkg] = map[string]int{}
	}
	for _, w := range word.FindAllString(strings.ToLower(plain), -1) {
		s.words[pkg]++
		s.count[pkg][cmp.Or(tells[w], w)]++
	}
	for _, t := range split(plain) {
		n := float64(len(strings.Fields(t)))
		score := 2*float64(len(hard.FindAllString(t, -1))) + max(0, float64(len(of.FindAllString(t, -1)))-n/14) +
			float64(strings.Count(t, ";")) + max(0, n-25)/4
		if score >= hardFrom {
			s.hard = append(s.hard, rated{paragraph{p.path, p.line, t}, score})
		}
	}
}

// split cuts text into sentences, after a mark with a following capital letter.
func split(text string) []string {
	var all []string
	from := 0
	for _, m := range sentence.FindAllStringIndex(text, -1) {
		if m[1] < len(text) && text[m[1]] >= 'A' && text[m[1]] <= 'Z' {
			all = append(all, text[from:m[0]+1])
			from = m[1]
		}
	}
	return append(all, text[from:])
}

// walk adds all files in a tree.
func (s *survey) walk(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); path != root && (strings.HasPrefix(n, ".") || slices.Contains([]string{"build", "bin", "lib"}, n)) {
				return filepath.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(path)
		if !slices.Contains([]string{".go", ".c", ".h", ".md"}, ext) || strings.Contains(filepath.Base(path), "_gen") || strings.Contains(path, "bpfel") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil || bytes.Contains(b[:min(len(b), 400)], []byte("Code generated")) {
			return err
		}
		for _, p := range paragraphs(path, b, ext != ".md") {
			s.add(p)
		}
		return nil
	})
}

// print writes the total rates, the packages with a rate above its aim, and the hardest sentences.
func (s *survey) print(w io.Writer, sentences int) {
	total, all := 0, map[string]int{}
	for pkg, n := range s.words {
		total += n
		for w, k := range s.count[pkg] {
			all[w] += k
		}
	}
	rates := func(count map[string]int, words int) (text string, above float64) {
		for _, a := range aims {
			r := 1000 * float64(count[a.word]) / float64(max(words, 1))
			text += fmt.Sprintf("  %s %.1f", a.word, r)
			above = max(above, r/a.aim)
		}
		return text, above
	}
	text, _ := rates(all, total)
	fmt.Fprintf(w, "prose: %d words; per 1,000:%s (aims:", total, text)
	for _, a := range aims {
		fmt.Fprintf(w, " %g", a.aim)
	}
	fmt.Fprintln(w, ")")
	const few = 500 // words; below this, rates are not meaningful
	type row struct {
		pkg, text string
		above     float64
	}
	var rows []row
	for pkg, n := range s.words {
		if text, above := rates(s.count[pkg], n); n > few && above > 1 {
			rows = append(rows, row{pkg, text, above})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(b.above, a.above), cmp.Compare(a.pkg, b.pkg)) })
	for _, r := range rows {
		fmt.Fprintf(w, "  %-32s%s\n", r.pkg, r.text)
	}
	slices.SortStableFunc(s.hard, func(a, b rated) int { return cmp.Compare(b.score, a.score) })
	for _, h := range s.hard[:min(len(s.hard), sentences)] {
		fmt.Fprintf(w, "  %s:%d: %s\n", h.path, h.line, h.text)
	}
}

func main() {
	n := flag.Int("n", 0, "hardest sentences to print")
	texts := flag.Bool("texts", false, "read help and messages instead of comments and documents")
	flag.Parse()
	if err := run(os.Stdout, *n, *texts, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
}

func run(w io.Writer, n int, texts bool, roots []string) error {
	s, read := newSurvey(), (*survey).walk
	switch {
	case texts && len(roots) == 0:
		if err := s.help(); err != nil {
			return err
		}
		fmt.Fprint(w, "help, ")
		s.print(w, n)
		s, roots = newSurvey(), speaking
		fmt.Fprint(w, "messages, ")
		fallthrough
	case texts:
		read = (*survey).messages
	case len(roots) == 0:
		roots = []string{"."}
	}
	for _, r := range roots {
		if err := read(s, r); err != nil {
			return err
		}
	}
	s.print(w, n)
	return nil
}
