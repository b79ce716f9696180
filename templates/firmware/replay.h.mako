% for r in v.replay:
/* Latent replay. The first layers are frozen: `features` computes of a sample the latent that the other layers read, once, and
 * a ring in the struct has records of latents and labels. Passes train on new latents and on records that are drawn from it. */
#define ${v.upper}_BATCH ${r.batch}u        /* latents of a pass */
#define ${v.upper}_LATENT_SIZE ${r.latent_size}u  /* elements of a latent */
#define ${v.upper}_LABEL_SIZE ${r.label_size}u    /* elements of a label */
#define ${v.upper}_REPLAY_SLOTS ${r.slots}u /* records of the ring; with their labels and counters it takes ${r.bytes} bytes */

/* Run the frozen layers on one sample, and copy the latent out; inputs are arrays of the program, or the library's own. */
${v.name}_status_t ${v.name}_features(${v.name}_t *model, ${r.parameters}, ${r.latent_type} *latent);

/* Add a record. ${r.policy_text} */
${v.name}_status_t ${v.name}_replay_add(${v.name}_t *model, const ${r.latent_type} *latent, const ${r.label_type} *label);

/* Train on `count` new latents with their labels, at most a batch, and on records for the rest of it; then update the weights if
 * it was the last of ${v.upper}_ACCUMULATE passes. Records are drawn at random, each time from all. `loss` may be null. */
${v.name}_status_t ${v.name}_replay_train(${v.name}_t *model, const ${r.latent_type} *latents, const ${r.label_type} *labels, uint32_t count, float *loss);

/* Fill the inputs of a pass as replay_train does, for train_step, or for a pass in slices. */
${v.name}_status_t ${v.name}_replay_fill(${v.name}_t *model, const ${r.latent_type} *latents, const ${r.label_type} *labels, uint32_t count);

/* Return the number of records in the ring; empty it. Images of the state have the ring, those of weights leave it as it is. */
uint32_t ${v.name}_replay_count(const ${v.name}_t *model);
${v.name}_status_t ${v.name}_replay_clear(${v.name}_t *model);

% endfor
