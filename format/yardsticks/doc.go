// Package yardsticks measures other ways to store the calls of package stream: MCAP's Go library, with a message for
// each call, and fixed structures in one stream of zstd. It is a module of its own, so that nothing of it comes near
// acltrace.
package yardsticks
