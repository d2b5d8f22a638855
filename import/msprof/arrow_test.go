package msprof_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/import/msprof"
)

// arrowed has a call that makes two tasks, with arrows and without common connections, control tasks, and an arrow from a moment at which no call runs.
const arrowed = `[
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"CANN"}},
{"ph":"M","name":"process_name","pid":2,"tid":0,"args":{"name":"Ascend Hardware"}},
{"ph":"X","name":"AscendCL@aclnnAdd","pid":1,"tid":5,"ts":"100.000","dur":50,"args":{"level":"acl","connection_id":9}},
{"ph":"X","name":"Node@launch","pid":1,"tid":5,"ts":"110.000","dur":10,"args":{"level":"node"}},
{"ph":"X","name":"Add","pid":2,"tid":3,"ts":"120.000","dur":7,"args":{"Task Type":"AI_CORE","Task Id":1,"connection_id":8}},
{"ph":"X","name":"Mul","pid":2,"tid":3,"ts":"140.000","dur":7,"args":{"Task Type":"Other","Task Id":2}},
{"ph":"X","name":"Sub","pid":2,"tid":3,"ts":"150.000","dur":7,"args":{"Task Type":"AI_CORE","Task Id":3}},
{"ph":"X","name":"PROFILING_ENABLE","pid":2,"tid":3,"ts":"160.000","dur":1,"args":{"Task Type":"PROFILING_ENABLE","Task Id":4}},
{"ph":"X","name":"TASK_TIMEOUT_SET","pid":2,"tid":3,"ts":"161.000","dur":1,"args":{"Task Type":"TASK_TIMEOUT_SET","Task Id":5}},
{"ph":"s","cat":"HostToDevice","name":"HostToDevice1","id":"1","pid":1,"tid":5,"ts":"112.000"},
{"ph":"f","cat":"HostToDevice","name":"HostToDevice1","id":"1","pid":2,"tid":3,"ts":"120.000","bp":"e"},
{"ph":"f","cat":"HostToDevice","name":"HostToDevice2","id":2,"pid":2,"tid":3,"ts":"140.000","bp":"e"},
{"ph":"s","cat":"HostToDevice","name":"HostToDevice2","id":2,"pid":1,"tid":5,"ts":"145.000"},
{"ph":"s","cat":"HostToDevice","name":"HostToDevice3","id":3,"pid":1,"tid":5,"ts":"190.000"},
{"ph":"f","cat":"HostToDevice","name":"HostToDevice3","id":3,"pid":2,"tid":3,"ts":"150.000"}
]`

// Arrows tied no task to its call, and control tasks were kernels.
func TestArrowsTieTasksToCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace_view.json")
	if err := os.WriteFile(path, []byte(arrowed), 0o600); err != nil {
		t.Fatal(err)
	}
	rep, tl := imported(t, &msprof.Profile{Trace: path})
	if rep.Kernels != 3 || rep.Tasks != 3 || rep.Untied != 1 || rep.Left["task of the scheduler: TASK_TIMEOUT_SET"] != 1 || rep.Left["task of the scheduler: PROFILING_ENABLE"] != 1 {
		t.Errorf("%+v", rep)
	}
	issued := map[string]int64{}
	for i := range tl.Tasks {
		issued[tl.Tasks[i].Name] = tl.Tasks[i].Issued
	}
	if issued["Add"] != 10_000 || issued["Mul"] != 0 || issued["Sub"] != 50_000 { // with the launch, the call, and at its own start
		t.Errorf("%v", issued)
	}
}

// A folder whose JSON has no task was refused, though its table has kernels.
func TestFolderFallsBackToItsTable(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"msprof_001.json": `[{"name":"k","pid":1000,"tid":1716,"ts":"1000000.000","dur":42399.12,"ph":"X","args":{"Task Type":"MIX_AIC","Task Id":0}}]`,
		"op_summary_001.csv": "Device_id,Task ID,Stream ID,Op Name,Task Type,Task Start Time(us),Task Duration(us),Block Dim\n" +
			"0,0,7,k,MIX_AIC,1000000.000,42399.120,256\n0,1,7,k,MIX_AIC,1042400.000,42058.480,256\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := msprof.Find(dir)
	if err != nil || !strings.HasSuffix(p.Kernels, ".csv") {
		t.Fatal(p, err)
	}
	rep, tl := imported(t, p)
	if rep.Left["row of a process without a name"] != 1 {
		t.Errorf("left out: %v", rep.Left)
	}
	if rep.Kernels != 2 || len(tl.Tasks) != 2 || tl.Tasks[1].To-tl.Tasks[1].From != 42_058_480 {
		t.Errorf("%+v", rep)
	}
}
