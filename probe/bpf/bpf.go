// Package bpf embeds the eBPF programs of probe/uprobe, compiled for each processor.
//
// Package uprobe loads them. The objects are committed, so building acltrace takes no clang. All functions and runtimes share the
// programs: package uprobe fills a map with descriptions of functions from the API model.
//
// The programs never write to the recorded process's memory.
package bpf

//go:generate go tool bpf2go -target amd64,arm64 -output-stem uprobe -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror" Uprobe uprobe.bpf.c
