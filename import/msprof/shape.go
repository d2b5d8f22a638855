package msprof

import (
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api/opinfo"
)

// maxShapes bounds the distinct shapes of a profile. Further kernels have none.
const maxShapes = 1 << 18

// shape returns the number of a kernel's tensors in importer.shapes, 0 if they are unknown. in and out are shapes ("4,8;8"), data types ("FLOAT;INT64") and formats
// ("ND;ND").
func (im *importer) shape(name, kind string, in, out [3]string) uint32 {
	tensors := append(tensors(in, false), tensors(out, true)...)
	if kind == "" || len(tensors) == 0 {
		return 0
	}
	key := strings.Join([]string{name, kind, in[0], in[1], in[2], out[0], out[1], out[2]}, "\x00")
	i, ok := im.byShape[key]
	if !ok && len(im.shapes) < maxShapes {
		i = uint32(len(im.shapes))
		im.shapes = append(im.shapes, opinfo.Info{Node: opinfo.Hash(name), Type: opinfo.Hash(kind), Tensors: tensors})
		if _, known := opinfo.Known().Of(opinfo.Hash(kind)); known {
			kind = ""
		}
		im.kinds = append(im.kinds, kind)
		im.byShape[key] = i
	}
	return i
}

func (im *importer) shaped(r *row) {
	if r.shape > 0 {
		im.rep.Shapes++
	}
}

// maxTensors bounds the tensors of one kernel.
const maxTensors = 64

// tensors parses what a profile says about inputs or outputs. It returns none if that is not complete.
func tensors(of [3]string, output bool) []opinfo.Tensor {
	shapes, types, formats := list(of[0]), list(of[1]), list(of[2])
	if len(shapes) != len(types) || len(shapes) > maxTensors {
		return nil
	}
	var all []opinfo.Tensor
	for i, s := range shapes {
		t := opinfo.Tensor{Output: output}
		kind := types[i]
		if kind == "" {
			kind = "undefined" // an optional tensor that is not there
		}
		var ok bool
		if t.DType, ok = opinfo.DType(kind); !ok {
			return nil
		}
		t.Format, _ = opinfo.Format("ND")
		if i < len(formats) {
			if f, ok := opinfo.Format(formats[i]); ok {
				t.Format = f
			}
		}
		if s != "" {
			for d := range strings.SplitSeq(s, ",") {
				n, err := strconv.ParseUint(strings.TrimSpace(d), 10, 32)
				if err != nil || t.Rank == len(t.Dims) {
					return nil
				}
				t.Dims[t.Rank] = uint32(n)
				t.Rank++
			}
		}
		all = append(all, t)
	}
	return all
}

// list splits a cell, which may be quoted once more. N/A is an empty one.
func list(s string) []string {
	s = strings.Trim(s, `"`)
	if s == "" || s == "N/A" {
		return nil
	}
	return strings.Split(s, ";")
}
