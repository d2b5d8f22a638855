package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/acltrace/acltrace/"

// outputs are the commands with JSON output, and the Go type of each.
var outputs = []struct {
	command string
	dir     string // of the package
	typ     string
	prefix  string // of the keys
	note    string
}{
	{"acltrace info --json", "report", "Info", "", ""},
	{"acltrace cat --json", "report", "line", "", "One object a line."},
	{"acltrace stats --json", "analyze/stats", "Stats", "", "Percentiles over more than 512 times have an error below 0.4%."},
	{"acltrace stats --by KEY --json", "report", "groupsJSON", "", "`by` is KEY, and `groups` has the sums."},
	{"", "analyze/stats", "Group", "groups[].", ""},
	{"acltrace stats --critical-path --json", "analyze/path", "Summary", "", "`paths` has a path for each step."},
	{"", "report", "pathJSON", "paths[].", ""},
	{"acltrace stats --memory --json", "analyze/memory", "Memory", "", ""},
	{"acltrace top --json", "analyze/live", "Top", "", "One object a line."},
	{"acltrace diff --json", "analyze/diff", "Diff", "", ""},
	{"acltrace blame --json", "report", "blameJSON", "", ""},
	{"acltrace where --json", "analyze/blame", "Whereabouts", "", ""},
	{"acltrace where --map --json", "analyze/blame", "Map", "", ""},
	{"acltrace replay --json", "replay", "Report", "", "`differences`, `other_machine`, `relocated`, `guesses` and `ambiguous` have at most 1,000 entries. The totals count all."},
	{"acltrace replay --backend virtual --json", "replay/whatif", "Report", "", "`virtual_ns`, `change_percent` and the bounds are null, and `streams` is empty, if the trace allows no prediction."},
	{"acltrace extract --json", "replay/lab", "Extracted", "", "`complete` and `window` are those of the original trace."},
	{"acltrace record --json", "record", "Summary", "", "One line on standard error. `attach` and `collect` print the same."},
	{"acltrace ctl ACTION --json", "record/session", "Status", "[].", "A list of recordings."},
	{"acltrace env --json", "cmd/acltrace", "envResult", "", ""},
	{"acltrace sim --info --json", "cmd/acltrace", "simulatorReport", "", ""},
	{"acltrace doctor --json", "cmd/acltrace", "diagnosis", "", ""},
	{"acltrace version --json", "cmd/acltrace", "versionResult", "", ""},
}

// A source is a package's declarations.
type source struct {
	dir     string
	types   map[string]*ast.TypeSpec
	text    map[string]bool              // types with a method MarshalText
	docs    map[string]string            // first sentences about types
	values  map[string][]string          // values of constants, by their type
	imports map[string]map[string]string // by file and name, folders of packages of the module
	fset    *token.FileSet
}

// sources reads packages as they are needed.
type sources map[string]*source

func (all sources) read(dir string) (*source, error) {
	if s := all[dir]; s != nil {
		return s, nil
	}
	s := &source{dir: dir, types: map[string]*ast.TypeSpec{}, text: map[string]bool{}, docs: map[string]string{}, values: map[string][]string{}, imports: map[string]map[string]string{}, fset: token.NewFileSet()}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.add(name, f)
	}
	all[dir] = s
	return s, err
}

func (s *source) add(file string, f *ast.File) {
	s.imports[file] = map[string]string{}
	for _, i := range f.Imports {
		if path, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ok {
			name := filepath.Base(path)
			if i.Name != nil {
				name = i.Name.Name
			}
			s.imports[file][name] = path
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch t := spec.(type) {
				case *ast.TypeSpec:
					s.types[t.Name.Name] = t
					s.docs[t.Name.Name], _, _ = strings.Cut(plain("", d.Doc.Text()), ". ")
				case *ast.ValueSpec:
					s.constant(d.Tok, t)
				}
			}
		case *ast.FuncDecl:
			if d.Name.Name == "MarshalText" && d.Recv != nil {
				t := d.Recv.List[0].Type
				if p, ok := t.(*ast.StarExpr); ok {
					t = p.X
				}
				s.text[t.(*ast.Ident).Name] = true
			}
		}
	}
}

