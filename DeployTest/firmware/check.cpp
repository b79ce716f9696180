// Both headers in one C++ program, which links and trains.
#include "dense.h"
#include "normed.h"

static dense_t first;
static normed_t second;

int main() {
    float loss = 0.0f;
    const bool ready = dense_init(&first) == DENSE_OK && normed_init(&second) == NORMED_OK;
    return ready && dense_train_step(&first, &loss) == DENSE_OK && loss > 0.0f ? 0 : 1;
}
