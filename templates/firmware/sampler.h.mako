/* ${v.provenance}
 *
 * A token drawn from logits. It allocates no memory, calls no library, and keeps no state. */
#ifndef ${v.upper}_SAMPLER_H
#define ${v.upper}_SAMPLER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results below 0. */
#define ${v.upper}_SAMPLE_ERROR_NAN (-1)     /* a logit is NaN */
#define ${v.upper}_SAMPLE_ERROR_EMPTY (-2)   /* there is no logit, or all are minus infinity */
#define ${v.upper}_SAMPLE_ERROR_OPTION (-3)  /* the temperature is negative or infinite, the share not in (0, 1], or `count` beyond 2^22 */
#define ${v.upper}_SAMPLE_ERROR_POINTER (-4) /* a pointer is null */

/* The id drawn from `count` logits for a position of a sequence: the same on every machine for the same seed. A temperature of
 * 0 takes the largest logit. `top_k` keeps the k most likely ids (0: all), `top_p` of these the fewest that have this share
 * of their probability (1: all); of equal logits the lower id comes first. */
int32_t ${v.name}_sample(const float *logits, uint32_t count, float temperature, uint32_t top_k, float top_p, uint64_t seed,
                         uint32_t sequence, uint32_t position);

#ifdef __cplusplus
}
#endif

#endif
