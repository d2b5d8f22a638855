/* The model that tiny_decoder runs: its sizes, its weights, and its computation on the host. */
#ifndef TINY_DECODER_MODEL_H
#define TINY_DECODER_MODEL_H

#include <stddef.h>
#include <stdint.h>

enum {
	NUM_LAYERS = 12,
	HIDDEN = 64,
	HEADS = 4,
	HEAD_SIZE = HIDDEN / HEADS,
	INNER = 4 * HIDDEN, /* of the feed-forward part */
	VOCABULARY = 256,
	FIRST_TOKEN = 1
};

#define EPSILON 1e-5f
#define ATTENTION_SCALE 0.25f /* 1 / sqrt(HEAD_SIZE) */

/* A constant array of the model, on the host and on the device. */
typedef struct tensor {
	float *host;
	size_t count;
	void *device;
} tensor;

typedef struct linear {
	tensor w, b;
} linear;

typedef struct norm {
	tensor gamma, beta;
} norm;

typedef struct layer {
	norm attention_norm, mlp_norm;
	linear query, key, value, projection, up, down;
} layer;

typedef struct weights {
	tensor embedding; /* a row for each token */
	tensor angles;    /* of rope: a row for each position */
	layer layers[NUM_LAYERS];
	norm final_norm;
	linear logits;
} weights;

enum { NUM_TENSORS = sizeof(weights) / sizeof(tensor) };

/* The tensors by name, and all of them in the order in which they go to the device. */
typedef union model {
	weights w;
	tensor all[NUM_TENSORS];
} model;

/* Fills all tensors from a fixed seed, for up to `context` positions. */
void model_init(model *m, uint32_t context);
void model_free(model *m);

/* The same computation on the host with the same float operations: the results must agree bit by bit. */
typedef struct reference {
	const weights *w;
	uint32_t position;
	float *keys[NUM_LAYERS], *values[NUM_LAYERS]; /* position, head, element */
	float *scores;                                /* of the positions, for one head */
	float logits[VOCABULARY];
} reference;

void reference_init(reference *r, const model *m, uint32_t context);
void reference_free(reference *r);

/* Computes the logits for a token at the next position. */
const float *reference_step(reference *r, int32_t token);

/* The token with the highest logit, the first one of equals. */
int32_t argmax(const float *logits);

/* Memory for floats. The program ends if there is none. */
float *floats(size_t count);

#endif
