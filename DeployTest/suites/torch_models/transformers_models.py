"""Models of `transformers` with random weights and tiny sizes, each with its own loss or a named one, beside PyTorch.

Run as `python -m DeployTest.suites.torch_models.transformers_models` with PyTorch and transformers; with --write it
renews docs/pytorch-coverage.md. Three steps of AdamW each, in generated C on the host.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers as hf
from torch import Tensor, nn

from DeployTest.suites.torch_models.beside import RIGHT, Result, Trial, run, table
from DeployTest.support.documents.pages import renew

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "pytorch-coverage.md"
MARKS = ("<!-- transformers -->", "<!-- end of transformers -->")
STEPS, BATCH, LENGTH, WORDS, CLASSES = 3, 2, 8, 40, 3
RATE = 1e-3
WIDTH: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
STILL: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SEQUENCE: dict[str, Any] = {"vocab_size": WORDS, "max_position_embeddings": 32}
IMAGE: dict[str, Any] = {"image_size": 16, "num_channels": 3}


class Scores(nn.Module):
    """A model that gives hidden states, and a layer over their mean."""

    def __init__(self, body: nn.Module, width: int, name: str = "last_hidden_state") -> None:
        super().__init__()
        self.body, self.head, self.name = body, nn.Linear(width, CLASSES), name

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        states = getattr(self.body(x), self.name)
        return self.head(states.mean(1) if states.dim() == 3 else states)


def _ids() -> Tensor:
    return torch.randint(3, WORDS, (STEPS * BATCH, LENGTH), generator=torch.Generator().manual_seed(2))


def _labels(count: int = CLASSES) -> Tensor:
    return torch.arange(STEPS * BATCH) % count


def _words(config: Any, model: Any) -> Trial:
    """A classifier of sequences, whose own loss takes labels; a mask hides the last place of some."""
    mask = torch.ones((STEPS * BATCH, LENGTH), dtype=torch.int64)
    mask[::2, -1] = 0
    inputs = {"input_ids": _ids(), "attention_mask": mask, "labels": _labels()}
    config.num_labels = CLASSES
    return Trial("", lambda: model(config), inputs, None, "model", BATCH)


def _causal(config: Any, model: Any) -> Trial:
    """A language model with its own loss."""
    ids = _ids()
    return Trial("", lambda: model(config), {"input_ids": ids, "labels": ids.clone()}, None, "model", BATCH)


def _image(config: Any, model: Any, size: int = 16) -> Trial:
    """A classifier of images with its own loss."""
    config.num_labels = CLASSES
    images = torch.randn((STEPS * BATCH, 3, size, size), generator=torch.Generator().manual_seed(3))
    return Trial("", lambda: model(config), {"pixel_values": images, "labels": _labels()}, None, "model", BATCH)


def _body(build: Callable[[], nn.Module], x: Tensor, width: int) -> Trial:
    """Hidden states, a layer of ours, and a named loss."""
    return Trial("", lambda: Scores(build(), width), {"x": x}, _labels(), "cross_entropy", BATCH)


def _normal(*shape: int) -> Tensor:
    return torch.randn((STEPS * BATCH, *shape), generator=torch.Generator().manual_seed(5))


def _llama_like(config: Any, model: Any, **more: Any) -> Trial:
    sizes = {**WIDTH, **SEQUENCE, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return _causal(config(**sizes, **more), model)


def bert() -> Trial:
    """Encoder."""
    return _words(hf.BertConfig(**WIDTH, **STILL, **SEQUENCE), hf.BertForSequenceClassification)


def distilbert() -> Trial:
    """Encoder."""
    sizes = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "dropout": 0.0, "attention_dropout": 0.0}
    config = hf.DistilBertConfig(**sizes, seq_classif_dropout=0.0, **SEQUENCE)
    return _words(config, hf.DistilBertForSequenceClassification)


def roberta() -> Trial:
    """Encoder."""
    return _words(hf.RobertaConfig(**WIDTH, **STILL, **SEQUENCE), hf.RobertaForSequenceClassification)


def albert() -> Trial:
    """Encoder with shared layers."""
    config = hf.AlbertConfig(**WIDTH, **STILL, **SEQUENCE, embedding_size=8, classifier_dropout_prob=0.0)
    return _words(config, hf.AlbertForSequenceClassification)


def electra() -> Trial:
    """Encoder."""
    config = hf.ElectraConfig(**WIDTH, **STILL, **SEQUENCE, embedding_size=8)
    return _words(config, hf.ElectraForSequenceClassification)


def gpt2() -> Trial:
    """Decoder."""
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": WORDS}
    config = hf.GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
    return _causal(config, hf.GPT2LMHeadModel)


def gpt_neox() -> Trial:
    """Decoder with rotary positions."""
    config = hf.GPTNeoXConfig(**WIDTH, **SEQUENCE, hidden_dropout=0.0, attention_dropout=0.0)
    return _causal(config, hf.GPTNeoXForCausalLM)


def llama() -> Trial:
    """Decoder with grouped queries."""
    return _llama_like(hf.LlamaConfig, hf.LlamaForCausalLM)


def qwen2() -> Trial:
    """Decoder with biases in attention."""
    return _llama_like(hf.Qwen2Config, hf.Qwen2ForCausalLM)


def qwen3() -> Trial:
    """Decoder with norms of queries and keys."""
    return _llama_like(hf.Qwen3Config, hf.Qwen3ForCausalLM, head_dim=8)


def gemma2() -> Trial:
    """Decoder with capped scores and a sliding window."""
    return _llama_like(hf.Gemma2Config, hf.Gemma2ForCausalLM, head_dim=8, query_pre_attn_scalar=8, sliding_window=4)


def mistral() -> Trial:
    """Decoder with a sliding window."""
    return _llama_like(hf.MistralConfig, hf.MistralForCausalLM, sliding_window=4)


def phi() -> Trial:
    """Decoder whose blocks are parallel."""
    return _llama_like(hf.PhiConfig, hf.PhiForCausalLM, resid_pdrop=0.0, embd_pdrop=0.0)


def t5_encoder() -> Trial:
    """Encoder with relative positions."""
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "vocab_size": WORDS}
    return _body(lambda: hf.T5EncoderModel(hf.T5Config(**sizes, dropout_rate=0.0)), _ids(), 16)


def bart() -> Trial:
    """Encoder and decoder."""
    layers = {f"{side}_{what}": n for side in ("encoder", "decoder")
              for what, n in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 24))}  # fmt: skip
    still = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    config = hf.BartConfig(d_model=16, **layers, **still, **SEQUENCE)
    return _causal(config, hf.BartForConditionalGeneration)


def vit() -> Trial:
    """Vision transformer."""
    return _image(hf.ViTConfig(**WIDTH, **STILL, **IMAGE, patch_size=4), hf.ViTForImageClassification)


def deit() -> Trial:
    """Vision transformer with a token to distil into."""
    return _image(hf.DeiTConfig(**WIDTH, **STILL, **IMAGE, patch_size=4), hf.DeiTForImageClassification)


def swin() -> Trial:
    """Vision transformer over windows."""
    sizes = {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2, "patch_size": 2}
    return _image(hf.SwinConfig(**sizes, **STILL, **IMAGE, drop_path_rate=0.0), hf.SwinForImageClassification)


def mobilevit() -> Trial:
    """Convolutions and attention."""
    sizes = {"hidden_sizes": [8, 8, 8], "neck_hidden_sizes": [4, 4, 8, 8, 8, 8, 8], "num_attention_heads": 2}
    config = hf.MobileViTConfig(**sizes, **STILL, image_size=32, patch_size=2, classifier_dropout_prob=0.0)
    return _image(config, hf.MobileViTForImageClassification, 32)


def convnext() -> Trial:
    """Convolutions with layer norms."""
    config = hf.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, image_size=16, patch_size=4)
    return _image(config, hf.ConvNextForImageClassification)


def resnet() -> Trial:
    """Convolutions with batch norms."""
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return _image(config, hf.ResNetForImageClassification, 32)


def wav2vec2() -> Trial:
    """Encoder of sounds, without SpecAugment."""
    sizes = {"conv_dim": [8, 8], "conv_stride": [4, 2], "conv_kernel": [8, 4], "num_conv_pos_embeddings": 4}
    still = {f"{name}_dropout": 0.0 for name in ("hidden", "activation", "attention", "feat_proj", "final")}
    config = hf.Wav2Vec2Config(
        **WIDTH, **sizes, **still, num_feat_extract_layers=2, num_conv_pos_embedding_groups=2, layerdrop=0.0,
        apply_spec_augment=False, mask_time_prob=0.0, vocab_size=WORDS,
    )  # fmt: skip
    return _body(lambda: hf.Wav2Vec2Model(config), _normal(128), 16)


def whisper_encoder() -> Trial:
    """Encoder of spectra."""
    sizes = {"d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 24}
    config = hf.WhisperConfig(
        **sizes, num_mel_bins=8, max_source_positions=8, dropout=0.0, vocab_size=WORDS, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    encoder = hf.models.whisper.modeling_whisper.WhisperEncoder
    return _body(lambda: encoder(config), _normal(8, 16), 16)


def clip_text() -> Trial:
    """Encoder of captions."""
    config = hf.CLIPTextConfig(**WIDTH, **SEQUENCE, bos_token_id=0, eos_token_id=1)
    return _body(lambda: hf.CLIPTextModel(config), _ids(), 16)


def patch_tst() -> Trial:
    """Transformer over patches of a time series."""
    sizes = {"d_model": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24, "context_length": 16}
    config = hf.PatchTSTConfig(
        **sizes, num_input_channels=2, patch_length=4, patch_stride=4, prediction_length=3, attention_dropout=0.0,
        ff_dropout=0.0, path_dropout=0.0, head_dropout=0.0, positional_dropout=0.0,
    )  # fmt: skip
    inputs = {"past_values": _normal(16, 2), "future_values": _normal(3, 2)}
    return Trial("", lambda: hf.PatchTSTForPrediction(config), inputs, None, "model", BATCH)


MODELS: tuple[Callable[[], Trial], ...] = (
    bert, distilbert, roberta, albert, electra, gpt2, gpt_neox, llama, qwen2, qwen3, gemma2, mistral, phi, t5_encoder,
    bart, vit, deit, swin, mobilevit, convnext, resnet, wav2vec2, whisper_encoder, clip_text, patch_tst,
)  # fmt: skip


def trials(names: Sequence[str]) -> list[Trial]:
    """The trials of these names, all by default."""
    chosen = [model for model in MODELS if not names or model.__name__ in names]
    return [Trial(**{**vars(model()), "name": model.__name__}) for model in chosen]


def document(results: Sequence[Result]) -> str:
    """The section of the page."""
    right = sum(r.outcome == RIGHT for r in results)
    head = (
        f"transformers {hf.__version__}, PyTorch {torch.__version__}: {right} of {len(results)} models are right.\n\n"
    )
    return head + table(results)


def main(words: list[str] | None = None) -> int:
    """Run, print each model, and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m DeployTest.suites.torch_models.transformers_models", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="models, by default all")
    parser.add_argument("--write", action="store_true", help=f"renew {DOCUMENT.name}")
    a = parser.parse_args(words)
    results = run(trials(a.names), {"adamw": RATE})
    if a.write:
        renew(DOCUMENT, MARKS, document(results))
    print(f"{len(results)} models: {sum(r.outcome == RIGHT for r in results)} right")
    return 0 if all(r.outcome == RIGHT for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
