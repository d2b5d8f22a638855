#ifndef DECODER_H
#define DECODER_H

struct Options {
	bool graphs = true; // else each node is submitted on its own
	bool mapped = true; // a pool of mapped memory, else of buffers
};

void decode(Options o);

#endif