// constant adds the values of constants that have a type and are strings.
func (s *source) constant(kind token.Token, c *ast.ValueSpec) {
	of, ok := c.Type.(*ast.Ident)
	if kind != token.CONST || !ok {
		return
	}
	for _, v := range c.Values {
		if l, ok := v.(*ast.BasicLit); ok && l.Kind == token.STRING {
			s.values[of.Name] = append(s.values[of.Name], "`"+strings.Trim(l.Value, "`\"")+"`")
		}
	}
}

// A keys writes the keys of types as rows of a table.
type keys struct {
	sources
	b    strings.Builder
	open []string // structures that are being written
}

// A typ is a type expression in a package.
type typ struct {
	in *source
	e  ast.Expr
}

// named returns the declaration of a type's name, or false for a predeclared type or one outside the module.
func (k *keys) named(t typ) (typ, string, bool, error) {
	name, s := "", t.in
	switch e := t.e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
		dir := t.in.imports[t.in.fset.Position(e.Pos()).Filename][e.X.(*ast.Ident).Name]
		if dir == "" {
			return t, "", false, nil
		}
		var err error
		if s, err = k.read(dir); err != nil {
			return t, "", false, err
		}
	default:
		return t, "", false, nil
	}
	spec := s.types[name]
	if spec == nil {
		return t, "", false, nil
	}
	if s.text[name] {
		return typ{s, ast.NewIdent("string")}, "", true, nil
	}
	return typ{s, spec.Type}, s.dir + "." + name, true, nil
}

// kind returns a type's name in JSON, the suffix of the keys inside it, and the structure that has these keys, nil if it has none.
func (k *keys) kind(t typ) (name, suffix string, inner *typ, id string, err error) {
	to, id, ok, err := k.named(t)
	if err != nil {
		return "", "", nil, "", err
	}
	if ok {
		if s, isStruct := to.e.(*ast.StructType); isStruct {
			return "object", "", &typ{to.in, s}, id, nil
		}
		return k.kind(to)
	}
	switch e := t.e.(type) {
	case *ast.StarExpr:
		name, suffix, inner, id, err = k.kind(typ{t.in, e.X})
		return name + " or null", suffix, inner, id, err
	case *ast.ArrayType:
		if i, ok := e.Elt.(*ast.Ident); ok && i.Name == "byte" {
			return "base64 string", "", nil, "", nil
		}
		name, suffix, inner, id, err = k.kind(typ{t.in, e.Elt})
		return "array of " + name, "[]" + suffix, inner, id, err
	case *ast.MapType:
		name, suffix, inner, id, err = k.kind(typ{t.in, e.Value})
		return "object of " + name, ".*" + suffix, inner, id, err
	case *ast.StructType:
		return "object", "", &t, "", nil
	case *ast.InterfaceType:
		return "any", "", nil, "", nil
	case *ast.SelectorExpr:
		switch e.X.(*ast.Ident).Name + "." + e.Sel.Name {
		case "time.Duration":
			return "integer", "", nil, "", nil
		case "time.Time":
			return "string", "", nil, "", nil
		case "json.RawMessage":
			return "any", "", nil, "", nil
		}
	case *ast.Ident:
		switch n := e.Name; {
		case n == "string" || n == "any":
			return n, "", nil, "", nil
		case n == "bool":
			return "boolean", "", nil, "", nil
		case strings.HasPrefix(n, "int"), strings.HasPrefix(n, "uint"):
			return "integer", "", nil, "", nil
		case strings.HasPrefix(n, "float"):
			return "number", "", nil, "", nil
		}
	}
	return "", "", nil, "", fmt.Errorf("%s: a type that docgen does not know", t.in.fset.Position(t.e.Pos()))
}

