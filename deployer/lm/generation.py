"""A text that goes on token by token, drawn from the scores of a decoder."""

from collections.abc import Iterator, Sequence

from deployer.core.operator import Array
from deployer.lm.decoder import Decoder
from deployer.text.sampling import Sampler


def continued(decoder: Decoder, ids: Sequence[int], count: int, end: int, sampler: Sampler) -> Iterator[int]:
    """Up to `count` ids behind given ones, until a document ends; the decoder, of one sequence, begins anew.

    The draw of a token follows from its position in the text. Of a text that fills the context the later half is read
    again, and the rest forgotten.
    """
    text, room = list(ids), decoder.architecture.context
    decoder.reset()
    scores = decoder.prefill(text[-room:])
    for step in range(count):
        token = sampler.sample(scores[0], 0, len(text))
        if token == end:
            return
        text.append(token)
        yield token
        if step + 1 < count:
            scores = decoder.decode([token]) if decoder.lengths[0] < room else _again(decoder, text, room)


def _again(decoder: Decoder, text: Sequence[int], room: int) -> Array:
    decoder.reset()
    return decoder.prefill(text[-max(room // 2, 1) :])
