/* The network of problem.h in AIfES. A step is forward pass, backward pass and update, in one call; the loss is no part of it. */
#include "aifes_step.h"

#include <aifes.h>
#include <string.h>

#include "problem.h"

#define BYTES 200000u

static uint64_t parameters[BYTES / 8u], training[BYTES / 8u];
static aimodel_t network;
static aiopti_t *optimizer;
static aitensor_t input, target;
static uint16_t input_shape[] = INPUT_SHAPE, target_shape[] = {BATCH, OUTPUTS};
static ailayer_input_f32_t first = AILAYER_INPUT_F32_A(sizeof input_shape / sizeof input_shape[0], input_shape);
#ifdef FILTERS
static ailayer_conv2d_t conv = AILAYER_CONV2D_F32_A(FILTERS, HW(3, 3), HW(1, 1), HW(1, 1), HW(1, 1));
static ailayer_flatten_t flat = AILAYER_FLATTEN_F32_A();
#else
static ailayer_dense_f32_t hidden = AILAYER_DENSE_F32_A(HIDDEN);
#endif
static ailayer_relu_f32_t relu = AILAYER_RELU_F32_A();
static ailayer_dense_f32_t last = AILAYER_DENSE_F32_A(OUTPUTS);
static ailoss_mse_f32_t squares;
static aiopti_sgd_f32_t sgd = AIOPTI_SGD_F32(RATE);

static aitensor_t tensor(uint16_t *shape, unsigned dim, const float *data) {
    return (aitensor_t){.dtype = aif32, .dim = (uint8_t)dim, .shape = shape, .tensor_params = 0, .data = (void *)(uintptr_t)data};
}

void peer_take(unsigned step) {
    input = tensor(input_shape, sizeof input_shape / sizeof input_shape[0], inputs[step]);
    target = tensor(target_shape, 2, targets[step]);
}

peer_status_t peer_train_step(peer_t *model, float *loss) {
    (void)model, (void)loss;
    return aialgo_train_model(&network, &input, &target, optimizer, BATCH);
}

peer_status_t peer_update(peer_t *model) { return model == 0; }
peer_status_t peer_predict(peer_t *model) { return model == 0; }

int peer_init(peer_t *model) {
    network.input_layer = ailayer_input_f32_default(&first);
#ifdef FILTERS
    ailayer_t *x = ailayer_conv2d_chw_f32_default(&conv, network.input_layer);
    x = ailayer_relu_f32_default(&relu, x);
    x = ailayer_flatten_f32_default(&flat, x);
    aitensor_t *weights = &conv.weights, *bias = &conv.bias;
#else
    ailayer_t *x = ailayer_dense_f32_default(&hidden, network.input_layer);
    x = ailayer_relu_f32_default(&relu, x);
    aitensor_t *weights = &hidden.weights, *bias = &hidden.bias;
#endif
    network.output_layer = ailayer_dense_f32_default(&last, x);
    network.loss = ailoss_mse_mean_f32_default(&squares, network.output_layer);
    aialgo_compile_model(&network);
    const unsigned long held = aialgo_sizeof_parameter_memory(&network);
    if (held > BYTES) return 1;
    aialgo_distribute_parameter_memory(&network, parameters, held);
    memcpy(weights->data, first_weights, sizeof first_weights);
    memcpy(bias->data, first_bias, sizeof first_bias);
    memcpy(last.weights.data, last_weights, sizeof last_weights);
    memcpy(last.bias.data, last_bias, sizeof last_bias);
    optimizer = aiopti_sgd_f32_default(&sgd);
    const unsigned long needed = aialgo_sizeof_training_memory(&network, optimizer);
    if (needed > BYTES) return 1;
    aialgo_schedule_training_memory(&network, optimizer, training, needed);
    aialgo_init_model_for_training(&network, optimizer);
    model->steps = STEPS;
    model->bytes = held + needed + sizeof inputs[0] + sizeof targets[0];
    return 0;
}

float peer_loss(void) {
    float loss;
    aialgo_calc_loss_model_f32(&network, &input, &target, &loss);
    return loss;
}
