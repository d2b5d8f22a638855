/* Copies between host and device that a graph makes each time that it runs. */
#ifndef ACLTRACE_SHIM_CAPTURED_H
#define ACLTRACE_SHIM_CAPTURED_H

#include "shim_hot.h"

/* A capture has ended: its copies belong to the graph; NULL: to none. */
void shim_captured(void *graph);
void shim_graph_ended(void *graph);
/* An executable graph was made from a graph. */
void shim_graph_copied(void *to, void *from);
/* The graphs whose handles are at `parts` run as parts of another one, if a condition holds. */
void shim_graph_parts(void *graph, const void *parts, uint64_t bytes);
/* A node of a graph records an event. graph NULL: the graph that has the node. */
void shim_graph_records(void *graph, const void *node, void *event);
/* The same for an event that is recorded with flags. False unless the record becomes a node of a graph under capture. */
bool shim_graph_external(void *event, uint64_t flags);

/* Adds to the record of a run how many results the graph has. */
void shim_graph_results(struct shim_call *c, uint8_t param, void *graph);
/*
 * Before a run: results that are pending in memory that the graph copies to are missing. Content that the graph reads, or may overwrite, is
 * recorded.
 */
void shim_graph_begins(struct shim_call *c, uint8_t param, void *graph);
/* After a run was submitted: its results are pending, or recorded at once if the run is synchronous. */
void shim_graph_run(struct shim_call *c, uint8_t param, void *graph, void *stream, bool async);

/* Host memory that a node, or a copy under capture, copies to, or to the device from if it is a source. */
void add_captured(void *graph, const void *node, bool source, uint64_t addr, uint64_t len, uint64_t pitch, uint64_t width);
/* Forgets the copies of a node. Returns its graph, which is looked up if graph is NULL; NULL if it is unknown. */
void *drop_node(void *graph, const void *node);
/* Forgets copies in host memory that has ended. */
void forget_captured(uint64_t from, uint64_t to);

#endif
