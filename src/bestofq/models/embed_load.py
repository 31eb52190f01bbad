"""The embedder that a checkpoint asks for."""

from pathlib import Path

from transformers import AutoConfig

from bestofq.core.embedding import Context, Pooling
from bestofq.core.errors import ConfigError, SetupError
from bestofq.models.cached_embedder import CachedEmbedder
from bestofq.models.embed import LocalEmbedder
from bestofq.models.embed_vision import FAMILY, PIXELS, PIXELS_LEAST, VisionEmbedder
from bestofq.models.local import LocalModel, Precision


def load_embedder(
    path: str | Path,
    *,
    device: str = "auto",
    precision: Precision = "auto",
    prompt: str = "",
    layer: int = -1,
    pooling: Pooling = "mean",
    context: Context = "alone",
    pixels: int = PIXELS,
    pixels_least: int = PIXELS_LEAST,
) -> CachedEmbedder:
    """A vision-language model's where the checkpoint's configuration says it is one, else a language model's, of texts
    alone (`pixels` have no meaning for it). SetupError when it cannot be found, ConfigError on a context that the model
    cannot give."""
    try:
        kind = AutoConfig.from_pretrained(path).model_type
    except (OSError, ValueError) as error:
        raise SetupError(f"no model at {path}: give a transformers directory or a hub name ({error})") from error
    if kind not in FAMILY:
        model = LocalModel.load(path, device=device, precision=precision)
        return LocalEmbedder(model, prompt=prompt, layer=layer, pooling=pooling, context=context)
    if context != "alone":
        raise ConfigError(f"{path} embeds texts alone, not in the context {context}: set embed_context to alone")
    return VisionEmbedder.load(
        path,
        device=device,
        precision=precision,
        pixels=pixels,
        pixels_least=pixels_least,
        prompt=prompt,
        layer=layer,
        pooling=pooling,
    )
