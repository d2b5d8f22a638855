package ring

import (
	"errors"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
)

// A program that overwrote its ring with a time record of 8 bytes crashed the recorder.
func TestShortRecordIsDamage(t *testing.T) {
	s := &Session{model: acl.Model}
	for kind := range 256 {
		r := &ring{owners: owners{list: []owner{{}}}}
		if err := r.record(s, nil, []byte{8, 0, 0, 0, 0, 0, byte(kind), stateDone}, stateDone); !errors.Is(err, errRing) {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}
