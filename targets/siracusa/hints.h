/* What the compiler is told about functions, loops and branches. */
#ifndef HINTS_H
#define HINTS_H

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 4")
#define OFTEN(condition) __builtin_expect(!!(condition), 1)
#define SELDOM(condition) __builtin_expect(condition, 0)

#endif
