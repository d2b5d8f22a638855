package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// Regression: commands reported half a trace as completely replayed, packed or merged, with exit code 0, and their
// output as complete.
func TestIncompleteTraces(t *testing.T) {
	program, dir := testenv.Example(t, "tiny_decoder"), t.TempDir()
	kernels := os.Getenv("ACLSIM_KERNELS")
	at := func(name string) string { return filepath.Join(dir, name) }
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o := &record.Options{Model: acl.Model, Output: at("whole.aclt"), Command: []string{program, "--tokens", "200", "--quiet"}, Sim: true, Capture: record.Capture{Replayable: true}, Stdin: null, Stdout: null}
	if _, err := record.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	lost := human.Plural(damage(t, at("whole.aclt"), at), "call") + " lost at 1 place"

	of := func(name string) (trace string, reasons []string) {
		switch name {
		case "half":
			return at("half.aclt"), []string{"the file has no end"}
		case "flipped":
			return at("flipped.aclt"), []string{lost, "damaged in 1 place", "the file was damaged"}
		default:
			return at("without.aclt"), []string{"the end contradicts the file, " + lost}
		}
	}
	for _, name := range []string{"half", "flipped", "without"} {
		trace, reasons := of(name)
		for _, c := range []struct {
			args  []string
			codes []int
		}{
			{[]string{"stats", trace}, []int{0}},
			{[]string{"stats", "--strict", trace}, []int{exitLacks}},
			{[]string{"cat", "--strict", trace}, []int{exitLacks}},
			{[]string{"where", "--map", trace}, []int{0}},
			{[]string{"diff", trace, at("whole.aclt")}, []int{exitDiffers, exitUnclear, exitLacks}},
			{[]string{"export", "pprof", trace, "-f", "-o", at("x.pb.gz")}, []int{exitLacks}},
			{[]string{"pack", trace, "-f", "-o", at("pack.aclt")}, []int{exitLacks}},
			{[]string{"recover", trace, "-f", "-o", at("recover.aclt")}, []int{exitLacks}},
			{[]string{"merge", trace, "-f", "-o", at("merge.aclt")}, []int{exitLacks}},
			{[]string{"info", at("pack.aclt")}, []int{0}},
			{[]string{"info", at("recover.aclt")}, []int{0}},
			{[]string{"info", "--strict", at("merge.aclt")}, []int{exitLacks}},
			{[]string{"replay", "--verify", "--kernels", kernels, at("pack.aclt")}, []int{exitLacks}},
			{[]string{"replay", "--verify", "--kernels", kernels, at("merge.aclt")}, []int{exitLacks}},
			{[]string{"bundle", "--kernels", kernels, "-o", at(name + " bundle"), at("recover.aclt")}, []int{exitLacks}},
		} {
			var out, errs bytes.Buffer
			code := run(c.args, strings.NewReader(""), &out, &errs)
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			last := lines[len(lines)-1]
			says := slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(last, r) })
			if !slices.Contains(c.codes, code) || !strings.Contains(last, ": not complete: ") || !says {
				t.Errorf("%s, acltrace %s: exit code %d, last line %q", name, strings.Join(c.args, " "), code, last)
			}
		}
	}
	// A requested window is no loss.
	var out, errs bytes.Buffer
	launch := ""
	r, err := format.Open(at("whole.aclt"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Schema().FuncName(c.Func) == "aclrtLaunchKernelWithHostArgs" || r.Schema().FuncName(c.Func) == "aclrtLaunchKernelWithConfig" {
			launch = strconv.FormatUint(c.Index, 10)
			break
		}
	}
	r.Close()
	if code := run([]string{"extract", at("whole.aclt"), "--call", launch, "-o", at("e.aclt")}, strings.NewReader(""), &out, &errs); code != 0 || strings.Contains(errs.String(), "not complete") {
		t.Fatalf("extract: exit code %d: %s", code, &errs)
	}
	errs.Reset()
	if code := run([]string{"info", "--strict", at("e.aclt")}, strings.NewReader(""), &out, &errs); code != 0 || !strings.HasSuffix(errs.String(), " that the launch does not need were left out\n") {
		t.Errorf("info of an extract: exit code %d: %s", code, &errs)
	}
}

// damage makes three variants: cut in the middle, with a flipped bit there, and without a chunk of calls. It returns the number of
// calls in the damaged chunk. A slow recorder makes more chunks.
func damage(t *testing.T, trace string, at func(string) string) (calls uint64) {
	t.Helper()
	const header, chunkHeader, events = 64, 64, 3 // from format/SPEC.md
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	type chunk struct{ at, size int }
	var all []chunk
	for o := header; o+chunkHeader <= len(b) && string(b[o:o+4]) == "ACLK"; {
		n := int(binary.LittleEndian.Uint32(b[o+8:]))
		size := chunkHeader + (n+7)&^7
		if b[o+4] == events {
			all = append(all, chunk{o, size})
		}
		o += size
	}
	if len(all) < 2 {
		t.Fatalf("%d chunks of calls", len(all))
	}
	c := all[len(all)/2]
	flipped := bytes.Clone(b)
	flipped[c.at+c.size/2] ^= 1
	for name, b := range map[string][]byte{"half": b[:c.at+100], "flipped": flipped, "without": slices.Concat(b[:c.at], b[c.at+c.size:])} {
		if err := os.WriteFile(at(name+".aclt"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var chunks []uint64
	for c := range r.Chunks() {
		if c.Calls > 0 {
			chunks = append(chunks, c.Calls)
		}
	}
	if len(chunks) != len(all) {
		t.Fatalf("%d chunks of calls, and %d in the file", len(chunks), len(all))
	}
	return chunks[len(chunks)/2]
}
