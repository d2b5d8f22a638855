package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"go.yaml.in/yaml/v3"
)

// direction lists the values of an enumeration that declare a copy's source, or its destination, to be host memory.
type direction struct{ Reads, Writes []uint8 }

// direct applies a direction to all copies with a parameter of the enumeration.
func (m *model) direct(enum string, d direction) error {
	bits := func(values []uint8) (b uint16) {
		for _, v := range values {
			b |= 1 << v
		}
		return b
	}
	found := false
	for i := range m.Funcs {
		f := &m.Funcs[i]
		kind := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Type == enum })
		if kind < 0 {
			continue
		}
		for n := range f.Params {
			switch p := &f.Params[n]; p.Role {
			case api.Reads:
				p.Hosts, found = api.Kinds{Param: uint8(kind), Bits: bits(d.Reads)}, true
			case api.Writes:
				p.Hosts, found = api.Kinds{Param: uint8(kind), Bits: bits(d.Writes)}, true
			}
		}
	}
	if !found {
		return errors.New("no copy has a parameter of this type")
	}
	return nil
}

type semantics struct {
	Task    api.Task
	Sync    api.Sync
	Capture api.Capture
	Edit    api.Edit
	Range   api.Range
	Shares  api.Share
	Stack   api.Stack

	Initializes, Collective bool
	PollsCallbacks          bool `yaml:"polls_callbacks"`
	ParamSizes              bool `yaml:"param_sizes"`

	Ret, Selects, Device, Entry, Names, Graph string
	StandIn, Subscribes, Replay, Stops        string
	api.CaptureRules                          `yaml:",inline"`
	ofOperator                                `yaml:",inline"`
	Keeps                                     []string
	Params                                    map[string]string // roles
}

// ofOperator is a function's part in operators.
type ofOperator struct {
	Operator api.OperatorMark
	Operand  api.Operand
}

// document is the content of semantics.yaml.
type document struct {
	Layer       layer
	Variants    []string
	Aliases     map[string]string
	Unmodelled  map[string][]string // name patterns by reason
	Annotations []string            // functions that are only counted and have no effect on the runtime
	Complete    []string            // values of enumerations
	Copies      map[string]block
	Directions  map[string]direction
	Tagged      map[string]tagged
	Structs     map[string]map[string]string
	Shown       map[string]shown
	Functions   map[string]*semantics
	Unsimulated map[string][]string // names by reason
	Simulated   []string            // if only a part of the layer is
	Questions   []string            // functions whose refusal is an answer
	Inert       []string            // functions of further headers of which a replay needs none
	Others      []string            // functions outside the model that the simulator exports
	Alone       []string            // functions that the simulator answers without its engine
	Performs    map[string][]string // functions by the one that performs them in the simulator
}

