"""The embedder that a checkpoint asks for."""

from pathlib import Path

from transformers import AutoConfig

from bestofq.core.embedding import DEFAULTS, EmbedConfig
from bestofq.core.errors import SetupError
from bestofq.models.cached_embedder import CachedEmbedder
from bestofq.models.embed import LocalEmbedder
from bestofq.models.embed_vision import FAMILY, VisionEmbedder
from bestofq.models.local import LocalModel, Precision


def load_embedder(
    path: str | Path, config: EmbedConfig = DEFAULTS, *, device: str = "auto", precision: Precision = "auto"
) -> CachedEmbedder:
    """A vision-language model's where the checkpoint's configuration says it is one, else a language model's, of texts
    alone. SetupError when it cannot be found, ConfigError on a context that the model cannot give."""
    try:
        kind = AutoConfig.from_pretrained(path).model_type
    except (OSError, ValueError) as error:
        raise SetupError(f"no model at {path}: give a transformers directory or a hub name ({error})") from error
    if kind in FAMILY:
        return VisionEmbedder.load(path, device=device, precision=precision, config=config)
    return LocalEmbedder(LocalModel.load(path, device=device, precision=precision), config)
