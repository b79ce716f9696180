/* Numbers as text without libc, doubles or 64-bit division, so that every target prints the same characters.
 * Each writes a terminating NUL, which the returned length does not count. NaN prints as "nan" whatever its sign:
 * the sign of a computed NaN is the one bit on which processors differ. */
#ifndef FORMAT_H
#define FORMAT_H

#include <stdint.h>

#define FORMAT_F32_CHARS 16 /* -0.000123456789 and the NUL */
#define FORMAT_E6_CHARS 14  /* -1.234568e-38 and the NUL */
#define FORMAT_U64_CHARS 21

/* As printf("%.9g"): nine digits tell any two floats apart. */
uint32_t format_f32(char *text, float value);
/* As printf("%.6e"). */
uint32_t format_e6(char *text, float value);
uint32_t format_u64(char *text, uint64_t value);

#endif
