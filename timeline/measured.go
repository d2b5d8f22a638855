package timeline

import (
	"encoding/binary"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A meter finds when the device did the task of a call, where that was measured. It may be known with the call, or long after it.
type meter struct {
	late *format.LateData // nil where nothing was measured so
}

func newMeter(r *format.Reader) (meter, error) {
	if r.Meta().DeviceTime == nil {
		return meter{}, nil
	}
	late, err := r.LateData(api.TaskStartParam)
	return meter{late}, err
}

// measured returns when the task of a call began and ended, on the clock of the call. Calls must come by their start.
func (m *meter) measured(c *format.Call) (from, to int64, ok bool, err error) {
	start, began := out(c, api.TaskStartParam)
	end, ended := out(c, api.TaskEndParam)
	if began && ended {
		return int64(start), int64(end), int64(start) <= int64(end), nil
	}
	if m.late == nil {
		return 0, 0, false, nil
	}
	var b []byte
	for i := range c.Data {
		if d := &c.Data[i]; d.Param == api.TaskStartParam {
			b = d.Bytes
		}
	}
	if b == nil {
		b, err = m.late.Of(c.Index)
	}
	if len(b) != 16 {
		return 0, 0, false, err
	}
	from, to = int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	return from, to, from <= to, nil
}
