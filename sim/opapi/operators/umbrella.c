/* libopapi.so has no functions of its own. A look-up in it finds those of the libraries that it needs. */
typedef int umbrella;
