// Package space has the building blocks of an emulated address space: access to raw addresses, ordered sets of address ranges, marks,
// handles that look like pointers, and memory files.
//
// Its types live as long as their owner and hold no goroutines. The packages device, memory, strict and acl call it. It never allocates
// device memory and knows no runtime API.
package space
