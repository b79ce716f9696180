/* What the conformance program knows of a target: its memories from the innermost, and how it begins. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stdint.h>

typedef struct {
    const char *name;
    uint8_t *base;
    uint32_t bytes;
} memory_t;

extern const memory_t memories[];
extern const uint32_t memory_count;
extern const uint32_t alignment;

#endif
