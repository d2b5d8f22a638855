package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

// exposition is a text that Prometheus scrapes, and the labels that it adds.
type exposition struct {
	Text   string            `json:"text"`
	Labels map[string]string `json:"labels"`
}

// query evaluates a query with Prometheus's own engine.
func query(t *testing.T, texts []exposition, query string) (out []struct {
	Labels map[string]string
	Value  float64
}) {
	t.Helper()
	program := filepath.Join(testenv.Root(t), "build", "promql")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no query engine to test with: `make servers` builds build/promql (%v)", err)
	}
	in, err := json.Marshal(map[string]any{"texts": texts, "query": query})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stdin = bytes.NewReader(in)
	b, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		t.Fatalf("%v\n%s", err, query)
	}
	return out
}

// scraped follows a process that allocates 16 MiB on its device 0 and returns the text that Prometheus gets.
func scraped(t *testing.T, m *api.Model, meta *format.Meta, p *format.Process, device *format.ProcessDevice, allocate string, args []uint64) exposition {
	t.Helper()
	l, err := New(&Options{Model: m, Prometheus: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	l.Begin(meta)
	l.Process(p)
	l.Thread(&format.Thread{TID: p.PID})
	if device != nil {
		l.Device(0, device)
	}
	call := func(name string, start int64, outs []format.Out, args ...uint64) {
		l.Call(&format.Call{Func: uint16(m.Lookup(name).ID), Index: uint64(start), Start: start, End: start + 5, Args: args, Outs: outs}, false)
	}
	if f := m.Lookup("aclrtSetDevice"); f != nil {
		call(f.Name, 10, nil, 0)
	} else {
		call("cuDevicePrimaryCtxRetain", 10, []format.Out{{Param: 0, Value: 0x5000}}, 0x7000, 0)
		call("cuCtxSetCurrent", 15, nil, 0x5000)
	}
	call(allocate, 20, []format.Out{{Param: 0, Value: 0x124000000000}}, args...)
	l.Drained(1e9)
	defer l.End(2e9)
	var text []byte
	testenv.Wait(t, "the allocation on the page", func() bool {
		resp, err := http.Get("http://" + l.Address() + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
		return err == nil && bytes.Contains(text, []byte("\nhw_gpu_memory_usage_bytes"))
	})
	return exposition{string(text), map[string]string{"instance": "recorder"}}
}

// pageQueries returns the queries in docs/reference/metrics.md.
func pageQueries(t *testing.T) (out []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(page), "\n```promql\n")[1:] {
		query, _, _ := strings.Cut(part, "\n```\n")
		out = append(out, query)
	}
	return out
}

// The queries in docs/reference/metrics.md join device memory that a program has allocated with the memory in use that
// npu-exporter, its older releases and DCGM exporter report. Each store has the series of all devices.
func TestJoinsOfThePage(t *testing.T) {
	four := 4
	pod := map[string]string{"k8s.namespace.name": "ml", "k8s.pod.name": "train-0", "k8s.container.name": "trainer"}
	meta := func(host string, m *api.Model) *format.Meta {
		return &format.Meta{UUID: "u-" + host, Host: host, API: m.Name, StartWall: 1_790_000_000_000_000_000}
	}
	simulated := meta("vm", acl.Model)
	simulated.Simulated = true
	malloc, alloc := []uint64{0x7000, 16 << 20, 0}, []uint64{0x7000, 16 << 20}
	ours := []exposition{
		scraped(t, acl.Model, meta("node7", acl.Model), &format.Process{PID: 41, Exe: "/bin/train", Resource: pod}, &format.ProcessDevice{PCI: "0000:db:00.0", HostNumber: &four}, "aclrtMalloc", malloc),
		scraped(t, cuda.Model, meta("node8", cuda.Model), &format.Process{PID: 42, Exe: "/bin/train"}, &format.ProcessDevice{UUID: "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"}, "cuMemAlloc_v2", alloc),
		scraped(t, acl.Model, simulated, &format.Process{PID: 43, Exe: "/bin/train"}, nil, "aclrtMalloc", malloc),
	}
	fixture := func(name, node string) exposition {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return exposition{string(text), map[string]string{"node": node, "instance": node + ":8082"}}
	}
	queries := pageQueries(t)
	want := []struct {
		theirs exposition
		result []string // process, label from the exporter, quotient
	}{
		{fixture("npu-exporter.txt", "node7"), []string{"41 910B3-Ascend-V1 0.25"}},
		{fixture("npu-exporter-old.txt", "node7"), []string{"41  0.25"}},
		{fixture("npu-exporter.txt", "node7"), []string{"43 made up 0.125"}},
		{fixture("npu-exporter.txt", "node7"), []string{"41 910B3-Ascend-V1 0.25"}},
		{fixture("dcgm-exporter.txt", "node8"), []string{"42 NVIDIA H100 80GB HBM3 0.1"}},
	}
	if len(queries) != len(want) {
		t.Fatalf("%d queries in the page, want %d", len(queries), len(want))
	}
	for i, c := range want {
		var got []string
		for _, s := range query(t, append(slices.Clone(ours), c.theirs), queries[i]) {
			got = append(got, fmt.Sprintf("%s %s%s %v", s.Labels["process_pid"], s.Labels["model_name"], s.Labels["modelName"], s.Value))
		}
		if slices.Sort(got); !slices.Equal(got, c.result) {
			t.Errorf("%q, want %q\n%s", got, c.result, queries[i])
		}
	}
}
