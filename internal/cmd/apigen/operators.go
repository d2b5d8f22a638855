package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Places of the operators' table and of the files made from it. They are relative to the root of the repository.
const (
	operatorTable  = "sim/opapi/operators.tsv"
	operatorFolder = "sim/opapi/operators/"
	operatorNames  = "sim/opapi/nnopbase/operators_gen.h"
	knownOperators = "api/opinfo/names_gen.go"
)

// operatorLibraries are the libraries of the table, without the prefix libopapi_.
var operatorLibraries = []string{"cv", "math", "nn", "transformer"}

// An operator is a row of the table, whose head explains it.
type operator struct{ name, library, header, types, roles, further string }

// shapeRules are the words of the last column that say which shapes phase one accepts. sim/opapi/nnopbase/check.c has the rules.
var shapeRules = []string{"broadcast", "product"}

// cType is the suffix of the C type of a parameter in operator.h.
func cType(letter rune) string {
	if strings.ContainsRune("iujhcbdf", letter) {
		return string(letter)
	}
	return "p"
}

// loadOperators reads the table. It checks the letters and the order.
func loadOperators(path string) ([]operator, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []operator
	comment := ""
	for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		f := strings.Split(line, "\t")
		if strings.HasPrefix(line, "#") || f[0] == "operator" {
			comment = line
			continue
		}
		if len(f) != 6 {
			return nil, fmt.Errorf("%s:%d: %d columns: want 6", path, i+1, len(f))
		}
		o := operator{f[0], f[1], f[2], f[3], f[4], f[5]}
		if o.types == "-" {
			o.types, o.roles = "", ""
		}
		if err := cmp.Or(o.check(), o.checkSource(comment)); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", path, i+1, o.name, err)
		}
		comment = ""
		if n := len(all); n > 0 && all[n-1].name >= o.name {
			return nil, fmt.Errorf("%s:%d: %s is not after %s", path, i+1, o.name, all[n-1].name)
		}
		all = append(all, o)
	}
	return all, nil
}

// check returns an error if the row contradicts itself.
func (o *operator) check() error {
	switch {
	case !slices.Contains(operatorLibraries, o.library):
		return fmt.Errorf("unknown library %q", o.library)
	case len(o.roles) != len(o.types):
		return fmt.Errorf("%d roles for %d parameters", len(o.roles), len(o.types))
	}
	for i, t := range o.types {
		tensor := strings.ContainsRune("TtLl", t)
		if !tensor && !strings.ContainsRune("SAIFBiujhcbdfsp", t) {
			return fmt.Errorf("unknown type %q", t)
		}
		roles := "-"
		switch {
		case tensor:
			roles = "iobdxIOBDX"
		case cType(t) == "p":
			roles = "-N"
		}
		if r := rune(o.roles[i]); !strings.ContainsRune(roles, r) {
			return fmt.Errorf("role %q of a parameter with type %q", r, t)
		}
	}
	for _, word := range strings.Fields(o.further) {
		if !slices.Contains(slices.Concat([]string{"-", "max", "odd"}, shapeRules), word) {
			return fmt.Errorf("unknown word %q", word)
		}
	}
	return nil
}

// checkSource returns an error unless the comment before the row names a document and the parameters that may not be null.
func (o *operator) checkSource(comment string) error {
	refused := strings.Count(o.roles, "N")
	for _, r := range "IOBDX" {
		refused += strings.Count(o.roles, string(r))
	}
	if refused == 0 && o.shapes() == "" {
		return nil
	}
	document, params, _ := strings.Cut(comment, ".md: ")
	named := len(strings.Split(strings.ReplaceAll(params, " and ", ", "), ", "))
	if document == "" || params == "" || named != refused {
		return fmt.Errorf("%d parameters may not be null: name their document and them in a comment before the row, \"# REPOSITORY PATH.md: a, b and c\"", refused)
	}
	return nil
}

// has reports whether the last column has a word.
func (o *operator) has(word string) bool { return slices.Contains(strings.Fields(o.further), word) }

// shapes returns the rule for the operator's shapes, "" for none.
func (o *operator) shapes() string {
	for _, rule := range shapeRules {
		if o.has(rule) {
			return rule
		}
	}
	return ""
}

// macro writes a use of a macro of operator.h for a function with the parameters of phase one.
func (o *operator) macro(w *writer, name, first string) {
	var params, words strings.Builder
	for i, t := range o.types {
		fmt.Fprintf(&params, "op_%s a%d, ", cType(t), i)
		fmt.Fprintf(&words, ", word_%s(a%d)", cType(t), i)
	}
	if o.types == "" {
		words.WriteString(", 0")
	}
	w.f(`%s(%s%s, "%s\0%s\0%s", (%sOP_OUT)%s)`, name, first, o.name, o.types, o.roles, o.shapes(), &params, &words)
}

// genOperators writes one C file for each library, and the list of names.
func genOperators(all []operator) map[string]*writer {
	files := map[string]*writer{}
	start := func(path string) *writer {
		w := &writer{}
		if comment := "/* " + marker + " */"; strings.HasSuffix(path, ".go") {
			w.f("// "+marker, operatorTable)
		} else {
			w.f(comment, operatorTable)
		}
		files[path] = w
		return w
	}
	known := start(knownOperators)
	known.f("\npackage opinfo\n\n// operators are the operators of the public releases.\nconst operators = `")
	for _, o := range all {
		known.f("%s", o.name)
	}
	known.f("`")
	names := start(operatorNames)
	names.f("#define OPERATORS %d", len(all))
	names.f("#define EACH_OPERATOR(X) \\")
	libraries := map[string]*writer{}
	for _, l := range operatorLibraries {
		libraries[l] = start(operatorFolder + l + "_gen.c")
		libraries[l].f("#include \"operator.h\"\n")
	}
	for i, o := range all {
		names.f("\tX(%s) \\", o.name)
		w, macro, index := libraries[o.library], "OPERATOR", fmt.Sprintf("%d, ", i)
		if o.has("odd") {
			macro = "OP_PHASE_ONE"
		}
		o.macro(w, macro, index)
		if o.has("max") {
			o.macro(w, "OP_MAX_SIZE", index)
		}
	}
	names.f("")
	return files
}

// saveOperators makes all files that follow from the table.
func saveOperators() error {
	all, err := loadOperators(operatorTable)
	if err != nil {
		return err
	}
	for path, w := range genOperators(all) {
		if err := w.save(path); err != nil {
			return err
		}
	}
	return nil
}
