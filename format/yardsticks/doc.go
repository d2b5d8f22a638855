// Package yardsticks measures other ways to store the calls of package stream: MCAP's Go library, with a message for
// each call, and fixed structures in one zstd stream. It is a module of its own, so its dependencies stay outside
// acltrace.
package yardsticks
