package html

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/analyze/memory"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

func written(t testing.TB, r *format.Reader, o *Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, &Trace{"run.aclt", r}, acl.Model, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// got is the data of a page as its script reads it.
type got struct {
	About    [][2]string
	Findings []struct {
		Text, Command string
		Step          *int
	}
	Blame string
	Runs  []struct {
		Name  string
		Bars  [][]int64
		Stats json.RawMessage
		Why   string
	}
	Diff *struct {
		Changes, Parts []struct{ Kind, Name, Verdict string }
	}
	NotDrawn int `json:"not_drawn"`
	Pictures []struct {
		Title    string
		Step     int
		From, To int64
		Rows     []struct {
			Name   string
			Slices [][]any
		}
		Joined bool
	}
	Curves []struct{ Points [][2]int64 }
	Tables struct {
		Owners   []memory.Site
		Troubles troubles
	}
}

func readPage(t *testing.T, html []byte) (d got) {
	t.Helper()
	_, text, ok := bytes.Cut(html, []byte(`id="data">`))
	text, _, end := bytes.Cut(text, []byte("</script>"))
	if !ok || !end {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func slow(s, _ int) int64 {
	if s == 7 {
		return 90_000
	}
	return 20_000 + int64(s%3)*100
}

// The figures of a page are those of stats, for recordings, imports, jobs, cut and empty traces. Chromium draws all of them.
func TestFiguresAreThoseOfStats(t *testing.T) {
	cut := testtrace.New(t)
	cut.Call(0, 10, 20, "aclrtMalloc", testtrace.A(0x100, 64, 1), testtrace.Outs("devPtr", testtrace.DeviceA))
	traces := testtrace.Profiles(t)
	for name, tl := range map[string]*timeline.Timeline{
		"steps": testtrace.Steps(t, 20, 12, slow), "rich": testtrace.Rich(t), "ranks": testtrace.Ranks(t), "graphs": testtrace.Graphs(t, 3),
		"cut": cut.Cut(), "empty": testtrace.New(t).Load(), "small": testtrace.Small(t),
	} {
		traces[name] = tl.Reader
	}
	var pages []string
	dir := t.TempDir()
	for name, r := range traces {
		t.Run(name, func(t *testing.T) {
			page := written(t, r, nil)
			pages = append(pages, "open="+filepath.Join(dir, name+".html"))
			if err := os.WriteFile(strings.TrimPrefix(pages[len(pages)-1], "open="), page, 0o600); err != nil {
				t.Fatal(err)
			}
			d := readPage(t, page)
			s, err := stats.New(r, acl.Model, nil)
			if err != nil {
				t.Fatal(err)
			}
			var figures stats.Stats
			if err := json.Unmarshal(d.Runs[0].Stats, &figures); err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			want = bytes.ReplaceAll(want, []byte(`\ufffd`), []byte("\ufffd")) // for invalid bytes, which figures no longer has
			if same, err := json.Marshal(&figures); err != nil || !bytes.Equal(same, want) {
				t.Errorf("%v: figures\n%s\nwant\n%s", err, same, want)
			}
			if r := d.Runs[0]; len(r.Bars) != s.Steps.Count {
				t.Errorf("%d bars, want %d", len(r.Bars), s.Steps.Count)
			}
			if len(d.Findings) != len(s.Findings) {
				t.Errorf("%d findings, want %d", len(d.Findings), len(s.Findings))
			}
			atPeak := uint64(0)
			for _, o := range d.Tables.Owners {
				atPeak += o.AtPeakBytes
			}
			if atPeak != s.PeakDeviceBytes {
				t.Errorf("the owners at the peak have %d bytes, want %d", atPeak, s.PeakDeviceBytes)
			}
		})
	}
	look(t, written(t, traces["small"], nil), pages...)
}

// The longest and a median step are drawn with all their calls, and further steps that are asked for.
func TestPicturesOfSteps(t *testing.T) {
	tl := testtrace.Steps(t, 20, 12, slow)
	d := readPage(t, written(t, tl.Reader, &Options{Steps: []human.Numbers{{First: 3, Last: 4}}}))
	var steps []string
	for _, p := range d.Pictures {
		steps = append(steps, fmt.Sprint(p.Step, " ", p.Title))
		calls := map[float64]bool{}
		for _, row := range p.Rows[:1] {
			for _, s := range row.Slices {
				calls[s[5].(float64)] = true
			}
		}
		for i := range tl.Calls {
			c := &tl.Calls[i]
			if inside := c.Start >= p.From && c.Start < p.To; inside && !calls[float64(c.Index)] {
				t.Errorf("step %d lacks call %d", p.Step, c.Index)
			}
		}
		if p.Joined {
			t.Error("slices were joined")
		}
	}
	if len(steps) != 4 || steps[0] != "7 the longest step" || !strings.HasSuffix(steps[1], " a median step") || steps[2] != "3 a chosen step" || steps[3] != "4 a chosen step" {
		t.Errorf("drawn: %q", steps)
	}
	if n := len(d.Pictures[0].Rows[0].Slices[0]); n < 9 {
		t.Errorf("a call has no arguments: %v", d.Pictures[0].Rows[0].Slices[0])
	}
}

// A page does not grow with its trace: short slices are joined, and none is lost.
func TestPageIsBounded(t *testing.T) {
	const calls = 60_000
	html := written(t, testtrace.Long(t, calls).Reader, nil)
	d := readPage(t, html)
	if len(html) > MaxBytes+(64<<10) {
		t.Errorf("%d bytes", len(html))
	}
	p := &d.Pictures[0]
	n := 0
	for _, r := range p.Rows {
		if !strings.HasPrefix(r.Name, "stream") {
			for _, s := range r.Slices {
				n += int(s[6].(float64))
			}
		}
	}
	if !p.Joined || n != calls {
		t.Errorf("joined: %v; the slices of threads stand for %d calls, want %d", p.Joined, n, calls)
	}
}

// Joined slices stand for all slices, in order, within the time of their parts. Long ones stay.
// A picture of overlapping brackets had a slice for each call once all that could be joined were.
func TestPictureOfOneWaitIsBounded(t *testing.T) {
	const launches = 100_000
	html := written(t, testtrace.Unbroken(t, launches).Reader, nil)
	slices, stand := 0, 0
	for _, r := range readPage(t, html).Pictures[0].Rows {
		slices += len(r.Slices)
		if strings.HasPrefix(r.Name, "stream") {
			for _, s := range r.Slices {
				stand += int(s[6].(float64))
			}
		}
	}
	if slices > maxSlices || stand != launches {
		t.Errorf("%d slices in %d bytes; those of the stream stand for %d tasks, want %d", slices, len(html), stand, launches)
	}
}

func TestJoinKeepsSlices(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r, at, long := &row{}, int64(0), 0
		grain := int64(1 + rnd.IntN(500))
		for range 1 + rnd.IntN(300) {
			at += int64(rnd.IntN(100))
			to := at + int64(rnd.IntN(200))
			if rnd.IntN(20) == 0 {
				to += 1000
			}
			if to-at >= grain {
				long++
			}
			r.Slices = append(r.Slices, slice{from: at, to: to, count: 1, flags: rnd.IntN(16)})
			at = to
		}
		before := slices.Clone(r.Slices)
		r.join(grain)
		count, flags, wantFlags, kept, last := 0, 0, 0, 0, int64(-1)
		for _, s := range r.Slices {
			count, flags = count+s.count, flags|s.flags
			if s.to-s.from >= grain && s.count == 1 {
				kept++
			}
			if s.from < last || s.to < s.from {
				t.Fatalf("seed %d: %+v begins before %d", seed, s, last)
			}
			last = s.from
		}
		for _, s := range before {
			wantFlags |= s.flags
		}
		if count != len(before) || flags != wantFlags || len(r.Slices) > len(before) {
			t.Fatalf("seed %d: %d slices stand for %d, want %d; flags %b, want %b", seed, len(r.Slices), count, len(before), flags, wantFlags)
		}
		if kept > long {
			t.Fatalf("seed %d: %d long slices, want at most %d", seed, kept, long)
		}
	}
}

// A picture is joined again only if it has twice as many slices, and no small picture is.
func TestPicturesAreJoinedRarely(t *testing.T) {
	for n, want := range map[int]int{1: maxSlices, maxSlices / 2: maxSlices, maxSlices: 2 * maxSlices} {
		p := &picture{To: 100, n: n}
		if p.join(n); p.most != want || p.Joined {
			t.Errorf("%d slices: at most %d, want %d", n, p.most, want)
		}
	}
}

// The bars of a strip cover all steps without holes, and show the longest step of each.
func TestBarsCoverAllSteps(t *testing.T) {
	for _, n := range []int{1, 1023, 1024, 1025, 5000, 99_999} {
		x := series[[]int64]{most: maxBars, join: longer}
		ns := make([]int64, n)
		for i := range n {
			ns[i] = rand.New(rand.NewPCG(uint64(i), 3)).Int64N(1000)
			x.add(bar(&step.Step{Index: i, To: ns[i]}, nil, false))
		}
		next := 0
		for _, b := range x.items {
			if int(b[0]) != next || b[4] != ns[b[2]] || b[4] != slices.Max(ns[b[0]:b[1]+1]) {
				t.Fatalf("%d steps: %v after step %d", n, b, next-1)
			}
			next = int(b[1]) + 1
		}
		if next != n || len(x.items) > maxBars {
			t.Errorf("%d steps: %d bars up to step %d", n, len(x.items), next-1)
		}
	}
}

// A memory curve keeps its highest value however many changes there are.
func TestCurveKeepsItsPeak(t *testing.T) {
	l, peak := &newCurve("").Points, int64(0)
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range int64(100_000) {
		v := rnd.Int64N(1 << 40)
		peak = max(peak, v)
		l.add([2]int64{i, v})
	}
	top := int64(0)
	for i, p := range l.items {
		top = max(top, p[1])
		if i > 0 && p[0] <= l.items[i-1][0] {
			t.Fatalf("%v follows %v", p, l.items[i-1])
		}
	}
	if top != peak || len(l.items) > maxPoints {
		t.Errorf("%d points up to %d, want %d", len(l.items), top, peak)
	}
}

func TestCompareShowsBothRuns(t *testing.T) {
	before := testtrace.Steps(t, 30, 12, func(s, _ int) int64 { return 20_000 + int64(s%3)*100 })
	now := testtrace.Steps(t, 30, 12, func(s, _ int) int64 { return 30_000 + int64(s%3)*100 })
	d := readPage(t, written(t, now.Reader, &Options{Compare: &Trace{"before.aclt", before.Reader}}))
	if len(d.Runs) != 2 || d.Runs[1].Name != "before.aclt" || len(d.Runs[1].Bars) != 30 {
		t.Errorf("runs: %+v", d.Runs)
	}
	if d.Diff == nil || !slices.ContainsFunc(append(d.Diff.Changes, d.Diff.Parts...), func(c struct{ Kind, Name, Verdict string }) bool { return c.Verdict == "slower" }) {
		t.Errorf("differences: %+v", d.Diff)
	}
	if d.Findings[0].Command != "acltrace diff before.aclt run.aclt" || !strings.Contains(d.Findings[0].Text, "slower") {
		t.Errorf("%+v", d.Findings[0])
	}
}

func TestTraceWithoutCalls(t *testing.T) {
	d := readPage(t, written(t, testtrace.New(t).Load().Reader, nil))
	if len(d.Pictures) != 0 || len(d.Runs) != 1 || d.Runs[0].Why == "" {
		t.Errorf("%+v", d)
	}
}

// looked is what scripts/html-page.mjs prints.
type looked struct {
	Errors, Requests []string
	Texts            [][]string
}

func look(t *testing.T, page []byte, actions ...string) (l looked) {
	t.Helper()
	testenv.NeedsBrowser(t)
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Browse(t, &l, "html-page.mjs", append([]string{file}, actions...)...)
	if len(l.Errors)+len(l.Requests) > 0 {
		t.Errorf("errors %q, requests %q", l.Errors, l.Requests)
	}
	return l
}

// In Chromium a page draws itself without an error and without a request, clicks and keys work, and tables sort.
func TestPageInChromium(t *testing.T) {
	r := testtrace.Steps(t, 20, 12, slow).Reader
	l := look(t, written(t, r, nil),
		"click=#steps canvas@37:90", "text=#steps .detail", // step 7 of 20
		"press=d", "press=ArrowRight", "press=a", "text=#steps .detail",
		"click=#pictures canvas@50:88", "press=w", "press=w", "press=d", "press=0", "text=#pictures .detail",
		"click=#tables > div:last-of-type th:nth-of-type(2)", "values=#tables > div:last-of-type td:nth-of-type(2)", "text=#about dd")
	if !strings.Contains(l.Texts[0][0], "step 7:") || !strings.Contains(l.Texts[0][0], "show") {
		t.Errorf("a click into the strip selects %q", l.Texts[0])
	}
	if !strings.Contains(l.Texts[1][0], "step 8:") || !strings.Contains(l.Texts[1][0], "acltrace export html --step 8 run.aclt") {
		t.Errorf("keys in the strip select %q", l.Texts[1])
	}
	if !strings.Contains(l.Texts[2][0], "acltrace cat --call ") || !strings.Contains(l.Texts[2][0], "blocks") {
		t.Errorf("a click into a picture selects %q", l.Texts[2])
	}
	var counts []int
	for _, v := range l.Texts[3] {
		n, _ := strconv.Atoi(v)
		counts = append(counts, n)
	}
	if len(counts) < 3 || !slices.IsSortedFunc(counts, func(a, b int) int { return b - a }) {
		t.Errorf("a click on a heading sorts the calls as %v", counts)
	}
	if len(l.Texts[4]) < 5 {
		t.Errorf("about: %q", l.Texts[4])
	}
}

// Markup in the names of a trace is text: it runs nothing, and closes no element.
func TestMarkupInNamesIsText(t *testing.T) {
	const evil = `</script><script>alert(1)</script><img src="http://x/y" onerror=alert(1)>{{.Data}}<!--`
	b := testtrace.New(t)
	b.Meta(func(m *format.Meta) { m.Host, m.Argv, m.Device.Name = evil, []string{evil}, evil })
	b.Process(0, format.Process{PID: 1, Argv: []string{evil}, Exe: evil})
	b.Call(0, 10, 20, "aclrtMalloc", testtrace.A(0x100, 64, 1), testtrace.Outs("devPtr", testtrace.DeviceA))
	b.Call(0, 30, 40, "aclrtBinaryGetFunction", testtrace.A(0x6600, 1, 1), testtrace.Text("kernelName", evil), testtrace.Outs("funcHandle", testtrace.Function))
	b.Call(0, 50, 60, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, 0))
	b.Call(0, 70, 80, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 64, 0), testtrace.Fails(107000))
	page := written(t, b.Load().Reader, nil)
	if n := bytes.Count(page, []byte("<script")); n != 2 {
		t.Errorf("%d scripts in the page", n)
	}
	l := look(t, page, "text=#tables td.text", "text=img", "text=h1")
	if !slices.ContainsFunc(l.Texts[0], func(s string) bool { return strings.Contains(s, "<script>alert(1)") }) || len(l.Texts[1]) != 0 {
		t.Errorf("texts %q, images %q", l.Texts[0], l.Texts[1])
	}
}