func (m *model) loadSemantics() error {
	file := filepath.Join(m.dir, "semantics.yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var doc document
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	m.describe(&doc)
	for _, step := range []func(*document) error{m.applyStructs, m.applyFunctions, m.applyGroups} {
		if err := step(&doc); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// describe sets the layer and the fields of functions that follow from it.
func (m *model) describe(doc *document) {
	m.layer = doc.Layer
	m.Layers = []api.Layer{{Name: m.Name, Libraries: doc.Layer.Libraries, Composite: doc.Layer.Composite, Marks: doc.Layer.Marks, Operands: doc.Layer.Operands, Errors: doc.Layer.Errors}}
	m.aliases, m.performs, m.others, m.alone, m.Inert = doc.Aliases, doc.Performs, doc.Others, doc.Alone, doc.Inert
	for i := range m.Funcs {
		f := &m.Funcs[i]
		f.RetError, f.Composite, f.Annotation = f.Return == doc.Layer.Errors, doc.Layer.Composite || doc.Layer.HostCallback, doc.Layer.Annotation || doc.Layer.HostCallback
		f.HostCallback = doc.Layer.HostCallback
	}
	for _, e := range m.Enums {
		if e.Type == doc.Layer.Errors {
			m.Errors = append(m.Errors, e.Values...)
		}
	}
}

// applyStructs applies the keys about structures.
func (m *model) applyStructs(doc *document) error {
	for name, fields := range doc.Structs {
		if err := m.nest(name, fields); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, b := range doc.Copies {
		if err := m.block(name, &b); err != nil {
			return fmt.Errorf("copies: %s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Shown)) {
		s, err := m.shown(name, doc.Shown[name])
		if err != nil {
			return fmt.Errorf("shown: %s: %w", name, err)
		}
		m.Layouts = append(m.Layouts, *s)
	}
	return nil
}

// applyFunctions applies the keys for single functions.
func (m *model) applyFunctions(doc *document) error {
	for name, s := range doc.Functions {
		f := m.find(name)
		if f == nil {
			return fmt.Errorf("%s is not in functions.tsv", name)
		}
		if s == nil {
			s = &semantics{}
		}
		if err := m.apply(f, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.Simulated = doc.Layer.Simulated
	}
	for i := range m.Funcs {
		if f := &m.Funcs[i]; !f.Modelled {
			m.handles(f)
			f.RunsCallbacks = m.takesCallback(f)
		}
	}
	for _, name := range doc.Simulated {
		f := m.find(name)
		if f == nil {
			return fmt.Errorf("simulated: %s is not in functions.tsv", name)
		}
		f.Simulated = true
	}
	return nil
}

// handles sets the object kinds for the handles of a function without semantics.
func (m *model) handles(f *api.Func) {
	for i := range f.Params {
		if p := &f.Params[i]; m.handle(p.Type) {
			p.Object = m.object(strings.TrimSuffix(p.Type, "*"))
		}
	}
}

// completes marks the values by which queries report that all work is complete.
func (m *model) completes(names []string) error {
	for _, name := range names {
		found := false
		for _, e := range m.Enums {
			for i := range e.Values {
				if v := &e.Values[i]; v.Name == name {
					v.Complete, found = true, true
				}
			}
		}
		if !found {
			return fmt.Errorf("complete: no value %s", name)
		}
	}
	return nil
}

// applyGroups applies the keys for several functions at once. It must run after applyFunctions.
func (m *model) applyGroups(doc *document) error {
	if err := m.completes(doc.Complete); err != nil {
		return err
	}
	if err := m.vary(doc.Variants); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Tagged)) {
		if err := m.addForms(name, doc.Tagged[name]); err != nil {
			return fmt.Errorf("tagged: %s: %w", name, err)
		}
	}
	for name, d := range doc.Directions {
		if err := m.direct(name, d); err != nil {
			return fmt.Errorf("directions: %s: %w", name, err)
		}
	}
	for _, name := range doc.Questions {
		f := m.find(name)
		if f == nil || !f.RetError {
			return fmt.Errorf("questions: %s is no function that returns an error code", name)
		}
		f.Question = true
	}
	for _, name := range doc.Annotations {
		f := m.find(name)
		if f == nil || f.Modelled {
			return fmt.Errorf("annotations: %s is no function without semantics", name)
		}
		f.Annotation = true
	}
	if err := m.explain(doc.Unmodelled); err != nil {
		return fmt.Errorf("unmodelled: %w", err)
	}
	m.unsimulated = doc.Unsimulated
	for _, names := range doc.Unsimulated {
		for _, name := range names {
			f := m.find(name)
			if f == nil || !f.Modelled {
				return fmt.Errorf("unsimulated: %s is not modelled", name)
			}
			f.Simulated = false
		}
	}
	return nil
}

// vary copies the meaning of a function to its variants: the functions with one of the suffixes.
func (m *model) vary(ends []string) error {
	for i := range m.Funcs {
		f := &m.Funcs[i]
		for _, end := range ends {
			name, ok := strings.CutSuffix(f.Name, end)
			if !ok || f.Modelled {
				continue
			}
			of := m.find(name)
			if of == nil || len(of.Params) != len(f.Params) {
				return fmt.Errorf("%s: there is no %s with the same parameters", f.Name, name)
			}
			v := *of
			v.ID, v.Name, v.Since, v.Doc, v.Params = f.ID, f.Name, f.Since, f.Doc, slices.Clone(of.Params)
			v.OwnStream = of.Stream >= 0 || of.Task == api.Copy || of.Task == api.Fill
			*f = v
			for _, p := range f.Params {
				if c := m.factors[factorKey{name, p.Name}]; c != nil {
					m.factors[factorKey{f.Name, p.Name}] = c
				}
			}
		}
	}
	return nil
}

// explain sets the reasons why functions have no semantics.
func (m *model) explain(reasons map[string][]string) error {
	for why, patterns := range reasons {
		for _, pattern := range patterns {
			found := false
			for i := range m.Funcs {
				ok, err := path.Match(pattern, m.Funcs[i].Name)
				if err != nil {
					return fmt.Errorf("%s: %w", pattern, err)
				}
				if have := m.why[m.Funcs[i].Name]; ok && have != "" && have != why {
					return fmt.Errorf("%s has two reasons", m.Funcs[i].Name)
				}
				if ok && !m.Funcs[i].Modelled {
					m.why[m.Funcs[i].Name], found = why, true
				}
			}
			if !found {
				return fmt.Errorf("%s is no function without semantics", pattern)
			}
		}
	}
	return nil
}

// mostMarkWords limits the arguments of an entry mark: as many are in registers with every calling convention.
const mostMarkWords = 6

// apply sets a function's semantics.
func (m *model) apply(f *api.Func, s *semantics) error {
	f.Task, f.Sync, f.Capture, f.Edit, f.Range, f.Shares, f.Stack = s.Task, s.Sync, s.Capture, s.Edit, s.Range, s.Shares, s.Stack
	if f.Operator = s.Operator; m.layer.Marks != f.EntryMark() || f.EntryMark() && (!f.RetVoid || f.Words > mostMarkWords) {
		return errors.New("operator: want a mark for each function in a layer of marks, without a result and with few words")
	}
	if f.Operand = s.Operand; m.layer.Operands && f.Operand == api.NoOperand {
		f.Operand = api.OtherOperand
	}
	for _, step := range []func(*api.Func, *semantics) error{m.applyRelated, m.applyParams, m.applyPlaces} {
		if err := step(f, s); err != nil {
			return err
		}
	}
	if s.Stops != "" {
		name, value, _ := strings.Cut(s.Stops, "=")
		param := f.Param(name)
		bit, err := strconv.ParseUint(value, 10, 4)
		if err != nil || param < 0 {
			return fmt.Errorf("stops: %q is no parameter and its value", s.Stops)
		}
		f.Stops = api.Kinds{Param: uint8(param), Bits: 1 << bit}
	}
	f.Initializes, f.PollsCallbacks, f.Collective, f.ParamSizes = s.Initializes, s.PollsCallbacks, s.Collective, s.ParamSizes
	implied := f.PollsCallbacks || m.takesCallback(f)
	if implied && s.RunsCallbacks {
		return errors.New("runs_callbacks: its callback parameter or polls_callbacks says so")
	}
	f.RunsCallbacks = implied || s.RunsCallbacks
	f.Keeps, f.Modelled = s.Keeps, true
	if f.SkipOnReplay = s.Replay == "skip"; !f.SkipOnReplay {
		f.ReplayError = s.Replay
	}
	return nil
}

// applyRelated checks and sets the keys that name other functions, and the capture rules.
func (m *model) applyRelated(f *api.Func, s *semantics) error {
	if s.StandIn != "" && m.find(s.StandIn) == nil {
		return fmt.Errorf("standin: %s is not in functions.tsv", s.StandIn)
	}
	if s.Subscribes != "" && m.find(s.Subscribes) == nil {
		return fmt.Errorf("subscribes: %s is not in functions.tsv", s.Subscribes)
	}
	for _, param := range []string{s.Rank, s.Ranks} {
		if param != "" && f.Param(param) < 0 {
			return fmt.Errorf("rank: no parameter %s", param)
		}
	}
	f.StandIn, f.Subscribes = s.StandIn, s.Subscribes
	switch {
	case s.Ends != "" && s.Ends != "all" && f.Param(s.Ends) < 0:
		return fmt.Errorf("ends: no parameter %s", s.Ends)
	case !slices.Contains([]string{"", api.LastTask, api.LastError, api.LastErrorOnce}, s.Last):
		return fmt.Errorf("last: neither a task nor an error: %q", s.Last)
	case s.Keeps != nil && !slices.ContainsFunc(f.Params, func(p api.Param) bool { return s.Params[p.Name] == "file" }):
		return errors.New("keeps: it has no parameter that is a file")
	}
	answer, _, _ := strings.Cut(s.Answers, "=")
	offer, _, _ := strings.Cut(s.Offers, "=")
	for _, p := range []string{s.Finds, s.Passes, answer, offer} {
		if p != "" && f.Param(p) < 0 {
			return fmt.Errorf("no parameter %s", p)
		}
	}
	if s.Finds != "" && f.Param(s.Finds)+4 > len(f.Params) {
		return errors.New("finds: the result, the version and the flags must follow the name")
	}
	if s.Inject != nil && len(s.Inject) != 2 {
		return errors.New("inject: want a module and a slot")
	}
	f.CaptureRules = s.CaptureRules
	return nil
}

// applyParams sets the roles of the parameters and the returned value.
func (m *model) applyParams(f *api.Func, s *semantics) error {
	if s.Ret != "" {
		var p api.Param
		if err := m.role(f, &p, s.Ret); err != nil {
			return fmt.Errorf("ret: %w", err)
		}
		f.Ret, f.RetObject, f.RetVolatile = p.Role, p.Object, p.Volatile
	}
	for i := range f.Params {
		p := &f.Params[i]
		text, ok := s.Params[p.Name]
		if !ok {
			var err error
			if text, err = m.implied(f, i); err != nil {
				return err
			}
		}
		delete(s.Params, p.Name)
		if err := m.role(f, p, text); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		switch {
		case p.Role != api.Use:
		case p.Object == api.Stream:
			f.Stream = int8(i)
		case p.Object == api.Event || p.Object == api.Notify || p.Object == api.Counter:
			if f.Task == api.Record || f.Task == api.Wait || f.Task == api.Reset || f.Sync != api.NoSync {
				f.Event = int8(i)
			}
		}
	}
	for name := range s.Params {
		return fmt.Errorf("no parameter %s", name)
	}
	return nil
}

// applyPlaces sets the parameter numbers for keys with a parameter name.
func (m *model) applyPlaces(f *api.Func, s *semantics) error {
	if param, field, ok := strings.Cut(s.Device, "."); ok {
		s.Device = ""
		if err := m.location(f, param, field); err != nil {
			return fmt.Errorf("device: %w", err)
		}
	}
	for _, c := range []struct {
		key, param string
		to         *int8
	}{{"selects", s.Selects, &f.Selects}, {"device", s.Device, &f.Device}, {"entry", s.Entry, &f.Entry}, {"names", s.Names, &f.Names}, {"graph", s.Graph, &f.Graph}} {
		if c.param == "" {
			continue
		}
		i := f.Param(c.param)
		if i < 0 {
			return fmt.Errorf("%s: no parameter %s", c.key, c.param)
		}
		*c.to = int8(i)
	}
	return nil
}

// location sets the field, in the structure that a parameter points to, that names the device of new memory.
func (m *model) location(f *api.Func, param, field string) error {
	i := f.Param(param)
	if i < 0 {
		return fmt.Errorf("no parameter %s", param)
	}
	outer := m.structByName(strings.TrimSuffix(strings.TrimPrefix(f.Params[i].Type, "const "), "*"))
	if outer == nil || !outer.has(field) {
		return fmt.Errorf("no field %s of %s", field, param)
	}
	at := outer.member(field)
	inner := m.structByName(at.Type)
	if inner == nil || !inner.has("type") || !inner.has("id") {
		return fmt.Errorf("%s has no members type and id", at.Type)
	}
	l := api.Location{Param: uint8(i), Type: inner.member("type"), ID: inner.member("id")}
	l.Type.Offset += at.Offset
	l.ID.Offset += at.Offset
	for _, e := range m.Enums {
		for _, v := range e.Values {
			if e.Type == l.Type.Type && strings.HasSuffix(v.Name, "_LOCATION_TYPE_DEVICE") {
				l.OnDevice = uint8(v.Value)
			}
		}
	}
	if l.OnDevice == 0 {
		return fmt.Errorf("%s has no value for a device", l.Type.Type)
	}
	f.Location = &l
	return nil
}