// fields writes the keys of a structure.
func (k *keys) fields(prefix string, t typ) error {
	for _, f := range t.e.(*ast.StructType).Fields.List {
		tag := ""
		if f.Tag != nil {
			tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		}
		key, options, _ := strings.Cut(tag, ",")
		if key == "-" || len(f.Names) > 0 && !f.Names[0].IsExported() {
			continue
		}
		if len(f.Names) == 0 && key == "" { // embedded: its keys are the structure's
			_, _, inner, _, err := k.kind(typ{t.in, f.Type})
			if err == nil {
				err = k.fields(prefix, *inner)
			}
			if err != nil {
				return err
			}
			continue
		}
		optional := ""
		if strings.Contains(options, "omit") {
			optional = "?"
		}
		names := []string{key}
		if key == "" {
			names = names[:0]
			for _, n := range f.Names {
				names = append(names, n.Name)
			}
		}
		for _, name := range names {
			if err := k.field(prefix, name, optional, t.in, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// field writes a key and the keys inside it.
func (k *keys) field(prefix, key, optional string, in *source, f *ast.Field) error {
	name, suffix, inner, id, err := k.kind(typ{in, f.Type})
	if err != nil {
		return err
	}
	text := f.Doc.Text()
	if text == "" {
		text = f.Comment.Text()
	}
	field := ""
	if len(f.Names) > 0 {
		field = f.Names[0].Name
	}
	if text = plain(field, text); text == "" {
		text = k.about(typ{in, f.Type})
	}
	fmt.Fprintf(&k.b, "| `%s%s`%s | %s | %s |\n", prefix, key, optional, name, text)
	if inner == nil || id != "" && slices.Contains(k.open, id) { // nothing inside, or a structure in itself
		return nil
	}
	k.open = append(k.open, id)
	defer func() { k.open = k.open[:len(k.open)-1] }()
	return k.fields(prefix+key+suffix+".", *inner)
}

// about describes a field by its type: by the sentence about a structure, or by the values of a type with constants.
func (k *keys) about(t typ) string {
	for {
		switch e := t.e.(type) {
		case *ast.StarExpr:
			t.e = e.X
			continue
		case *ast.ArrayType:
			t.e = e.Elt
			continue
		}
		break
	}
	to, id, ok, err := k.named(t)
	if !ok || err != nil || id == "" {
		return ""
	}
	name := id[strings.LastIndex(id, ".")+1:]
	if _, isStruct := to.e.(*ast.StructType); !isStruct {
		return strings.Join(to.in.values[name], ", ")
	}
	text := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(to.in.docs[name], "A "), "An "), name)
	for _, verb := range []string{" is ", " are ", " has "} {
		if rest, ok := strings.CutPrefix(text, verb); ok {
			return rest
		}
	}
	return ""
}

var (
	isNil   = regexp.MustCompile(`\bnil\b`)
	isEmpty = regexp.MustCompile(`"" `)
)

// plain returns a field's comment for readers of JSON.
func plain(name, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, verb := range []string{"is", "are", "has", "have"} {
		text = strings.TrimPrefix(text, name+" "+verb+" ")
	}
	text = strings.ReplaceAll(isEmpty.ReplaceAllString(isNil.ReplaceAllString(text, "null"), "empty "), "|", `\|`)
	return strings.TrimSuffix(text, ".")
}

// jsonPage returns docs/reference/json.md.
func jsonPage() (string, error) {
	k := &keys{sources: sources{}}
	k.b.WriteString(head + "# JSON output\n\nKeys are only added, and never renamed or removed in a major version. Times with `_ns` in their names are nanoseconds. A moment " +
		"counts from the beginning of the trace. A key with `?` is left out if its value is empty. `[]` stands for an item of an array, and `*` for any key.\n")
	for _, o := range outputs {
		s, err := k.read(o.dir)
		if err != nil {
			return "", err
		}
		if s.types[o.typ] == nil {
			return "", fmt.Errorf("%s: there is no type %s in %s", o.command, o.typ, o.dir)
		}
		if o.command != "" {
			fmt.Fprintf(&k.b, "\n## %s\n\n", o.command)
			if o.note != "" {
				fmt.Fprintf(&k.b, "%s\n\n", o.note)
			}
			k.b.WriteString("| key | type | meaning |\n|---|---|---|\n")
		}
		if err := k.fields(o.prefix, typ{s, s.types[o.typ].Type}); err != nil {
			return "", fmt.Errorf("%s: %w", o.command, err)
		}
	}
	return k.b.String(), nil
}
