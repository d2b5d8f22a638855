package compile

import "github.com/acltrace/acltrace/timeline"

// perObject holds a value for each object of a timeline.State. It is a table by Object.ID, since every call looks up several objects.
// Objects without an ID, such as stand-ins that the compiler makes, and nil are in a map.
type perObject[T any] struct {
	byID []objectValue[T]
	rest map[*timeline.Object]T
}

type objectValue[T any] struct {
	object *timeline.Object // nil if the object has no value
	value  T
}

// get returns an object's value, false if it has none.
func (m *perObject[T]) get(o *timeline.Object) (T, bool) {
	if o == nil || o.ID == 0 {
		v, ok := m.rest[o]
		return v, ok
	}
	if o.ID < len(m.byID) && m.byID[o.ID].object == o {
		return m.byID[o.ID].value, true
	}
	var none T
	return none, false
}

func (m *perObject[T]) set(o *timeline.Object, v T) {
	if o == nil || o.ID == 0 {
		if m.rest == nil {
			m.rest = map[*timeline.Object]T{}
		}
		m.rest[o] = v
		return
	}
	if o.ID >= len(m.byID) {
		m.byID = append(m.byID, make([]objectValue[T], o.ID+1-len(m.byID))...)
	}
	m.byID[o.ID] = objectValue[T]{o, v}
}
