package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	colmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// got is the data that an OTLP receiver got.
type got struct {
	sync.Mutex
	calls    map[string]int64 // newest acl.calls sum by resource: a canceled request may be answered last
	at       map[string]uint64
	launches map[string]int  // launches in spans, by trace
	why      map[string]int  // roots, by acl.sampled
	source   map[string]bool // step sources
}

func (g *got) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(r.Body); err == nil {
			body = z
		}
	}
	b, _ := io.ReadAll(body)
	g.Lock()
	defer g.Unlock()
	var answer proto.Message = &coltracepb.ExportTraceServiceResponse{}
	if strings.HasSuffix(r.URL.Path, "/metrics") {
		answer = &colmetricspb.ExportMetricsServiceResponse{}
		var m colmetricspb.ExportMetricsServiceRequest
		_ = proto.Unmarshal(b, &m)
		for _, rm := range m.ResourceMetrics {
			if len(rm.ScopeMetrics) == 0 {
				continue // sent before the recording, to try the receiver
			}
			for _, x := range rm.ScopeMetrics[0].Metrics {
				if x.Name == "acl.calls" {
					sum, at := int64(0), uint64(0)
					for _, p := range x.GetSum().DataPoints {
						sum += p.GetAsInt()
						at = max(at, p.TimeUnixNano)
					}
					if of := rm.Resource.String(); at >= g.at[of] {
						g.calls[of], g.at[of] = sum, at
					}
				}
			}
		}
	} else {
		var m coltracepb.ExportTraceServiceRequest
		_ = proto.Unmarshal(b, &m)
		for _, rs := range m.ResourceSpans {
			if len(rs.ScopeSpans) == 0 {
				continue
			}
			for _, s := range rs.ScopeSpans[0].Spans {
				if strings.HasPrefix(s.Name, "launch ") {
					g.launches[string(s.TraceId)]++
				}
				for _, a := range s.Attributes {
					switch a.Key {
					case "acl.sampled":
						g.why[a.Value.GetStringValue()]++
					case "acl.step.source":
						g.source[a.Value.GetStringValue()] = true
					}
				}
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	answered, _ := proto.Marshal(answer)
	_, _ = w.Write(answered)
}

// ownLibraries returns a folder with the simulator for one test, so that no other program's calls appear.
func ownLibraries(t *testing.T) string {
	libs := t.TempDir()
	for _, name := range []string{"libascendcl.so", "libaclsim.so"} {
		b, err := os.ReadFile(testenv.Built(t, "lib/"+name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(libs, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return libs
}

// An attached recording writes payloads to a file of their own if asked.
func TestAttachBlobs(t *testing.T) {
	acltrace, libs := testenv.Built(t, "bin/acltrace"), ownLibraries(t)
	job := exec.Command(testenv.CompileC(t, "copies", []string{"testdata/copies.c"}))
	job.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libs)
	more, err := job.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	done, err := job.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		more.Close()
		_ = job.Wait()
	}()
	one := make([]byte, 1)
	if _, err := io.ReadFull(done, one); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	trace, blobs := filepath.Join(dir, "run.aclt"), filepath.Join(dir, "run.blobs")
	var said bytes.Buffer
	attach := exec.Command(acltrace, "attach", "--pid", strconv.Itoa(job.Process.Pid), "-o", trace, "--blobs", blobs)
	attach.Stderr = &said
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- attach.Wait() }()
	// Copy until the file has a copy.
	var failed error
	gone := false
	testenv.Await(func() bool {
		if _, failed = more.Write(one); failed == nil {
			_, failed = io.ReadFull(done, one)
		}
		select {
		case err := <-ended:
			gone = true
			ended <- err
		default:
		}
		st, err := os.Stat(blobs)
		return failed != nil || gone || err == nil && st.Size() > 8192
	})
	_ = attach.Process.Signal(os.Interrupt)
	err = <-ended
	if strings.Contains(said.String(), "not permitted") || strings.Contains(said.String(), "not supported") {
		t.Skipf("no uprobes here: %s", said.String())
	}
	if err != nil || failed != nil || gone || !strings.Contains(said.String(), "of payloads in "+blobs) {
		t.Fatalf("%v, %v: %s", err, failed, said.String())
	}
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if of := r.Meta().BlobFile; of != "run.blobs" {
		t.Errorf("payloads are in %q", of)
	}
	found := 0
	for d, err := range r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Blob == 0 {
			continue
		}
		b, err := r.Blob(d.Blob)
		if err != nil || len(b) != 8192 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		for i := range b {
			if x := uint32(i)*2654435761 + uint32(b[0]); i > 0 && b[i] != byte(x>>13^x>>24) {
				t.Fatalf("byte %d of a copy is %d", i, b[i])
			}
		}
		found++
	}
	if found == 0 {
		t.Error("no copy has its payload")
	}
}

// An attached program sends metrics and steps by the flags that record has: one step in four, and each slow step.
func TestAttachHandsOn(t *testing.T) {
	root := testenv.Root(t)
	acltrace, program := testenv.Built(t, "bin/acltrace"), testenv.Example(t, "tiny_decoder")
	libs := ownLibraries(t)
	job := exec.Command(program, "--kernels", testenv.Built(t, "bin/examples/decoder_kernels.o"), "--tokens", "100000", "--sleep-ms", "10", "--quiet")
	job.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libs, "ACLSIM_KERNELS="+filepath.Join(root, "bin/examples/decoder_kernels.so"))
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = job.Process.Kill()
		_ = job.Wait()
	}()
	for _, c := range []struct {
		flags []string
		why   string
	}{
		{[]string{"--sample-steps", "4"}, "sampled"},
		{[]string{"--slow-step", "1ns", "--sample-steps", "0"}, "slow"},
	} {
		seen := &got{calls: map[string]int64{}, at: map[string]uint64{}, launches: map[string]int{}, why: map[string]int{}, source: map[string]bool{}}
		s := httptest.NewServer(seen)
		out := filepath.Join(t.TempDir(), "run.aclt")
		var said bytes.Buffer
		attach := exec.Command(acltrace, append([]string{"attach", "--pid", strconv.Itoa(job.Process.Pid), "-o", out, "--metrics", "otlp", "--metrics", "prometheus=127.0.0.1:0",
			"--otlp", s.URL, "--otlp-protocol", "http/protobuf", "--step-marker", "aclrtSynchronizeStream"}, c.flags...)...)
		attach.Env = append(os.Environ(), "OTEL_METRIC_EXPORT_INTERVAL=200")
		stderr, err := attach.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := attach.Start(); err != nil {
			t.Fatal(err)
		}
		served := make(chan string, 1)
		read := make(chan struct{})
		go func() {
			defer close(read)
			at := regexp.MustCompile(`http://\S+/metrics`)
			for buf := make([]byte, 4096); ; {
				n, err := stderr.Read(buf)
				said.Write(buf[:n])
				if url := at.FindString(said.String()); url != "" && served != nil {
					served <- url
					served = nil
				}
				if err != nil {
					return
				}
			}
		}()
		page := ""
		select {
		case url := <-served:
			// Until the values checked below have arrived.
			testenv.Await(func() bool {
				if res, err := http.Get(url); err == nil {
					b, _ := io.ReadAll(res.Body)
					res.Body.Close()
					page = string(b)
				} else if page != "" {
					return true
				}
				seen.Lock()
				defer seen.Unlock()
				return strings.Contains(page, "acl_calls_total") && seen.why[c.why] >= 3
			})
			_ = attach.Process.Signal(os.Interrupt)
		case <-read:
		}
		<-read
		err = attach.Wait()
		s.Close()
		if strings.Contains(said.String(), "not permitted") || strings.Contains(said.String(), "not supported") {
			t.Skipf("no uprobes here: %s", said.String())
		}
		if err != nil {
			t.Fatalf("%v %s", err, said.String())
		}
		r, err := format.Open(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		counts, err := r.Counts()
		r.Close()
		pushed := int64(0)
		for _, n := range seen.calls {
			pushed += n
		}
		if err != nil || counts.Calls == 0 || pushed != int64(counts.Calls) {
			t.Errorf("%v: %d calls in the last push, %d in the trace", err, pushed, counts.Calls)
		}
		if !strings.Contains(page, `acl_calls_total{`) {
			t.Errorf("Prometheus gets %.300q", page)
		}
		if seen.why[c.why] < 3 || len(seen.why) != 1 || len(seen.launches) != seen.why[c.why] || !seen.source["told"] {
			t.Errorf("%q: roots %v, launches in %d traces, source %v: %s", c.flags, seen.why, len(seen.launches), seen.source, said.String())
		}
	}
}
