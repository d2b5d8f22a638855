// Package opapi documents the operators of the simulator, which are in C. It has no code, only their tests.
//
// A framework calls an operator in two phases: aclnnAddGetWorkspaceSize takes the arguments and makes an executor, aclnnAdd runs it on a
// stream. The libraries here have both phases of every operator in operators.tsv. Phase one freezes the arguments
// into a block, whose layout is in aclsim/operator.h, and phase two launches one kernel of the operator's name with this block. So a trace
// has all that is needed to compute the operator later.
//
// The libraries compute nothing. The simulator does, from the block: block.Moves has the operators that only move bytes or fill memory, such as a
// copy or a padding, and package compute those that calculate. What neither knows takes its time and writes nothing.
//
//   - operators.tsv is the table: library, parameter types and tensor roles of each operator. internal/cmd/apigen generates
//     operators/*_gen.c and nnopbase/operators_gen.h from it.
//   - operators/ has libopapi_{cv,math,nn,transformer}.so: a small function for each phase, which packs its parameters into words, and the
//     functions that have one stage only. libopapi.so has all of them, because linkers drop a library without symbols.
//   - nnopbase/ is libnnopbase.so. handle.c keeps handles, meta.c makes tensors, scalars, arrays and lists, block.c writes blocks,
//     executor.c has both phases, cache.c the executor caches of frameworks, launch.c finds kernels and launches them, and binary.c makes the
//     binary with all kernels that the program loads into the runtime.
//   - compute/ computes operators, in C.
//   - block/ decodes blocks, for the simulator and for replays, and says what an operator moves.
//
// The libraries call the runtime only through its interface. In phase one an operator reads the core limits of its thread. In phase two it
// reads the attribute CACHE_OP_INFO of its stream. The functions at the boundaries of phases are called through the procedure linkage
// table, so recorders can see them as in the toolkit's libraries.
//
// Limits: an operator is one launch, where the toolkit may need several. The workspace size is 0. A call with null pointers is refused only
// if the table forbids it. An operator whose result has a shape that only the device knows fails in a capture. Phase two sets the shape of the
// four that are computed; others return the largest one.
package opapi
