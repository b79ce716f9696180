% for _ in v.checked:

/* Inputs that nodes use as an index: allowed values are `least` to `most`, and `spare`; a bit of `graphs` for each graph. */
static const struct {
    uint32_t at, count;
    int32_t least, most, spare;
    uint32_t graphs;
} choices[] = {
% for r in v.ranges:
    {${r.home}, ${r.size}, ${r.least}, ${r.most}, ${r.spare}, ${r.graphs}u},
% endfor
};

static int inputs_fit(const ${v.name}_t *model, uint32_t graph) {
    for (uint32_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (!(choices[i].graphs & graph)) continue;
        for (uint32_t k = 0; k < choices[i].count; k++) {
            const int32_t number = model->memory.i32[choices[i].at + k];
            if ((number < choices[i].least || number > choices[i].most) && number != choices[i].spare) return 0;
        }
    }
    return 1;
}
% endfor

/* Each source has such a function to detect flags that change results; some compilers define no macro for them. */
typedef void ${v.name}_exact_t(const volatile float *x, volatile float *y);
EXACT_FLAGS(${v.proof})
% for name in v.proofs:
${v.name}_exact_t ${name};
% endfor
#ifdef HAL_OWN_FMA
${v.name}_exact_t ${v.own_fma_proof};
#endif
static ${v.name}_exact_t *const sources[] = {
    ${v.proof},
% for name in v.proofs:
    ${name},
% endfor
#ifdef HAL_OWN_FMA
    ${v.own_fma_proof},
#endif
};

static int flags_are_exact(void) {
    static const uint32_t operands[EXACT_OPERANDS] = {0x4b800000u, 0x40a00000u, 0x7f800000u, 0x80000000u, 0x3f800800u, 0xbf801000u};
    static const uint32_t exact[EXACT_RESULTS - 1u] = {0x40800000u, 0x3fd55555u, 0, 0}; /* and a NaN */
    volatile float x[EXACT_OPERANDS], y[EXACT_RESULTS];
    for (uint32_t i = 0; i < EXACT_OPERANDS; i++) {
        float value;
        memcpy(&value, &operands[i], sizeof value);
        x[i] = value;
    }
    for (uint32_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        uint32_t results[EXACT_RESULTS];
        sources[i](x, y);
        for (uint32_t k = 0; k < EXACT_RESULTS; k++) {
            const float value = y[k];
            memcpy(&results[k], &value, sizeof value);
        }
        for (uint32_t k = 0; k + 1u < EXACT_RESULTS; k++)
            if (results[k] != exact[k]) return 0;
        if ((results[EXACT_RESULTS - 1u] & 0x7fffffffu) <= 0x7f800000u) return 0;
    }
    return 1;
}
