"""`bestofq doctor --base-url`: whether an endpoint's vectors may stand for those of the model in this process."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image, ImageDraw

from bestofq.agents.prompting import prompt_hash
from bestofq.cli.config import config_of
from bestofq.cli.options import console
from bestofq.cli.writing import check_out
from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.core.errors import ConfigError
from bestofq.core.observation import Screenshot
from bestofq.core.secrets import hide_json
from bestofq.models.embed_http import PoolingEndpoint, check
from bestofq.models.embed_vision import load_embedder
from bestofq.models.endpoint import EndpointConfig


def compare_embeddings(
    base_url: str, model: str | None, local: str | None, sizes: Mapping[str, int | None], device: str, out: Path
) -> None:
    """Compare an endpoint's embeddings to those of the model in this process; refused below a cosine of 0.999."""
    check_out(out)
    if model is None:
        raise ConfigError(f"--base-url {base_url} needs --model, the name by which the endpoint knows its model")
    config = config_of(EndpointConfig, {"model": model, "base_url": base_url})
    how = EmbedConfig(prompt=prompt_hash(), **{name: size for name, size in sizes.items() if size is not None})
    mine = load_embedder(local or model, how, device=device)
    endpoint = PoolingEndpoint(config)
    try:
        agreement = check(endpoint, mine, probes(pictures=mine.spec.pixels > 0))
    finally:
        endpoint.close()
    out.write_text(hide_json(agreement.model_dump_json(indent=2)) + "\n")
    console.print(
        f"{model} agrees with {mine.spec.model} in {agreement.items} inputs: least cosine {agreement.cosine:.5f}, "
        f"lengths within {100 * agreement.length:.2f} %. Kept in {out}",
        highlight=False,
    )


def probes(*, pictures: bool) -> list[EmbedItem]:
    """What is compared: an action, a task, states short and long, and pictures of two sizes."""
    page = "\n".join(f"Red kettle, {n}.5 litres, {20 + n} dollars [{n}]  Add to cart [{n + 100}]" for n in range(1, 61))
    texts = ["click button Buy Now", "find a red kettle under 40 dollars", f"page:\n{page[:400]}", f"page:\n{page}"]
    items = [EmbedItem(text=text) for text in texts]
    if pictures:
        items += [EmbedItem(text=texts[2], screenshots=(_drawn(*size),)) for size in ((1024, 768), (390, 844))]
    return items


def _drawn(width: int, height: int) -> Screenshot:
    """A page of boxes and lines, as a PNG: every decoder sees the same pixels."""
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    for row in range(0, height, 60):
        draw.rectangle((20, row + 10, width // 2, row + 50), fill=(row % 256, 90, 200))
        draw.text((width // 2 + 20, row + 20), f"Red kettle, {row} dollars", fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    data = file.getvalue()
    return Screenshot(
        sha256=hashlib.sha256(data).hexdigest(), media_type="image/png", width=width, height=height, data=data
    )
