/* The functions a freestanding compiler may call by itself. */
#include <stddef.h>
#include <stdint.h>

void *memset(void *to, int value, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

void *memset(void *to, int value, size_t bytes) {
    for (uint8_t *p = to; bytes; bytes--) *p++ = (uint8_t)value;
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes) {
    const uint8_t *source = from;
    for (uint8_t *p = to; bytes; bytes--) *p++ = *source++;
    return to;
}
