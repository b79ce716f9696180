/* ${v.provenance} */
#include "${v.name}_sampler.h"

#include "${v.name}_exact_flags.h"
#include "${v.name}_sampling_f32.h"

int32_t ${v.name}_sample(const float *logits, uint32_t count, float temperature, uint32_t top_k, float top_p, uint64_t seed,
                         uint32_t sequence, uint32_t position) {
    if (!logits) return ${v.upper}_SAMPLE_ERROR_POINTER;
    return sample_f32(logits, count, temperature, top_k, top_p, seed, sequence, position);
}

EXACT_FLAGS(${v.name}_sampler_exact)
