/* cuLink: PTX is stored unchanged. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct link {
	struct object o;
	char *text;
	size_t length;
	uint8_t *image;
	size_t size; /* of the image */
};

CUresult cuLinkCreate_v2(unsigned numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
	if (stateOut == NULL || (numOptions && (options == NULL || optionValues == NULL)))
		return INVALID;
	ENTER(c);
	return STORE(stateOut, (CUlinkState)make(LINK, sizeof(struct link)));
}

/* An input ends at its size or at a 0. */
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	(void)name, (void)numOptions, (void)options, (void)optionValues;
	if (data == NULL || size == 0 || type == CU_JIT_INPUT_NVVM)
		return INVALID;
	FIND(link, l, known(LINK, state), HANDLE);
	if (l->image)
		return leave(INVALID);
	const char *text = data;
	size_t n = size;
	if (type != CU_JIT_INPUT_PTX) {
		CUresult e = text_of(data, &text);
		if (e)
			return leave(e);
		n = (const char *)data + size > text ? (size_t)((const char *)data + size - text) : 0;
	}
	n = strnlen(text, n);
	if (memmem(text, n, ".version", strlen(".version")) == NULL)
		return leave(CUDA_ERROR_INVALID_PTX);
	l->text = realloc(l->text, l->length + n + 2);
	memcpy(l->text + l->length, text, n);
	memcpy(l->text + l->length + n, "\n", 2);
	l->length += n + 1;
	return leave(OK);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	size_t size;
	char *b = file_bytes(path, &size);
	CUresult e = b ? cuLinkAddData_v2(state, type, b, size, path, numOptions, options, optionValues) : CUDA_ERROR_FILE_NOT_FOUND;
	free(b);
	return e;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	FIND(link, l, known(LINK, state), HANDLE);
	if (cubinOut == NULL)
		return leave(INVALID);
	if (l->image == NULL && (l->length == 0 || (l->image = ptx_cubin(l->text, &l->size)) == NULL))
		return leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
	*cubinOut = l->image;
	if (sizeOut)
		*sizeOut = l->size;
	return leave(OK);
}

/* Frees the linked image too. */
CUresult cuLinkDestroy(CUlinkState state)
{
	FIND(link, l, known(LINK, state), HANDLE);
	l->o.gone = true;
	free(l->text);
	free(l->image);
	return leave(OK);
}
