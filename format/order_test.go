package format

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var chunkHead = regexp.MustCompile(`(?m)^chunk \d+ `)

// A repeated EVENTS chunk gave every reader its calls twice, which made a replay panic. No call is read twice, by any filter, and the
// repeated or misplaced chunk is damage.
func TestRepeatedAndMisplacedCallsAreDamage(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	r := newRandom(5)
	var want []*Call
	for i := range 300 {
		c := r.call()
		if _, err := w.Call(c); err != nil {
			t.Fatal(err)
		}
		c = written(c)
		c.Index = uint64(i)
		want = append(want, c)
		if i%100 == 99 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := rawText(t, open(t, path))
	var chunks []string // the first is the file's head
	from := 0
	for _, m := range chunkHead.FindAllStringIndex(text, -1) {
		chunks = append(chunks, text[from:m[0]])
		from = m[0]
	}
	chunks = append(chunks, text[from:])
	var events, others []int
	for i, c := range chunks {
		if strings.Contains(strings.SplitN(c, "\n", 2)[0], " events ") {
			events = append(events, i)
		} else if strings.Contains(strings.SplitN(c, "\n", 2)[0], " summary ") {
			others = append(others, i)
		}
	}
	if len(events) != 3 || len(others) != 1 {
		t.Fatalf("events chunks %v, summaries %v", events, others)
	}
	repeat := func(i, at int) []string { return slices.Insert(slices.Clone(chunks), at, chunks[i]) }
	swapped := slices.Clone(chunks)
	swapped[events[1]], swapped[events[2]] = swapped[events[2]], swapped[events[1]]
	for _, c := range []struct {
		name   string
		chunks []string
		skip   int // of three chunks the one without readable calls, or -1
	}{
		{"repeated at once", repeat(events[0], events[0]+1), -1},
		{"repeated at the end", repeat(events[1], events[2]+1), -1},
		{"swapped", swapped, 1},
	} {
		for _, summary := range []bool{true, false} {
			name := fmt.Sprintf("%s, with a summary: %v", c.name, summary)
			made := slices.Clone(c.chunks)
			if !summary {
				made = slices.DeleteFunc(made, func(s string) bool { return s == chunks[others[0]] })
			}
			want := slices.Clone(want)
			if c.skip >= 0 {
				want = slices.Delete(want, 100*c.skip, 100*c.skip+100)
			}
			changed := assemble(t, strings.Join(made, ""), nil)
			r := open(t, changed)
			equal(t, collect(t, r, nil), want)
			counts, err := r.Counts()
			if err != nil || counts.Calls != uint64(len(want)) {
				t.Errorf("%s: %+v, %v", name, counts, err)
			}
			byFunc := 0
			for i := range testSchema().Functions {
				byFunc += len(collect(t, r, &Filter{Funcs: []uint16{testSchema().Functions[i].ID}}))
			}
			pieces := 0
			for _, c := range want {
				pieces += len(c.Data)
			}
			for _, d := range allData(t, r) {
				pieces -= len(d)
			}
			if byFunc != len(want) || pieces != 0 {
				t.Errorf("%s: %d calls by function, want %d; %d pieces of data missing", name, byFunc, len(want), pieces)
			}
			lost, _ := r.LostCalls()
			if lost != uint64(300-len(want)) || r.Completeness().Whole() {
				t.Errorf("%s: %d calls lost, damage %v", name, lost, r.Damage())
			}
			report, err := Check(changed, nil)
			if err != nil || report.Calls != uint64(len(want)) || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].String(), "the chunk is repeated or misplaced; ") ||
				strings.Contains(report.Problems[0].Remedy, "nothing is lost") != (c.skip < 0) {
				t.Errorf("%s: %+v, %v", name, report, err)
			}
			mended := filepath.Join(t.TempDir(), "mended.aclt")
			if _, err := Copy(r, mended, nil); err != nil {
				t.Fatal(err)
			}
			equal(t, collect(t, open(t, mended), nil), want)
			if report, err := Check(mended, nil); err != nil || len(report.Problems) > 0 {
				t.Errorf("%s: recovered: %+v, %v", name, report, err)
			}
		}
	}
	// If a chunk's header or the summary disagrees with the block, the chunk is damaged.
	first := regexp.MustCompile(`(?m)^    1 .*200$`).FindString(chunks[others[0]])
	if first == "" {
		t.Fatalf("no first calls in %s", chunks[others[0]])
	}
	for name, changed := range map[string]string{
		"header":  strings.Replace(text, chunks[events[2]], strings.Replace(chunks[events[2]], "records 100", "records 99", 1), 1),
		"summary": strings.Replace(text, first, strings.TrimSuffix(first, "200")+"250", 1),
	} {
		r := open(t, assemble(t, changed, nil))
		equal(t, collect(t, r, nil), want[:200])
		if _, err := r.Call(270); err == nil || len(r.Damage()) == 0 {
			t.Errorf("%s: damage %v, call 270: %v", name, r.Damage(), err)
		}
	}
}

// A repeated chunk with gaps doubled the lost calls.
func TestRepeatedGapsAreDamage(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	r := newRandom(5)
	for i := range 20 {
		if _, err := w.Call(r.call()); err != nil {
			t.Fatal(err)
		}
		if i == 9 || i == 14 {
			if err := errors.Join(w.Flush(), w.Gap(Gap{Thread: NoThread, From: int64(i), To: int64(i) + 5, Calls: 7, Reason: Dropped}), w.Flush()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := rawText(t, open(t, path))
	heads := chunkHead.FindAllStringIndex(text, -1)
	for i, m := range heads {
		if !strings.Contains(text[m[0]:m[1]+20], " gap ") {
			continue
		}
		chunk := text[m[0]:heads[i+1][0]]
		changed := assemble(t, strings.Replace(text, chunk, chunk+chunk, 1), nil)
		twice := open(t, changed)
		if lost, _ := twice.LostCalls(); lost != 0 || len(twice.Gaps()) != 2 || twice.Gaps()[0].Calls+twice.Gaps()[1].Calls != 14 {
			t.Errorf("%d calls lost, gaps %+v", lost, twice.Gaps())
		}
		report, err := Check(changed, nil)
		if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].String(), "the chunk repeats an earlier one; nothing is lost") {
			t.Errorf("%+v, %v", report, err)
		}
		mended := filepath.Join(t.TempDir(), "mended.aclt")
		if _, err := Copy(twice, mended, nil); err != nil {
			t.Fatal(err)
		}
		if once := open(t, mended); len(once.Gaps()) != 2 {
			t.Errorf("recovered: gaps %+v", once.Gaps())
		}
		if report, err := Check(mended, nil); err != nil || len(report.Problems) > 0 {
			t.Errorf("recovered: %+v, %v", report, err)
		}
		return
	}
	t.Fatal("no chunk with gaps")
}
