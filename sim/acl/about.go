package acl

import "github.com/acltrace/acltrace/sim/device"

// Description is what the simulated device looks like to a program, apart from its times.
type Description struct {
	SoC      string `json:"soc"`
	Memory   uint64 `json:"memory_bytes"`
	Devices  int    `json:"devices_at_most"`
	Streams  int    `json:"streams_of_a_device"`
	Depth    int    `json:"tasks_of_a_stream"`
	Events   int    `json:"events"`
	Notifies int    `json:"notifies"`
	Blocks   int    `json:"blocks_of_a_launch"`
}

// Describe describes it.
func Describe() Description {
	return Description{SoC: socName, Memory: device.DefaultMemory, Devices: device.MaxDevices, Streams: device.MaxStreams, Depth: device.QueueDepth, Events: maxEvents, Notifies: maxNotifies, Blocks: maxBlocks}
}
