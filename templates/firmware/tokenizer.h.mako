/* ${v.provenance}
 *
 * Text to token ids and back: ${v.title}. It allocates no memory, calls no library, and keeps no state. */
#ifndef ${v.upper}_TOKENIZER_H
#define ${v.upper}_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ${v.upper}_VOCAB ${v.vocab} /* ids are 0 to 1 less */
#define ${v.upper}_END ${v.end} /* the id between documents, which no text gives and which decodes to nothing */
#define ${v.upper}_TOKEN ${v.longest}u /* bytes of the longest token */

/* Results below 0. */
#define ${v.upper}_ERROR_ROOM (-1)    /* `ids` has too little room */
#define ${v.upper}_ERROR_ID (-2)      /* the id is outside the vocabulary */
#define ${v.upper}_ERROR_POINTER (-3) /* a pointer is null */

/* The ids of `count` bytes, which need not be valid UTF-8, and their number. The ids of a word are made in place, one for
 * each of its bytes at first, so a room of `count` ids is always enough. The time grows with the square of the longest
 * run of letters, of digits, of spaces or of other bytes. */
int32_t ${v.name}_encode(const uint8_t *text, size_t count, int32_t *ids, size_t room);

/* The bytes of an id, which remain valid, and their number as the result. */
int32_t ${v.name}_decode(int32_t id, const uint8_t **bytes);

#ifdef __cplusplus
}
#endif

#endif
