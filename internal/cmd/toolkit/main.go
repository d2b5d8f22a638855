// Command toolkit writes the folder that programs take for a toolkit, without its libraries: see package artifacts (Lay).
//
//	go run ./internal/cmd/toolkit FOLDER
//
// Headers come from the API model, the operator table and sim/toolkit/root. FOLDER/lib64 is a link to the folder that contains
// FOLDER.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/rogpeppe/go-internal/txtar"
)

const (
	own       = "sim/toolkit/root"
	model     = "api/acl/include"
	operators = "sim/opapi/operators.tsv"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: toolkit FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "toolkit:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	t, release := &acl.Model.Simulator.Toolkit, acl.Model.Simulator.Release
	files, err := headers()
	if err == nil {
		err = addTree(files, own, "", strings.NewReplacer("@VERSION@", release.Toolkit, "@NAME@", strings.TrimPrefix(release.Device, "Ascend")).Replace)
	}
	if err == nil {
		err = addOperators(files)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{".", "runtime", "compiler", "opp", "toolkit", "python/site-packages"} {
		files[path.Join(name, "version.info")] = file{versions(&release), 0o644}
	}
	files["version.cfg"] = file{packages(&release), 0o644}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, f := range files {
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(f.text), f.mode)); err != nil {
			return err
		}
	}
	links := map[string]string{t.Libraries: ".."}
	for _, part := range []string{"runtime", "compiler"} {
		links[path.Join(part, t.Libraries)], links[path.Join(part, "include")] = "../"+t.Libraries, "../include"
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

type file struct {
	text string
	mode fs.FileMode
}

func versions(r *api.Release) string {
	return fmt.Sprintf("Version=%[1]s\nversion_dir=%[1]s\ninner_version=%[1]s\n", r.Toolkit)
}

// packages lists the installed packages of a toolkit. Builds look for the file.
func packages(r *api.Release) string {
	var b strings.Builder
	for _, name := range []string{"compiler", "opp", "runtime", "toolkit"} {
		fmt.Fprintf(&b, "%s_running_version=[%[2]s:%[2]s]\n", name, r.Toolkit)
	}
	return b.String()
}

// headers returns those of the API model. The layers after the first have other names here.
func headers() (map[string]file, error) {
	files := map[string]file{}
	if err := addTree(files, filepath.Join(model, "acl"), "include/acl", nil); err != nil {
		return nil, err
	}
	for from, to := range map[string]string{"hccl_gen.h": "hccl/hccl.h", "mstx_gen.h": "mstx/ms_tools_ext.h", "rt_gen.h": "runtime/rt.h"} {
		b, err := os.ReadFile(filepath.Join(model, from))
		if err != nil {
			return nil, err
		}
		files["include/"+to] = file{string(b), 0o644}
	}
	return files, nil
}

func addTree(files map[string]file, from, to string, change func(string) string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text := string(b)
		if change != nil {
			text = change(text)
		}
		rel, err := filepath.Rel(from, name)
		files[path.Join(to, filepath.ToSlash(rel))] = file{text, 0o644 | st.Mode().Perm()&0o111}
		return err
	})
}

// cTypes are the C types of the letters in the operator table.
var cTypes = map[rune]string{
	'T': "const aclTensor *", 't': "aclTensor *", 'L': "const aclTensorList *", 'l': "aclTensorList *", 'S': "const aclScalar *", 'A': "const aclScalarList *",
	'I': "const aclIntArray *", 'F': "const aclFloatArray *", 'B': "const aclBoolArray *", 's': "const char *", 'p': "const void *",
	'i': "int64_t ", 'u': "uint64_t ", 'j': "int32_t ", 'h': "int16_t ", 'c': "int8_t ", 'b': "bool ", 'd': "double ", 'f': "float ",
}

// oneStage has functions with one phase, by header. They are not in the operator table.
var oneStage = map[string]string{
	"aclnn_trans_matmul_weight.h": "aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *shape, uint64_t *size);\n" +
		"aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *shape, aclDataType dataType, uint64_t *size);\n\n",
	"aclnn_npu_format_cast.h": "aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *tensor, const int format, int additionalType, int64_t **dims, " +
		"uint64_t *numDims, int *actualFormat);\n\n",
}

// addOperators declares the operators of each header in the archive of headers. An operator whose header is unknown is in none.
func addOperators(files map[string]file) error {
	f, err := os.Open(operators)
	if err != nil {
		return err
	}
	defer f.Close()
	texts := maps.Clone(oneStage)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		row := strings.Split(lines.Text(), "\t")
		if strings.HasPrefix(row[0], "#") || row[0] == "operator" || len(row) < 6 || row[2] == "-" {
			continue
		}
		text, err := declare(row[0], row[3], row[4], slices.Contains(strings.Fields(row[5]), "max"))
		if err != nil {
			return err
		}
		texts[row[2]] += text
	}
	var all txtar.Archive
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		guard := "ACLSIM_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
		text := fmt.Sprintf("/* Generated from %s. */\n#ifndef %[2]s\n#define %[2]s\n\n#include \"aclnn/aclnn_base.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n%s"+
			"#ifdef __cplusplus\n}\n#endif\n\n#endif\n", operators, guard, texts[name])
		all.Files = append(all.Files, txtar.File{Name: "include/aclnnop/" + name, Data: []byte(text)})
	}
	files[artifacts.Headers] = file{string(txtar.Format(&all)), 0o644}
	return lines.Err()
}

// declare returns the declarations of an operator. An output is not const, although the table may have the type of an interface in which
// all tensors are.
func declare(name, types, roles string, maxSize bool) (string, error) {
	var params, text strings.Builder
	for i, letter := range strings.Trim(types, "-") {
		ctype, ok := cTypes[letter]
		if !ok {
			return "", fmt.Errorf("%s: unknown type %q", name, letter)
		}
		if strings.ContainsRune("oO", rune(roles[i])) {
			ctype = strings.TrimPrefix(ctype, "const ")
		}
		fmt.Fprintf(&params, "%sa%d, ", ctype, i)
	}
	suffixes := []string{"GetWorkspaceSize"}
	if maxSize {
		suffixes = append(suffixes, "GetMaxWorkspaceSize")
	}
	for _, suffix := range suffixes {
		fmt.Fprintf(&text, "aclnnStatus %s%s(%suint64_t *workspaceSize, aclOpExecutor **executor);\n", name, suffix, &params)
	}
	fmt.Fprintf(&text, "aclnnStatus %s(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);\n\n", name)
	return text.String(), nil
}
