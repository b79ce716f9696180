/* ${v.provenance}
 *
 * A sequence of which nothing is read in a call gets rows behind those that it has; they are overwritten before they are seen. */
#include "${v.name}_language.h"

#include <string.h>

/* Whether ids are of the vocabulary, and there is room for them. */
static int fits(const ${v.name}_language_t *language, uint32_t sequence, const int32_t *ids, uint32_t count) {
    if (!count || count > ${v.upper}_CONTEXT - language->lengths[sequence]) return 0;
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= ${v.upper}_VOCABULARY) return 0;
    return 1;
}

% for r in v.readers:
/* Read ${r.purpose}: counts[s] ids from ids[s] on. */
static ${v.name}_status_t ${r.name}(${v.name}_language_t *language, const int32_t *const *ids, const uint32_t *counts) {
    int32_t *tokens = ${r.tokens}(&language->model), *begin = ${v.name}_input_begin(&language->model);
% for last in r.last:
    int32_t *last = ${last}(&language->model);
% endfor
    if (!tokens) return ${v.name}_last_error(&language->model);
    memset(tokens, 0, ${v.upper}_SEQUENCES * ${r.most} * sizeof *tokens);
    for (uint32_t s = 0; s < ${v.upper}_SEQUENCES; s++) {
        if (counts[s]) memcpy(tokens + s * ${r.most}, ids[s], counts[s] * sizeof *tokens);
        begin[s] = (int32_t)language->lengths[s];
% for _ in r.last:
        last[s] = counts[s] ? (int32_t)counts[s] - 1 : 0;
% endfor
    }
    const ${v.name}_status_t status = ${r.predict}(&language->model);
    if (status) return status;
    language->program = ${r.number};
    for (uint32_t s = 0; s < ${v.upper}_SEQUENCES; s++) language->lengths[s] += counts[s];
    return status;
}

% endfor
${v.name}_status_t ${v.name}_language_init(${v.name}_language_t *language) {
    if (!language) return ${v.upper}_ERROR_POINTER;
    memset(language->lengths, 0, sizeof language->lengths);
    language->program = 0;
    return ${v.name}_init(&language->model);
}

${v.name}_status_t ${v.name}_reset(${v.name}_language_t *language, uint32_t sequence) {
    if (!language) return ${v.upper}_ERROR_POINTER;
    if (sequence >= ${v.upper}_SEQUENCES) return ${v.upper}_ERROR_INPUT;
    language->lengths[sequence] = 0;
    return ${v.upper}_OK;
}

uint32_t ${v.name}_length(const ${v.name}_language_t *language, uint32_t sequence) {
    return language && sequence < ${v.upper}_SEQUENCES ? language->lengths[sequence] : 0;
}

${v.name}_status_t ${v.name}_prefill(${v.name}_language_t *language, uint32_t sequence, const int32_t *ids, uint32_t count) {
    const int32_t *all[${v.upper}_SEQUENCES] = {0};
    uint32_t counts[${v.upper}_SEQUENCES] = {0};
    if (!language || !ids) return ${v.upper}_ERROR_POINTER;
    if (sequence >= ${v.upper}_SEQUENCES || !fits(language, sequence, ids, count)) return ${v.upper}_ERROR_INPUT;
    for (uint32_t at = 0; at < count; at += counts[sequence]) {
        const uint32_t left = count - at, few = left < ${v.upper}_CHUNK_LEAST;
        counts[sequence] = few ? 1 : left < ${v.upper}_CHUNK ? left : ${v.upper}_CHUNK;
        all[sequence] = ids + at;
        const ${v.name}_status_t status = few ? ${v.single.name}(language, all, counts) : ${v.whole.name}(language, all, counts);
        if (status) return status;
    }
    return ${v.upper}_OK;
}

${v.name}_status_t ${v.name}_decode(${v.name}_language_t *language, const int32_t ids[${v.upper}_SEQUENCES]) {
    const int32_t *all[${v.upper}_SEQUENCES];
    uint32_t counts[${v.upper}_SEQUENCES];
    if (!language || !ids) return ${v.upper}_ERROR_POINTER;
    for (uint32_t s = 0; s < ${v.upper}_SEQUENCES; s++) {
        if (!fits(language, s, ids + s, 1)) return ${v.upper}_ERROR_INPUT;
        all[s] = ids + s;
        counts[s] = 1;
    }
    return ${v.single.name}(language, all, counts);
}

const float *${v.name}_scores(const ${v.name}_language_t *language, uint32_t sequence) {
    if (!language || sequence >= ${v.upper}_SEQUENCES) return 0;
    const float *scores = 0;
    switch (language->program) {
% for r in v.readers:
    case ${r.number}: scores = ${r.output}(&language->model); break;
% endfor
    }
    return scores ? scores + sequence * ${v.upper}_VOCABULARY : 0;
}
