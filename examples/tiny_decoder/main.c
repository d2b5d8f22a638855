/* The decoding loop of a small language model: 400 small launches a token, a typical load of inference. */
#include "../common/example.h"

#include <stdbool.h>
#include <time.h>

#include "../kernels/decoder_args.h"
#include "model.h"

static const char usage[] =
	"usage: tiny_decoder [--tokens N] [--quiet] [--kernels FILE] [--crash-after N] [--sleep-ms N]\n"
	"  --tokens N       tokens to generate (16)\n"
	"  --quiet          only the last line\n"
	"  --kernels FILE   kernel binary (decoder_kernels.o beside the program)\n"
	"  --crash-after N  abort() right after launch N\n"
	"  --sleep-ms N     pause after each token\n";

/* Model, cache, inputs and values in between, one allocation each. */
enum { MAX_ALLOCATIONS = NUM_TENSORS + 2 * NUM_LAYERS + 14 };

typedef struct decoder {
	model *model;
	uint32_t context;
	unsigned long launches, crash_after;

	aclrtStream stream;
	aclrtBinHandle binary;
	aclrtFuncHandle embed, layer_norm, linear, add, gelu, rope, cache_append, attention_scores, softmax, attention_values;

	void *allocations[MAX_ALLOCATIONS]; /* on the device */
	uint32_t num_allocations;

	/* On the device: the inputs of a step, the cache, the values in between, and the result. */
	int32_t *dev_token, *dev_position;
	float *keys[NUM_LAYERS], *values[NUM_LAYERS]; /* head, position, element */
	float *x, *normal, *query, *key, *value, *scores, *weights, *mixed, *projected, *wide, *workspace, *dev_logits;

	/* Pinned, so that copies run in stream order without a wait. */
	int32_t *host_token;
	float *host_logits;
} decoder;

