// main [eager] [buffers]. As in ggml, the program itself is not linked to the runtime.
#include <cstring>

#include "decoder.h"

int main(int argc, char **argv)
{
	Options o;
	for (int i = 1; i < argc; i++) {
		o.graphs = o.graphs && std::strcmp(argv[i], "eager") != 0;
		o.mapped = o.mapped && std::strcmp(argv[i], "buffers") != 0;
	}
	decode(o);
}
