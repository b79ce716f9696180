% for r in v.replay:
<%text>##</%text> Latent replay

The first layers are frozen. `${v.name}_features` computes the latent of a sample (${r.latent_bytes} B), once; passes train the other layers on latents.
The struct has a ring of ${r.slots} records, each a latent and its label; with labels and counters it takes ${r.bytes} B of the struct.

```c
static ${r.latent_type} latent[${v.upper}_LATENT_SIZE];
static ${r.label_type} label[${v.upper}_LABEL_SIZE];

/* A new sample: one pass on it and on ${v.upper}_BATCH - 1 = ${r.batch - 1} records of the ring, then it is a record, too. */
int learn(${r.parameters}) {
    float loss;
    if (${v.name}_features(&model, ${r.passed}, latent) != ${v.upper}_OK) return 1;
    const ${v.name}_status_t status = ${v.name}_replay_train(&model, latent, label, 1, &loss);
    if (status != ${v.upper}_OK && status != ${v.upper}_ERROR_RECORDS) return 1; /* the ring is empty at first */
    return ${v.name}_replay_add(&model, latent, label) != ${v.upper}_OK;
}
```

${r.policy_text} Draws follow from the seed ${r.seed} (policy `${r.policy}`) and from counters of the ring: the same calls give the same
ring and the same weights on every machine. `${v.name}_replay_fill` fills the inputs of a pass in slices. These functions fill inputs.

An image of the state has the ring; loading weights or changes leaves it as it is.

% endfor
