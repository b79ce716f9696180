/* Trains the network: prints the loss before each step, and the bytes of weights, training memory and a sample. */
#include "aifes_step.h"

#include <stdio.h>

int main(void) {
    peer_t model;
    float loss;
    if (peer_init(&model)) return 1;
    for (unsigned step = 0; step < model.steps; step++) {
        peer_take(step);
        printf("loss %u %.9g\n", step, (double)peer_loss());
        if (peer_train_step(&model, &loss)) return 1;
    }
    printf("bytes %lu\n", model.bytes);
    return 0;
}
