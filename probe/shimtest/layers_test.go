package shimtest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// object is a hand-written C file of the shim, compiled.
type object struct {
	name              string // folder/file.c
	layer             int    // of its folder in the list of shim.h
	defined, required []string
}

// shimLayers returns the folders of each layer, the lowest first, as the comment of shim.h lists them.
func shimLayers(t *testing.T, shim string) [][]string {
	b, err := os.ReadFile(filepath.Join(shim, "shim.h"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(b), "* Layers:")
	var layers [][]string
	for _, m := range regexp.MustCompile(`(?m)^ \*\t(\w+(?:, \w+)*)  +\w`).FindAllStringSubmatch(list, -1) {
		layers = append(layers, strings.Split(m[1], ", "))
	}
	if len(layers) < 3 {
		t.Fatalf("shim.h lists %d layers", len(layers))
	}
	return layers
}

func shimObjects(t *testing.T, root string) []object {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	shim, out := filepath.Join(root, "probe/shim"), filepath.Join(t.TempDir(), "object.o")
	var all []object
	for layer, folders := range shimLayers(t, shim) {
		for _, folder := range folders {
			sources, _ := filepath.Glob(filepath.Join(shim, folder, "*.c"))
			if len(sources) == 0 {
				t.Errorf("shim.h lists %s, which has no C files", folder)
			}
			for _, source := range sources {
				if strings.HasSuffix(source, "_gen.c") {
					continue
				}
				o := object{name: folder + "/" + filepath.Base(source), layer: layer}
				if b, err := exec.Command(cc, "-std=c11", "-fPIC", "-ffreestanding", "-I"+shim, "-I"+root+"/api/acl/include", "-I"+root+"/api/cuda/include",
					"-c", "-o", out, source).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, b)
				}
				f, err := elf.Open(out)
				if err != nil {
					t.Fatal(err)
				}
				symbols, err := f.Symbols()
				f.Close()
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range symbols {
					switch {
					case elf.ST_BIND(s.Info) == elf.STB_LOCAL:
					case s.Section == elf.SHN_UNDEF:
						o.required = append(o.required, s.Name)
					default:
						o.defined = append(o.defined, s.Name)
					}
				}
				all = append(all, o)
			}
		}
	}
	return all
}

// The folders of the shim are layers: no file uses a higher folder, but for the functions of runtime.h, and no two files use each other.
func TestShimLayers(t *testing.T) {
	root := testenv.Root(t)
	runtime, err := os.ReadFile(filepath.Join(root, "probe/shim/runtime.h"))
	if err != nil {
		t.Fatal(err)
	}
	objects := shimObjects(t, root)
	uses := make(map[string][]string)
	for _, o := range objects {
		for _, d := range objects {
			if o.name == d.name || (o.layer == d.layer && filepath.Dir(o.name) != filepath.Dir(d.name)) {
				continue
			}
			for _, s := range d.defined {
				if !slices.Contains(o.required, s) || regexp.MustCompile(`\b`+s+`\b`).Match(runtime) {
					continue
				}
				if d.layer > o.layer {
					t.Errorf("%s uses %s of the higher %s", o.name, s, d.name)
				}
				if !slices.Contains(uses[o.name], d.name) {
					uses[o.name] = append(uses[o.name], d.name)
				}
			}
		}
	}
	var path []string
	done := make(map[string]bool)
	var visit func(string)
	visit = func(name string) {
		if i := slices.Index(path, name); i >= 0 {
			t.Errorf("use each other: %s", strings.Join(path[i:], " -> "))
			return
		}
		if done[name] {
			return
		}
		path = append(path, name)
		for _, u := range uses[name] {
			visit(u)
		}
		path = path[:len(path)-1]
		done[name] = true
	}
	for _, o := range objects {
		visit(o.name)
	}
}
