package timeline

// texts numbers texts from 1, and holds each once. The empty text is 0.
type texts struct {
	list []string
	ids  map[string]int32
}

// maxTexts bounds the texts that are held: the trace of a stranger may have a new one in each call. Further texts are empty.
const maxTexts = 1 << 16

func (t *texts) of(b []byte) string {
	if id := t.id(b); id > 0 {
		return t.list[id]
	}
	return ""
}

func (t *texts) id(b []byte) int32 {
	if len(b) == 0 {
		return 0
	}
	id, ok := t.ids[string(b)]
	if !ok {
		if t.ids == nil {
			t.list, t.ids = []string{""}, map[string]int32{}
		}
		if len(t.list) == maxTexts {
			return 0
		}
		id = int32(len(t.list))
		t.list = append(t.list, string(b))
		t.ids[t.list[id]] = id
	}
	return id
}
