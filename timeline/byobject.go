package timeline

import "iter"

// ByObject holds a value for each object of a State. It is a table by Object.ID, since every call looks up several objects. Objects without an
// ID, such as stand-ins that a caller makes, and nil are in a map. The zero value is empty.
type ByObject[T any] struct {
	byID []objectValue[T]
	rest map[*Object]T
}

type objectValue[T any] struct {
	object *Object // nil if the object has no value
	value  T
}

// Get returns an object's value, false if it has none.
func (m *ByObject[T]) Get(o *Object) (T, bool) {
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

// Set gives an object a value.
func (m *ByObject[T]) Set(o *Object, v T) {
	if o == nil || o.ID == 0 {
		if m.rest == nil {
			m.rest = map[*Object]T{}
		}
		m.rest[o] = v
		return
	}
	if o.ID >= len(m.byID) {
		m.byID = append(m.byID, make([]objectValue[T], o.ID+1-len(m.byID))...)
	}
	m.byID[o.ID] = objectValue[T]{o, v}
}

// Delete takes an object's value away.
func (m *ByObject[T]) Delete(o *Object) {
	if o == nil || o.ID == 0 {
		delete(m.rest, o)
	} else if o.ID < len(m.byID) && m.byID[o.ID].object == o {
		m.byID[o.ID] = objectValue[T]{}
	}
}

// All iterates over the objects with an ID, by ID.
func (m *ByObject[T]) All() iter.Seq2[*Object, T] {
	return func(yield func(*Object, T) bool) {
		for i := range m.byID {
			if v := &m.byID[i]; v.object != nil && !yield(v.object, v.value) {
				return
			}
		}
	}
}