static float *buffer(decoder *d, size_t count)
{
	void *p;

	CHECK(aclrtMalloc(&p, count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
	d->allocations[d->num_allocations++] = p;
	return p;
}

static void load_kernels(decoder *d, const char *path)
{
	const struct {
		const char *name;
		aclrtFuncHandle *func;
	} wanted[] = {
		{"embed", &d->embed},
		{"layer_norm", &d->layer_norm},
		{"linear", &d->linear},
		{"add", &d->add},
		{"gelu", &d->gelu},
		{"rope", &d->rope},
		{"cache_append", &d->cache_append},
		{"attention_scores", &d->attention_scores},
		{"softmax", &d->softmax},
		{"attention_values", &d->attention_values},
	};

	CHECK(aclrtBinaryLoadFromFile(path, NULL, &d->binary));
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
		CHECK(aclrtBinaryGetFunction(d->binary, wanted[i].name, wanted[i].func));
}

static void decoder_init(decoder *d, model *m, uint32_t context, const char *kernels)
{
	void *p;

	memset(d, 0, sizeof *d);
	d->model = m;
	d->context = context;
	CHECK(aclrtCreateStream(&d->stream));
	load_kernels(d, kernels);

	for (tensor *t = m->all; t < m->all + NUM_TENSORS; t++) {
		size_t bytes = t->count * sizeof(float);

		t->device = buffer(d, t->count);
		CHECK(aclrtMemcpy(t->device, bytes, t->host, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
	}

	d->dev_token = (int32_t *)buffer(d, 1);
	d->dev_position = (int32_t *)buffer(d, 1);
	for (uint32_t l = 0; l < NUM_LAYERS; l++) {
		d->keys[l] = buffer(d, (size_t)context * HIDDEN);
		d->values[l] = buffer(d, (size_t)context * HIDDEN);
	}
	d->x = buffer(d, HIDDEN);
	d->normal = buffer(d, HIDDEN);
	d->query = buffer(d, HIDDEN);
	d->key = buffer(d, HIDDEN);
	d->value = buffer(d, HIDDEN);
	d->scores = buffer(d, context);
	d->weights = buffer(d, context);
	d->mixed = buffer(d, HIDDEN);
	d->projected = buffer(d, HIDDEN);
	d->wide = buffer(d, INNER);
	d->workspace = buffer(d, context < 2 ? 2 : context); /* layer_norm needs two floats, softmax one a position */
	d->dev_logits = buffer(d, VOCABULARY);

	CHECK(aclrtMallocHost(&p, sizeof *d->host_token));
	d->host_token = p;
	CHECK(aclrtMallocHost(&p, VOCABULARY * sizeof(float)));
	d->host_logits = p;
}

static void decoder_free(decoder *d)
{
	CHECK(aclrtFreeHost(d->host_logits));
	CHECK(aclrtFreeHost(d->host_token));
	for (uint32_t i = 0; i < d->num_allocations; i++)
		CHECK(aclrtFree(d->allocations[i]));
	CHECK(aclrtBinaryUnLoad(d->binary));
	CHECK(aclrtDestroyStream(d->stream));
}

static void launch(decoder *d, aclrtFuncHandle func, uint32_t blocks, void *args, size_t size, aclrtPlaceHolderInfo *place_holder)
{
	CHECK(aclrtLaunchKernelWithHostArgs(func, blocks, d->stream, NULL, args, size, place_holder, place_holder ? 1 : 0));
	d->launches++;
	if (d->launches == d->crash_after)
		abort();
}

/* With tiling data after the arguments; their address is the last argument. */
static void launch_tiled(decoder *d, aclrtFuncHandle func, uint32_t blocks, const void *args, size_t size, const void *tiling, size_t tiling_size)
{
	char block[128];
	aclrtPlaceHolderInfo place_holder;

	memcpy(block, args, size);
	memcpy(block + size, tiling, tiling_size);
	place_holder.addrOffset = (uint32_t)(size - sizeof(void *));
	place_holder.dataOffset = (uint32_t)size;
	launch(d, func, blocks, block, size + tiling_size, &place_holder);
}

static void launch_norm(decoder *d, const float *in, const norm *n, float *out)
{
	layer_norm_block args = {in, n->gamma.device, n->beta.device, out, d->workspace, NULL};
	norm_tiling tiling = {HIDDEN, EPSILON};

	launch_tiled(d, d->layer_norm, 1, &args, sizeof args, &tiling, sizeof tiling);
}

static void launch_add(decoder *d, const float *a, const float *b, uint32_t count, float *out)
{
	add_block args = {a, b, out, NULL};
	count_tiling tiling = {count};

	launch_tiled(d, d->add, 1, &args, sizeof args, &tiling, sizeof tiling);
}

/* The product and its bias, two launches. */
static void launch_linear(decoder *d, const float *in, const linear *l, uint32_t rows, uint32_t columns, float *out)
{
	linear_block args = {in, l->w.device, out, NULL};
	linear_tiling tiling = {rows, columns};

	launch_tiled(d, d->linear, columns / HIDDEN, &args, sizeof args, &tiling, sizeof tiling);
	launch_add(d, out, l->b.device, columns, out);
}

static void launch_rope(decoder *d, float *x)
{
	rope_block args = {x, d->model->w.angles.device, d->dev_position, HEADS, HEAD_SIZE};

	launch(d, d->rope, 1, &args, sizeof args, NULL);
}

static void launch_cache_append(decoder *d, const float *x, float *cache)
{
	cache_append_block args = {x, cache, d->dev_position, HEADS, HEAD_SIZE, d->context, 0};

	launch(d, d->cache_append, 1, &args, sizeof args, NULL);
}

static void launch_attention(decoder *d, uint32_t number, uint32_t length)
{
	attention_tiling tiling = {length, HEAD_SIZE, ATTENTION_SCALE, 0};
	count_tiling count = {length};

	for (uint32_t head = 0; head < HEADS; head++) {
		size_t from = (size_t)head * d->context * HEAD_SIZE; /* of this head's part of the cache */
		attention_scores_block scores = {d->query + head * HEAD_SIZE, d->keys[number] + from, d->scores, NULL};
		softmax_block softmax = {d->scores, d->weights, d->workspace, NULL};
		attention_values_block values = {d->weights, d->values[number] + from, d->mixed + head * HEAD_SIZE, NULL};

		launch_tiled(d, d->attention_scores, 1, &scores, sizeof scores, &tiling, sizeof tiling);
		launch_tiled(d, d->softmax, 1, &softmax, sizeof softmax, &count, sizeof count);
		launch_tiled(d, d->attention_values, 1, &values, sizeof values, &tiling, sizeof tiling);
	}
}

/* 33 launches. */
static void launch_layer(decoder *d, uint32_t number, uint32_t length)
{
	const layer *l = &d->model->w.layers[number];
	gelu_block gelu = {d->wide, d->wide, NULL};
	count_tiling count = {INNER};

	launch_norm(d, d->x, &l->attention_norm, d->normal);
	launch_linear(d, d->normal, &l->query, HIDDEN, HIDDEN, d->query);
	launch_linear(d, d->normal, &l->key, HIDDEN, HIDDEN, d->key);
	launch_linear(d, d->normal, &l->value, HIDDEN, HIDDEN, d->value);
	launch_rope(d, d->query);
	launch_rope(d, d->key);
	launch_cache_append(d, d->key, d->keys[number]);
	launch_cache_append(d, d->value, d->values[number]);
	launch_attention(d, number, length);
	launch_linear(d, d->mixed, &l->projection, HIDDEN, HIDDEN, d->projected);
	launch_add(d, d->x, d->projected, HIDDEN, d->x);

	launch_norm(d, d->x, &l->mlp_norm, d->normal);
	launch_linear(d, d->normal, &l->up, HIDDEN, INNER, d->wide);
	launch_tiled(d, d->gelu, 2, &gelu, sizeof gelu, &count, sizeof count);
	launch_linear(d, d->wide, &l->down, INNER, HIDDEN, d->projected);
	launch_add(d, d->x, d->projected, HIDDEN, d->x);
}

/* Runs the model on one token; the logits are in host_logits until the next step. */
static void decoder_step(decoder *d, int32_t token, int32_t position)
{
	const weights *w = &d->model->w;
	embed_block embed = {d->dev_token, w->embedding.device, d->x, HIDDEN, 0};
	const size_t bytes = VOCABULARY * sizeof(float);

	/* A copy from pageable memory blocks until done. It doesn't wait for the stream, which is empty after the previous
	 * step's wait. */
	CHECK(aclrtMemcpy(d->dev_position, sizeof position, &position, sizeof position, ACL_MEMCPY_HOST_TO_DEVICE));
	/* From pinned memory it goes into the stream, before the launches. */
	*d->host_token = token;
	CHECK(aclrtMemcpyAsync(d->dev_token, sizeof token, d->host_token, sizeof token, ACL_MEMCPY_HOST_TO_DEVICE, d->stream));

	launch(d, d->embed, 1, &embed, sizeof embed, NULL);
	for (uint32_t i = 0; i < NUM_LAYERS; i++)
		launch_layer(d, i, (uint32_t)position + 1);
	launch_norm(d, d->x, &w->final_norm, d->normal);
	launch_linear(d, d->normal, &w->logits, HIDDEN, VOCABULARY, d->dev_logits);

	CHECK(aclrtMemcpyAsync(d->host_logits, bytes, d->dev_logits, bytes, ACL_MEMCPY_DEVICE_TO_HOST, d->stream));
	CHECK(aclrtSynchronizeStream(d->stream));
}

/* Decodes again on the host and compares every token and every logit. */
static bool verify(const model *m, uint32_t tokens, const int32_t *output, const float *logits)
{
	reference r;
	int32_t token = FIRST_TOKEN;
	bool right = true;

	reference_init(&r, m, tokens);
	for (uint32_t t = 0; right && t < tokens; t++) {
		const float *want = reference_step(&r, token), *got = logits + (size_t)t * VOCABULARY;

		for (uint32_t i = 0; right && i < VOCABULARY; i++) {
			if (memcmp(&got[i], &want[i], sizeof(float))) {
				printf("token %u: logit %u is %.9g, not %.9g\n", t, i, got[i], want[i]);
				right = false;
			}
		}
		token = argmax(want);
		if (right && output[t] != token) {
			printf("token %u is %d, not %d\n", t, output[t], token);
			right = false;
		}
	}
	reference_free(&r);
	return right;
}

static double microseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	uint32_t tokens = 16;
	bool quiet = false, right;
	unsigned long crash_after = 0;
	unsigned sleep_ms = 0;
	const char *kernels = NULL;
	char path[PATH_MAX];
	model m;
	decoder d;
	int32_t *output, token = FIRST_TOKEN;
	float *logits;
	double busy = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--tokens")) {
			tokens = (uint32_t)example_number(argc, argv, &i, 1, 100000);
		} else if (!strcmp(argv[i], "--quiet")) {
			quiet = true;
		} else if (!strcmp(argv[i], "--kernels")) {
			kernels = example_text(argc, argv, &i);
		} else if (!strcmp(argv[i], "--crash-after")) {
			crash_after = example_number(argc, argv, &i, 1, ULONG_MAX);
		} else if (!strcmp(argv[i], "--sleep-ms")) {
			sleep_ms = (unsigned)example_number(argc, argv, &i, 0, 60000);
		} else {
			fputs(usage, stderr);
			return 2;
		}
	}
	example_kernel_path(kernels, "decoder_kernels.o", path);

	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	model_init(&m, tokens);
	decoder_init(&d, &m, tokens, path);
	d.crash_after = crash_after;

	/* All memory is allocated before the loop: the loop only copies, launches and waits. */
	output = (int32_t *)floats(tokens);
	logits = floats((size_t)tokens * VOCABULARY);
	for (uint32_t t = 0; t < tokens; t++) {
		double start = microseconds();

		decoder_step(&d, token, (int32_t)t);
		busy += microseconds() - start;
		memcpy(logits + (size_t)t * VOCABULARY, d.host_logits, VOCABULARY * sizeof(float));
		output[t] = token = argmax(d.host_logits);
		if (sleep_ms)
			usleep(sleep_ms * 1000);
	}

	decoder_free(&d);
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());

	if (!quiet) {
		printf("tokens:");
		for (uint32_t t = 0; t < tokens; t++)
			printf(" %d", output[t]);
		printf("\nlaunches: %lu, %lu a token\ntime: %.0f us a token\n", d.launches, d.launches / tokens, busy / tokens);
	}
	right = verify(&m, tokens, output, logits);
	if (right)
		printf("tiny_decoder: %u tokens right (%lu launches)\n", tokens, d.launches);
	free(logits);
	free(output);
	model_free(&m);
	return right ? 0 : 1;
}
