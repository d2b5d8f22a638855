package acl

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
)

// configuration is what aclInit's file says that the simulator heeds. The rest (dumps, profiling, stack sizes) changes nothing here.
type configuration struct {
	text          string
	shared        bool // error messages belong to the process, not to each thread
	defaultDevice int32
}

// noDevice says that threads have no device before they set one.
const noDevice = -1

// readConfiguration reads the file, whose path may be empty.
func readConfiguration(path string) (configuration, *fail.Failure) {
	c := configuration{defaultDevice: noDevice}
	if path == "" {
		return c, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, failed(acl.ACL_ERROR_INVALID_FILE, "configuration %s: %v", path, err)
	}
	c.text = string(b)
	if strings.TrimSpace(c.text) == "" {
		return c, nil
	}
	var file struct {
		ErrMsgMode    *string `json:"err_msg_mode"`
		DefaultDevice struct {
			ID *string `json:"default_device"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return c, failed(acl.ACL_ERROR_PARSE_FILE, "configuration %s: %v", path, err)
	}
	invalid := func(key, value string) *fail.Failure {
		return failed(acl.ACL_ERROR_INVALID_PARAM, "configuration %s: %s is %q", path, key, value)
	}
	if m := file.ErrMsgMode; m != nil {
		if *m != "0" && *m != "1" {
			return c, invalid("err_msg_mode", *m)
		}
		c.shared = *m == "1" && !mutant.Breaks("messages_of_the_process")
	}
	if d := file.DefaultDevice.ID; d != nil {
		n, err := strconv.ParseUint(*d, 10, 31)
		if err != nil {
			return c, invalid("default_device", *d)
		}
		if !mutant.Breaks("device_of_the_configuration") {
			c.defaultDevice = int32(n)
		}
	}
	return c, nil
}

// messages are the texts of errors where they belong to the process. Else each thread has its own.
type messages struct {
	shared atomic.Bool
	mu     sync.Mutex
	last   string
}

// say keeps the text of an error.
func (t *Thread) say(text string) {
	m := &t.sim.messages
	if !m.shared.Load() {
		t.message = text
		return
	}
	m.mu.Lock()
	m.last = text
	m.mu.Unlock()
}

// takeMessage returns the text that was kept last, once.
func (t *Thread) takeMessage() string {
	text := &t.message
	if m := &t.sim.messages; m.shared.Load() {
		m.mu.Lock()
		defer m.mu.Unlock()
		text = &m.last
	}
	last := *text
	if !mutant.Breaks("message_is_taken") {
		*text = ""
	}
	return last
}
