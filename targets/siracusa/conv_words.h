/* Words of the kernels of convolutions. */
#ifndef CONV_WORDS_H
#define CONV_WORDS_H

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 4")
#define OFTEN(condition) __builtin_expect(!!(condition), 1)
#define NOT_OFTEN(condition) __builtin_expect(!!(condition), 0)

#endif