// BenchmarkWrite reports the processor time for a call of a trace, in the best round, and the size of the page.
func BenchmarkWrite(b *testing.B) {
	const calls = 1_000_000
	r := testtrace.Decoding(b, calls, true)
	best, size := time.Hour, 0
	for b.Loop() {
		began := testenv.CPUTime()
		size = len(written(b, r, nil))
		best = min(best, testenv.CPUTime()-began)
	}
	b.ReportMetric(float64(best.Nanoseconds())/calls, "cpu-ns/call")
	b.ReportMetric(float64(size), "bytes")
}

// A failure is in the page with its report and a picture of the calls before it: who has only the page needs no other command.
func TestPageExplainsFailure(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 10, 20, "aclrtMalloc", testtrace.A(0x100, 64, 1), testtrace.Outs("devPtr", testtrace.DeviceA))
	b.Call(0, 30, 40, "aclrtFree", testtrace.A(testtrace.DeviceA))
	b.Call(0, 50, 60, "aclrtFree", testtrace.A(testtrace.DeviceA), testtrace.Fails(107000))
	d := readPage(t, written(t, b.Load().Reader, nil))
	if !strings.Contains(d.Blame, "call 2 aclrtFree") || len(d.Pictures) != 1 || len(d.Tables.Troubles.Rows) != 1 {
		t.Errorf("blame %q, %d pictures, errors %+v", d.Blame, len(d.Pictures), d.Tables.Troubles)
	}
	steps := testtrace.Steps(t, 20, 12, slow).Reader
	if d := readPage(t, written(t, steps, nil)); d.Blame != "" {
		t.Errorf("a run without failures has the report %q", d.Blame)
	}
	// A program that found a wrong result has no failed call, but a hint.
	odd := testtrace.NewSequence(t)
	odd.Malloc(testtrace.DeviceA, 4096)
	for i := range uint64(20) {
		n := uint64(0x80)
		if i == 3 {
			n = 0x400
		}
		odd.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 1, 0, 0, 0x7ffe0100, 16, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(testtrace.DeviceA, n)))
	}
	odd.Meta(func(m *format.Meta) { m.ExitCode = 1 })
	if d := readPage(t, written(t, odd.Load().Reader, nil)); !strings.Contains(d.Blame, "argument unlike those of the other launches") {
		t.Errorf("a program that ended with code 1 has the report %q", d.Blame)
	}
}

