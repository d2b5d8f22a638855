package format

import (
	"fmt"
	"slices"
	"strings"
)

// A Schema describes an API's functions, so programs without that API's model can read the trace.
type Schema struct {
	API       string                       `json:"api"`
	Functions []Function                   `json:"functions"`
	Enums     map[string]map[string]string `json:"enums,omitempty"` // type, value in decimal, name
	// Handles are the handle kinds for Param.Handle, by which chunks are indexed, such as "stream".
	Handles []string `json:"handles,omitempty"`

	byID []*Function
}

// A Function is one entry point of the API.
type Function struct {
	ID    uint16 `json:"id"`
	Name  string `json:"name"`
	Ret   string `json:"ret"`   // C type
	Words int    `json:"words"` // argument words of a call, at most MaxWords
	// Pending is the code that a query returns while its object is not complete: that is no failure.
	// 0 for none.
	Pending int32   `json:"pending,omitempty"`
	Params  []Param `json:"params,omitempty"`

	status bool // it returns a status
}

// A Param is a parameter of a function. A structure passed by value takes several words.
type Param struct {
	Name  string `json:"name"`
	Type  string `json:"type"` // C type
	Word  int    `json:"word"` // number of its first word
	Words int    `json:"words"`
	Role  string `json:"role,omitempty"` // defined by the API model, unused here
	// Handle is 1 + the index in Schema.Handles for the first word's handle kind, 0 for none.
	Handle int `json:"handle,omitempty"`
}

// MaxWords bounds a function's argument words.
const MaxWords = 1024

// Func returns the function with the id, or nil. It is safe for several goroutines once the Schema no longer changes and
// was passed to Create or comes from a Reader.
func (s *Schema) Func(id uint16) *Function {
	if int(id) < len(s.byID) {
		return s.byID[id]
	}
	return nil
}

// params returns the function's parameters; none if the schema has no such function, as in a copied trace.
func (s *Schema) params(id uint16) []Param {
	if f := s.Func(id); f != nil {
		return f.Params
	}
	return nil
}

// FuncByName returns the function with the name, or nil.
func (s *Schema) FuncByName(name string) *Function {
	for i := range s.Functions {
		if s.Functions[i].Name == name {
			return &s.Functions[i]
		}
	}
	return nil
}

// FuncName returns the function's name, or one made from its id if the schema has none.
func (s *Schema) FuncName(id uint16) string {
	if f := s.Func(id); f != nil {
		return f.Name
	}
	return fmt.Sprintf("function#%d", id)
}

// HandleKind returns the value of Param.Handle for a handle kind, 0 if the trace has none.
func (s *Schema) HandleKind(name string) int { return slices.Index(s.Handles, name) + 1 }

// Failed reports if ret is an error: not zero, for a function that returns a status. Only the low 32 bits count; the
// calling convention leaves the upper ones undefined. An unknown function, nil, never fails.
func (f *Function) Failed(ret uint64) bool {
	return f != nil && f.status && uint32(ret) != 0 && uint32(ret) != uint32(f.Pending)
}

// ownParams is the recorder's first own parameter number: see SPEC.md, section 5.3.
const ownParams = 248

// has reports if a parameter may have outputs. A schema may leave out a function's parameters.
func (f *Function) has(param uint8) bool {
	return int(param) < len(f.Params) || param >= ownParams || len(f.Params) == 0
}

// isStatus reports if a return type is a status, by its name: aclError, rtError_t, CUresult, aclnnStatus.
func isStatus(ret string) bool {
	t := strings.ToLower(ret)
	return !strings.Contains(t, "*") && (strings.Contains(t, "error") || strings.Contains(t, "result") || strings.Contains(t, "status"))
}

// index prepares the Schema for Func, and refuses an inconsistent one.
func (s *Schema) index() error {
	if len(s.Handles) > anyHandle {
		return fmt.Errorf("schema: %d kinds of handles, at most %d are possible", len(s.Handles), anyHandle)
	}
	byID := make([]*Function, 0, len(s.Functions))
	for i := range s.Functions {
		f := &s.Functions[i]
		if f.Words < 0 || f.Words > MaxWords {
			return fmt.Errorf("schema: %s has %d argument words, at most %d are possible", f.Name, f.Words, MaxWords)
		}
		for _, p := range f.Params {
			if p.Word < 0 || p.Words < 0 || p.Word > f.Words || p.Words > f.Words-p.Word {
				return fmt.Errorf("schema: parameter %s of %s lies outside of its %d words", p.Name, f.Name, f.Words)
			}
			if p.Handle < 0 || p.Handle > len(s.Handles) || p.Handle > 0 && p.Word == f.Words {
				return fmt.Errorf("schema: parameter %s of %s is a handle of kind %d, which is not named", p.Name, f.Name, p.Handle)
			}
		}
		for int(f.ID) >= len(byID) {
			byID = append(byID, nil)
		}
		if byID[f.ID] != nil {
			return fmt.Errorf("schema: %s and %s share the id %d", byID[f.ID].Name, f.Name, f.ID)
		}
		byID[f.ID], f.status = f, isStatus(f.Ret)
	}
	s.byID = byID
	return nil
}
