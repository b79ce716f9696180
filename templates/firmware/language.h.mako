/* ${v.title}
 *
 * ${v.provenance}
 *
 * Reads and continues texts as token ids: prefill reads a text, decode one token of each sequence, and the scores of what
 * follows are those of training, bit by bit. Keys and values of what was read are kept in the struct. It allocates no memory. */
#ifndef ${v.upper}_LANGUAGE_H_INCLUDED
#define ${v.upper}_LANGUAGE_H_INCLUDED

#include "${v.name}.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ${v.upper}_VOCABULARY ${v.vocab}u /* ids are 0 to 1 less */
#define ${v.upper}_CONTEXT ${v.context}u /* tokens that a sequence has room for */
#define ${v.upper}_SEQUENCES ${v.sequences}u /* texts that are read at the same time */
#define ${v.upper}_CHUNK ${v.chunk}u /* tokens of a sequence that are read at once */
#define ${v.upper}_CHUNK_LEAST ${v.least}u /* fewer are read one by one, which costs less */

/* A model with what it has read. The members are private, but for `model`, which is that of ${v.name}.h. */
typedef struct {
    ${v.name}_t model;
    uint32_t lengths[${v.upper}_SEQUENCES];
    uint32_t program; /* whose scores are the last ones */
} ${v.name}_language_t;

/* Prepare a struct. Must be the first call. */
${v.name}_status_t ${v.name}_language_init(${v.name}_language_t *language);

/* Forget what was read of a sequence. */
${v.name}_status_t ${v.name}_reset(${v.name}_language_t *language, uint32_t sequence);

/* Tokens of a sequence that were read; 0 for one that there is not. */
uint32_t ${v.name}_length(const ${v.name}_language_t *language, uint32_t sequence);

/* Read tokens of one sequence. ${v.upper}_ERROR_INPUT, and nothing is read, where an id is none of the vocabulary, the sequence
 * has no room for them, or there are none. */
${v.name}_status_t ${v.name}_prefill(${v.name}_language_t *language, uint32_t sequence, const int32_t *ids, uint32_t count);

/* Read one token of each sequence, with the same errors. */
${v.name}_status_t ${v.name}_decode(${v.name}_language_t *language, const int32_t ids[${v.upper}_SEQUENCES]);

/* The scores of what follows in a sequence that the last call has read, of each id of the vocabulary. Valid until the next call
 * for this struct. Null for a sequence that there is not. */
const float *${v.name}_scores(const ${v.name}_language_t *language, uint32_t sequence);

#ifdef __cplusplus
}
#endif

#endif
