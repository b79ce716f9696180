/* Passes in parts by a counter of cycles: this one goes on by 100 with each look, and from the highest number to 0. Prints
 * how many calls a pass takes with each budget. */
#include "adapted.h"

#include <stdio.h>

uint32_t counted(void);

static uint32_t now = UINT32_MAX - 250;

uint32_t counted(void) { return now += 100; }

int main(void) {
    static adapted_t model;
    static const uint32_t budgets[] = {0, 100, 101, 300, UINT32_MAX};
    if (adapted_init(&model) != ADAPTED_OK) return 1;
    printf("%u:", (unsigned)ADAPTED_STEPS);
    for (uint32_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        unsigned calls = 1;
        if (adapted_train_step_begin(&model) != ADAPTED_OK) return 1;
        while (adapted_train_step_continue(&model, budgets[i], 0) == ADAPTED_MORE) calls++;
        if (adapted_last_error(&model) != ADAPTED_OK || adapted_drop_passes(&model) != ADAPTED_OK) return 1;
        printf(" %u", calls);
    }
    printf("\n");
    return 0;
}