// The tasks of a graph lie within its run in their order.
func TestPictureShowsTasksOfGraphs(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 10, 20, "aclrtCreateStream", testtrace.A(0x100), testtrace.Outs("stream", testtrace.StreamA))
	for i, kernel := range []string{"first", "second"} {
		b.Call(0, 30+20*int64(i), 40+20*int64(i), "aclrtBinaryGetFunction", testtrace.A(0x6600, 1, 1), testtrace.Text("kernelName", kernel), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
	}
	b.Call(0, 100, 110, "aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
	b.Call(0, 120, 130, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
	b.Call(0, 140, 150, "aclrtLaunchKernel", testtrace.A(testtrace.Function+1, 1, testtrace.DeviceA, 0, testtrace.StreamA))
	b.Call(0, 160, 170, "aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 1), testtrace.Outs("modelRI", 0x9000))
	b.Call(0, 200, 250, "aclmdlRIExecuteAsync", testtrace.A(0x9000, testtrace.StreamA))
	b.Call(0, 300, 900, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	d := readPage(t, written(t, b.Load().Reader, nil))
	found := 0
	for _, p := range d.Pictures {
		for _, r := range p.Rows {
			end := 0.
			for _, s := range r.Slices {
				if int(s[4].(float64))&inside == 0 {
					continue
				}
				if at := s[0].(float64); found > 0 && at < end {
					t.Errorf("a task of a graph begins at %g, before the end %g of the one before it", at, end)
				}
				end = s[0].(float64) + s[1].(float64)
				found++
			}
		}
	}
	if found != 2 {
		t.Errorf("%d tasks of graphs, want 2", found)
	}
}

// Chosen steps beyond the limit are counted, and a step that is not there is an error.
func TestChosenSteps(t *testing.T) {
	r := testtrace.Steps(t, 20, 12, slow).Reader
	if d := readPage(t, written(t, r, &Options{Steps: []human.Numbers{{First: 1, Last: 1}, {First: 9, Last: 99}}})); len(d.Pictures) < maxPictures-2 || len(d.Pictures) > maxPictures || d.NotDrawn != 2+12-maxPictures {
		t.Errorf("%d pictures, %d not drawn", len(d.Pictures), d.NotDrawn)
	}
	_, err := Write(&bytes.Buffer{}, &Trace{"run.aclt", r}, acl.Model, &Options{Steps: []human.Numbers{{First: 20, Last: 30}}})
	if err == nil || err.Error() != "draw step 20: the trace has 20 steps" {
		t.Errorf("error %v", err)
	}
}
