
## Reading and continuing texts

`${v.name}_language.h` has the model with what it has read: up to ${v.context} tokens of ${v.sequences} texts at the same time, ${v.chunk} of a text at once, or one. The scores of what follows
are those of training, bit by bit, however a text is divided.

| function | meaning |
| --- | --- |
| `${v.name}_language_init` | prepares a struct, instead of `${v.name}_init` |
| `${v.name}_prefill` | reads tokens of one text |
| `${v.name}_decode` | reads one token of each text |
| `${v.name}_scores` | the scores of the next token of a text that the last call has read |
| `${v.name}_sample` | draws a token of scores (`${v.name}_sampler.h`); the same seed and position give the same token on every machine |
| `${v.name}_reset` | forgets a text |
% for _ in v.tokenizer:
| `${v.name}_text_encode` | ids of a text (`${v.name}_text_tokenizer.h`) |
| `${v.name}_text_decode` | the bytes of an id |
% endfor

% for _ in v.adapted:
Weights of the adapter are replaced by `${v.name}_set_weight(&language.model, ...)`. What was read before was read with the old ones: call
`${v.name}_reset` for each text then.

% endfor
`examples/main.c` goes on with a text.
