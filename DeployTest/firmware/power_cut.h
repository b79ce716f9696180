/* A power cut in an emulated flash: `power` is how many bytes may change until it goes, or ALWAYS; who changes a byte asks
 * `is_last` first, and leaves by `cut` where it is. */
#ifndef POWER_CUT_H
#define POWER_CUT_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NEED(holds)                                                      \
    do {                                                                 \
        if (!(holds)) printf("line %d: %s\n", __LINE__, #holds), exit(1); \
    } while (0)

enum { ALWAYS = -1 };

static long power = ALWAYS;
static jmp_buf cut;
static uint64_t noise = 88172645463325252u;

/* Marsaglia's xorshift. */
static uint8_t drawn(void) {
    noise ^= noise << 13;
    noise ^= noise >> 7;
    noise ^= noise << 17;
    return (uint8_t)(noise >> 24);
}

static int is_last(void) { return power != ALWAYS && power-- == 0; }

#endif
