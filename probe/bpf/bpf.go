// Package bpf holds the eBPF programs behind the uprobes of package probe, compiled for each processor.
//
// The objects are committed, so building acltrace takes no C compiler for BPF. The programs are the same for every
// function and every runtime: what to read of a call is in a map that package probe fills from the API model.
package bpf

//go:generate go tool bpf2go -target amd64,arm64 -output-stem uprobe -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror" Uprobe uprobe.bpf.c
