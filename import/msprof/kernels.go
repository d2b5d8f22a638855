package msprof

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/import/internal/events"
)

// column lists the names that a kernel table column has had.
type column []string

var (
	nameColumn     = column{"Name", "Op Name"}
	startColumn    = column{"Start Time(us)", "Task Start Time(us)"}
	durationColumn = column{"Duration(us)", "Task Duration(us)"}
	streamColumn   = column{"Stream ID"}
	taskColumn     = column{"Task ID"}
	blocksColumn   = column{"Block Dim", "Block Num"}
	deviceColumn   = column{"Device_id", "Device ID"}
	coreColumn     = column{"Accelerator Core", "Task Type"}
	stepColumn     = column{"Step Id"}
	typeColumn     = column{"Type", "OP Type"}
	inputColumns   = [3]column{{"Input Shapes"}, {"Input Data Types"}, {"Input Formats"}}
	outputColumns  = [3]column{{"Output Shapes"}, {"Output Data Types"}, {"Output Formats"}}
)

// find returns the column's index, -1 if missing.
func (c column) find(header []string) int {
	return slices.IndexFunc(header, func(h string) bool { return slices.Contains(c, strings.TrimSpace(h)) })
}

// kernels reads a kernel table. beside means that a Chrome trace has the tasks: then the table only adds block counts.
func (im *importer) kernels(path string, f io.Reader, beside bool) error {
	r := csv.NewReader(bufio.NewReaderSize(f, 1<<20))
	r.LazyQuotes, r.ReuseRecord = true, true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		err = errors.New("the table is empty")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	header = slices.Clone(header)
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	at := map[string]int{}
	for _, c := range slices.Concat([]column{nameColumn, startColumn, durationColumn, streamColumn, taskColumn, blocksColumn, deviceColumn, coreColumn, stepColumn, typeColumn}, inputColumns[:], outputColumns[:]) {
		at[c[0]] = c.find(header)
	}
	for _, c := range []column{nameColumn, startColumn, durationColumn} {
		if at[c[0]] < 0 {
			return fmt.Errorf("%s:1: no column \"%s\": this is no table of kernels as the profiler writes it", path, strings.Join(c, `" or "`))
		}
	}
	known := im.tasks(beside)
	steps := map[string]*row{}
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err) // names line and column
		}
		fail := func(c column, err error) error {
			line, col := r.FieldPos(at[c[0]])
			return fmt.Errorf("%s:%d:%d: %s %q: %w", path, line, col, header[at[c[0]]], rec[at[c[0]]], err)
		}
		field := func(c column) string {
			if i := at[c[0]]; i >= 0 {
				return strings.TrimSpace(rec[i])
			}
			return ""
		}
		k := row{kind: kernel, conn: -1, name: im.name(field(nameColumn))}
		if k.start, err = events.Number(field(startColumn)).Nanoseconds(); err != nil {
			return fail(startColumn, err)
		}
		if k.dur, err = events.Number(field(durationColumn)).Nanoseconds(); err != nil {
			return fail(durationColumn, err)
		}
		blocks, _ := strconv.ParseUint(field(blocksColumn), 10, 32)
		k.blocks = uint32(blocks)
		var in, out [3]string
		for i := range in {
			in[i], out[i] = field(inputColumns[i]), field(outputColumns[i])
		}
		k.shape = im.shape(im.names[k.name], field(typeColumn), in, out)
		if beside {
			if i, ok := known[[2]int64{k.start, int64(k.name)}]; ok {
				im.rows[i].blocks, im.rows[i].shape = k.blocks, k.shape
				im.shaped(&k)
			} else {
				im.rep.Left["kernel of the table that the trace does not have"]++
			}
			continue
		}
		device, _ := events.Number(field(deviceColumn)).Int()
		stream, streamErr := strconv.ParseUint(field(streamColumn), 10, 32)
		task, taskErr := strconv.ParseUint(field(taskColumn), 10, 32)
		l := lane{process: device, id: int64(stream)}
		if streamErr != nil {
			l.name = strings.ToLower(field(coreColumn)) // a collective uses many streams
			if strings.Contains(l.name, "communication") || strings.Contains(l.name, "hccl") {
				im.rep.Collectives++
			}
		}
		k.task, k.known = uint32(task), streamErr == nil && taskErr == nil && task <= math.MaxUint32
		k.lane = im.lane(l)
		im.add(&k)
		im.shaped(&k)
		if id := field(stepColumn); id != "" && id != "N/A" {
			im.widen(steps, id, &k)
		}
	}
	if im.rep.Steps > 0 {
		return nil // the trace has the steps
	}
	for _, s := range steps {
		im.add(s)
	}
	return nil
}

// tasks returns the kernels known from a Chrome trace, by start and name.
func (im *importer) tasks(beside bool) map[[2]int64]int {
	if !beside {
		return nil
	}
	known := map[[2]int64]int{}
	for i := range im.rows {
		if r := &im.rows[i]; r.kind == kernel {
			known[[2]int64{r.start, int64(r.name)}] = i
		}
	}
	return known
}

// widen extends a step to include a kernel.
func (im *importer) widen(steps map[string]*row, id string, k *row) {
	s := steps[id]
	if s == nil {
		id = strings.Clone(id)
		steps[id] = &row{kind: step, conn: -1, name: im.name("ProfilerStep#" + id), start: k.start, dur: k.dur}
		return
	}
	end := max(s.start+s.dur, k.start+k.dur)
	s.start = min(s.start, k.start)
	s.dur = end - s.start
}
