/* What measure.c wraps: one training step of AIfES under the names that a library of ours has. */
#ifndef AIFES_STEP_H
#define AIFES_STEP_H

typedef int peer_status_t;
typedef struct {
    unsigned steps; /* how many samples there are */
    unsigned long bytes; /* of weights, training memory and a sample */
} peer_t;

int peer_init(peer_t *model);
void peer_take(unsigned step);
float peer_loss(void);
peer_status_t peer_train_step(peer_t *model, float *loss);
peer_status_t peer_update(peer_t *model);
peer_status_t peer_predict(peer_t *model);

#endif
