package html

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
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
	Runs     []run
	Pictures []struct {
		Title    string
		Step     int
		From, To int64
		Rows     []struct {
			Name   string
			Device bool
			Slices [][]any
		}
		Joined bool
	}
	Memory memory
	Tables []table
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

func (d *got) table(title string) *table {
	for i := range d.Tables {
		if d.Tables[i].Title == title {
			return &d.Tables[i]
		}
	}
	return &table{}
}

func slow(s, _ int) int64 {
	if s == 7 {
		return 90_000
	}
	return 20_000 + int64(s%3)*100
}

// The figures of a page are those of stats.
func TestFiguresAreThoseOfStats(t *testing.T) {
	for name, r := range map[string]*format.Reader{"steps": testtrace.Steps(t, 20, 12, slow).Reader, "rich": testtrace.Rich(t).Reader, "ranks": testtrace.Ranks(t).Reader} {
		t.Run(name, func(t *testing.T) {
			d := readPage(t, written(t, r, nil))
			s, err := stats.New(r, acl.Model, nil)
			if err != nil {
				t.Fatal(err)
			}
			if f := d.table("Functions"); len(f.Rows) != len(s.Functions) {
				t.Errorf("%d functions, want %d", len(f.Rows), len(s.Functions))
			}
			for i, row := range d.table("Functions").Rows {
				f := &s.Functions[i]
				if want := []any{f.Func, float64(f.Calls), float64(f.Failed), float64(f.TotalNS), float64(f.MeanNS), float64(f.P50NS), float64(f.P99NS), float64(f.MaxNS)}; !slices.Equal(row, want) {
					t.Errorf("%v, want %v", row, want)
				}
			}
			for i, row := range d.table("Kernels").Rows {
				if k := &s.Kernels[i]; row[1] != float64(k.Count) || k.Measured > 0 && row[4] != float64(k.DeviceNS) {
					t.Errorf("%v, want %+v", row, k)
				}
			}
			if r := d.Runs[0]; r.Median != s.Steps.P50NS || r.P99 != s.Steps.P99NS || r.Steps != s.Steps.Count || len(r.Bars) != s.Steps.Count {
				t.Errorf("%+v, want %+v", r, s.Steps)
			}
			if len(d.Findings) != len(s.Findings) {
				t.Errorf("%d findings, want %d", len(d.Findings), len(s.Findings))
			}
			if d.Memory.Peak != s.PeakDeviceBytes {
				t.Errorf("peak %d, want %d", d.Memory.Peak, s.PeakDeviceBytes)
			}
			atPeak := float64(0)
			for _, row := range d.Memory.Owners.Rows {
				atPeak += row[0].(float64)
			}
			if atPeak != float64(s.PeakDeviceBytes) {
				t.Errorf("the owners at the peak have %g bytes, want %d", atPeak, s.PeakDeviceBytes)
			}
		})
	}
}

// The longest and a median step are drawn with all their calls, and further steps that are asked for.
func TestPicturesOfSteps(t *testing.T) {
	tl := testtrace.Steps(t, 20, 12, slow)
	d := readPage(t, written(t, tl.Reader, &Options{Steps: &human.Numbers{First: 3, Last: 4}}))
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
		if !r.Device {
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

// The bars of a strip cover all steps without holes, and show the longest step of each.
func TestBarsCoverAllSteps(t *testing.T) {
	for _, n := range []int{1, 1023, 1024, 1025, 5000, 99_999} {
		x := &survey{wide: 1}
		ns := make([]int64, n)
		for i := range n {
			ns[i] = rand.New(rand.NewPCG(uint64(i), 3)).Int64N(1000)
			x.bar(bar{first: i, last: i, longest: i, ns: ns[i]})
		}
		next := 0
		for _, b := range x.bars {
			if b.first != next || b.ns != ns[b.longest] || b.ns != slices.Max(ns[b.first:b.last+1]) {
				t.Fatalf("%d steps: %+v after step %d", n, b, next-1)
			}
			next = b.last + 1
		}
		if next != n || len(x.bars) > maxBars {
			t.Errorf("%d steps: %d bars up to step %d", n, len(x.bars), next-1)
		}
	}
}

// A memory curve keeps its highest value however many changes there are.
func TestCurveKeepsItsPeak(t *testing.T) {
	l, peak := &line{every: 1}, int64(0)
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range int64(100_000) {
		v := rnd.Int64N(1 << 40)
		peak = max(peak, v)
		l.add(i, v)
	}
	top := int64(0)
	for i, p := range l.Points {
		top = max(top, p[1])
		if i > 0 && p[0] <= l.Points[i-1][0] {
			t.Fatalf("%v follows %v", p, l.Points[i-1])
		}
	}
	if top != peak || len(l.Points) > maxPoints {
		t.Errorf("%d points up to %d, want %d", len(l.Points), top, peak)
	}
}

func TestCompareShowsBothRuns(t *testing.T) {
	before := testtrace.Steps(t, 30, 12, func(s, _ int) int64 { return 20_000 + int64(s%3)*100 })
	now := testtrace.Steps(t, 30, 12, func(s, _ int) int64 { return 30_000 + int64(s%3)*100 })
	d := readPage(t, written(t, now.Reader, &Options{Compare: &Trace{"before.aclt", before.Reader}}))
	if len(d.Runs) != 2 || d.Runs[1].Name != "before.aclt" || d.Runs[0].Median <= d.Runs[1].Median {
		t.Errorf("runs: %+v", d.Runs)
	}
	if c := d.table("Changes"); len(c.Rows) == 0 || c.Rows[0][0] == "" {
		t.Errorf("changes: %+v", c)
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
	root := testenv.Root(t)
	if _, err := os.Stat(filepath.Join(root, "build/viewers/node_modules/playwright-core")); err != nil {
		t.Skipf("the page was NOT opened: scripts/viewers.sh fetches playwright-core from npm (%v)", err)
	}
	if !slices.ContainsFunc([]string{"chromium", "chromium-browser", "google-chrome"}, func(name string) bool { _, err := exec.LookPath(name); return err == nil }) {
		t.Skip("the page was NOT opened: there is no Chromium")
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("node", append([]string{filepath.Join(root, "scripts/html-page.mjs"), file}, actions...)...)
	c.Env = append(os.Environ(), "PATIENCE_MS="+strconv.FormatInt(testenv.Patience.Milliseconds(), 10))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil || json.Unmarshal(out, &l) != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
		"click=#tables div:last-of-type > .scroll th:nth-of-type(2)", "values=#tables div:last-of-type > .scroll td:nth-of-type(2)", "text=#about dd")
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
