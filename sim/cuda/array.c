/* Arrays, textures and surfaces: device memory that programs name by a handle or a number. */
#include "driver.h"

#include <string.h>

size_t element(CUarray_format format, unsigned channels)
{
	size_t n = format == CU_AD_FORMAT_UNSIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT8 ? 1 :
		format == CU_AD_FORMAT_UNSIGNED_INT16 || format == CU_AD_FORMAT_SIGNED_INT16 || format == CU_AD_FORMAT_HALF ? 2 :
		format == CU_AD_FORMAT_UNSIGNED_INT32 || format == CU_AD_FORMAT_SIGNED_INT32 || format == CU_AD_FORMAT_FLOAT ? 4 : 0;
	return channels == 1 || channels == 2 || channels == 4 ? n * channels : 0;
}

/* Call with the lock held. */
static CUresult new_array(int device, const CUDA_ARRAY3D_DESCRIPTOR *d, bool level, CUarray *out)
{
	struct array a = {.as = *d, .rows = d->Height ? d->Height : 1, .level = level};
	a.pitch = d->Width * element(d->Format, d->NumChannels);
	a.size = a.pitch * a.rows * (d->Depth ? d->Depth : 1);
	CUresult e = allocate_in(device, &a.at, a.size, PLAIN, 0, GRAPHS_AT, RESERVE_AT);
	if (e)
		return e;
	struct array *n = make(ARRAY, sizeof *n);
	a.o = n->o;
	*n = a;
	*out = (CUarray)n;
	return OK;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	if (pHandle == NULL || pAllocateArray == NULL)
		return INVALID;
	ENTER(c);
	return leave(new_array(c->device, pAllocateArray, false, pHandle));
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *p)
{
	if (p == NULL)
		return INVALID;
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = p->Width, .Height = p->Height, .Format = p->Format, .NumChannels = p->NumChannels};
	return cuArray3DCreate_v2(pHandle, &d);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	FIND(array, a, known(ARRAY, hArray), HANDLE);
	return STORE(pArrayDescriptor, a->as);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult e = pArrayDescriptor == NULL ? INVALID : cuArray3DGetDescriptor_v2(&d, hArray);
	if (e == OK)
		*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){.Width = d.Width, .Height = d.Height, .Format = d.Format, .NumChannels = d.NumChannels};
	return e;
}

static CUresult end_array(CUarray h, bool level)
{
	struct array *a = known(ARRAY, h);
	if (a == NULL || a->level != level)
		return HANDLE;
	a->o.gone = true;
	return release_block(a->at);
}

CUresult cuArrayDestroy(CUarray hArray)
{
	ENTER(c);
	all_done(c);
	return leave(end_array(hArray, false));
}

/* Arrays with halving sizes. */
struct levels { struct object o; unsigned count; CUarray level[16]; };

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *p, unsigned numMipmapLevels)
{
	if (pHandle == NULL || p == NULL || numMipmapLevels == 0 || numMipmapLevels > 16)
		return INVALID;
	ENTER(c);
	struct levels *l = make(LEVELS, sizeof *l);
	CUDA_ARRAY3D_DESCRIPTOR d = *p;
	CUresult e = OK;
	for (; e == OK && l->count < numMipmapLevels; l->count++) {
		e = new_array(c->device, &d, true, &l->level[l->count]);
		d.Width = d.Width > 1 ? d.Width / 2 : d.Width, d.Height = d.Height > 1 ? d.Height / 2 : d.Height, d.Depth = d.Depth > 1 ? d.Depth / 2 : d.Depth;
	}
	l->o.gone = e != OK;
	*pHandle = (CUmipmappedArray)l;
	return leave(e);
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned level)
{
	FIND(levels, l, known(LEVELS, hMipmappedArray), HANDLE);
	if (pLevelArray == NULL || level >= l->count)
		return leave(INVALID);
	return STORE(pLevelArray, l->level[level]);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	ENTER(c);
	all_done(c);
	struct levels *l = known(LEVELS, hMipmappedArray);
	if (l == NULL)
		return leave(HANDLE);
	for (unsigned i = 0; i < l->count; i++)
		end_array(l->level[i], true);
	l->o.gone = true;
	return leave(OK);
}

CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	uint64_t pitch = 0, rows = 0, to = side(CU_MEMORYTYPE_ARRAY, NULL, 0, dstArray, dstOffset, 0, 0, &pitch, &rows);
	return to ? put_copy(NULL, true, line(to, (uint64_t)srcHost, ByteCount)) : HANDLE;
}

CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	uint64_t pitch = 0, rows = 0, from = side(CU_MEMORYTYPE_ARRAY, NULL, 0, srcArray, srcOffset, 0, 0, &pitch, &rows);
	return from ? put_copy(NULL, true, line((uint64_t)dstHost, from, ByteCount)) : HANDLE;
}

static struct image images[1024];

static uint64_t first_image(void) { return 1 + (base >> 40) % 8; }

struct image *image_known(uint64_t number, bool surface)
{
	uint64_t i = number - first_image();
	return i < sizeof images / sizeof *images && images[i].used && images[i].surface == surface ? &images[i] : NULL;
}

/* A texture's or surface's content: rows of equal length in bytes. Call with the lock held. */
bool image_memory(const CUDA_RESOURCE_DESC *of, CUdeviceptr *at, struct fakecuda_image *m)
{
	CUarray h = of->res.array.hArray;
	switch (of->resType) {
	case CU_RESOURCE_TYPE_LINEAR:
		*at = of->res.linear.devPtr;
		*m = (struct fakecuda_image){.width = of->res.linear.sizeInBytes, .height = 1, .pitch = of->res.linear.sizeInBytes};
		return true;
	case CU_RESOURCE_TYPE_PITCH2D:
		*at = of->res.pitch2D.devPtr;
		*m = (struct fakecuda_image){.width = of->res.pitch2D.width * element(of->res.pitch2D.format, of->res.pitch2D.numChannels), .height = of->res.pitch2D.height, .pitch = of->res.pitch2D.pitchInBytes};
		return true;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
		struct levels *l = known(LEVELS, of->res.mipmap.hMipmappedArray);
		if (l == NULL)
			return false;
		h = l->level[0];
	}
	/* fall through */
	case CU_RESOURCE_TYPE_ARRAY: {
		struct array *a = known(ARRAY, h);
		if (a == NULL)
			return false;
		*at = a->at;
		*m = (struct fakecuda_image){.width = a->pitch, .height = a->size / a->pitch, .pitch = a->pitch};
		return true;
	}
	default:
		return false;
	}
}

static CUresult new_image(uint64_t *out, const CUDA_RESOURCE_DESC *of, bool surface)
{
	struct fakecuda_image m;
	CUdeviceptr at;
	if (out == NULL || of == NULL)
		return INVALID;
	ENTER(c);
	if (!image_memory(of, &at, &m) || (surface && of->resType != CU_RESOURCE_TYPE_ARRAY) || seen(at, m.pitch * (m.height - 1) + m.width) == NULL)
		return leave(INVALID);
	for (unsigned i = 0; i < sizeof images / sizeof *images; i++)
		if (!images[i].used) {
			images[i] = (struct image){true, surface, *of};
			*out = i + first_image();
			return leave(OK);
		}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult end_image(uint64_t number, bool surface)
{
	ENTER(c);
	all_done(c); /* kernels launched earlier still read it */
	struct image *i = image_known(number, surface);
	if (i)
		i->used = false;
	return leave(i ? OK : INVALID);
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	(void)pResViewDesc;
	return pTexDesc == NULL ? INVALID : new_image(pTexObject, pResDesc, false);
}

CUresult cuTexObjectDestroy(CUtexObject texObject) { return end_image(texObject, false); }

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc) { return new_image(pSurfObject, pResDesc, true); }

CUresult cuSurfObjectDestroy(CUsurfObject surfObject) { return end_image(surfObject, true); }
