"""Hugging Face directories, from the configurations of transformers with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from checkpoint_cases.case import Made, Maker, add, seeded, silent

TOKENS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32, "patch_size": 8}
PATCHES = TOKENS | {"intermediate_size": 24}
STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1]}
WINDOWS = {"patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2, "image_size": 32}
FOUR = {"image_size": 64, "hidden_sizes": [8] * 4, "depths": [1] * 4, "num_attention_heads": [1] * 4}
WORDS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 50}
BOTH = {"vision_config": PATCHES, "text_config": WORDS}

FAMILIES: dict[str, dict[str, Any]] = {
    "vit": PATCHES,
    "deit": PATCHES,
    "beit": PATCHES,
    "dinov2": TOKENS,
    "swin": WINDOWS,
    "swinv2": WINDOWS,
    "resnet": {"embedding_size": 8, **STAGES},
    "regnet": {"embedding_size": 8, "groups_width": 8, **STAGES},
    "bit": {"embedding_size": 8, "num_groups": 1, **STAGES},
    "convnext": {"num_stages": 2, "image_size": 32, **STAGES},
    "convnextv2": {"num_stages": 2, "image_size": 32, **STAGES},
    "mobilenet_v2": {"image_size": 32, "depth_multiplier": 0.25},
    "efficientnet": {"image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320},
    "poolformer": {"num_encoder_blocks": 2, "patch_sizes": [7, 3], "strides": [4, 2], "padding": [2, 1], **STAGES},
    "focalnet": {"image_size": 32, "embed_dim": 8, "focal_levels": [1, 1], "focal_windows": [3, 3], **STAGES},
    "pvt": FOUR,
    "segformer": FOUR,
    "clip": BOTH,
    "siglip": BOTH,
}
"""Families of transformers with settings that keep them small."""


class Plain(nn.Module):
    """A model of transformers that returns its logits."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.model(images).logits
        return logits


def build(family: str, **settings: Any) -> Any:
    """Build a small member of a family."""
    import transformers

    names = {"deit": ["DeiTForImageClassification"]}
    made = {"num_labels": 5, "architectures": names.get(family), **settings}
    config = transformers.AutoConfig.for_model(family, **made)
    auto = transformers.AutoModelForImageClassification
    with silent():
        if family in names:
            return seeded(lambda: transformers.DeiTForImageClassification(config))
        return seeded(lambda: auto.from_config(config))


def save(model: Any, folder: Path, **options: Any) -> Path:
    """Write the directory without a progress bar."""
    import transformers

    with silent():
        transformers.utils.logging.disable_progress_bar()
        model.save_pretrained(folder, **options)
        transformers.utils.logging.enable_progress_bar()
    return folder


def directory(family: str, change: Callable[[Path, Any], object] | None = None, **options: Any) -> Maker:
    """Save a small member of a family, and change the directory."""

    def make(folder: Path) -> Made:
        model = build(family, **FAMILIES[family])
        save(model, folder, **options)
        if change is not None:
            change(folder, model)
        side = FAMILIES[family].get("image_size", 32)
        return Made(source=folder, logits=Plain(model), shape=(3, side, side))

    return make


def pickled(folder: Path, model: Any, shards: int = 1) -> None:
    """Put the weights where older versions put them."""
    for file in folder.glob("model*.safetensors"):
        file.unlink()
    weights = list(model.state_dict().items())
    if shards == 1:
        torch.save(dict(weights), folder / "pytorch_model.bin")
        return
    parts = {f"pytorch_model-{i + 1:05}-of-{shards:05}.bin": dict(weights[i::shards]) for i in range(shards)}
    for name, part in parts.items():
        torch.save(part, folder / name)
    names = {key: name for name, part in parts.items() for key in part}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": names}))


def configured(**settings: Any) -> Callable[[Path, Any], object]:
    """Return what changes the configuration."""

    def change(folder: Path, _: Any) -> None:
        file = folder / "config.json"
        content = {**json.loads(file.read_text()), **settings}
        file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))

    return change


def adapted(folder: Path, _: Any) -> None:
    """Put an adapter beside the weights."""
    save_file({"base_model.model.fc.lora_A.weight": torch.ones(2, 8)}, folder / "adapter_model.safetensors")


def tensorflow(folder: Path, _: Any) -> None:
    """Leave only the weights of TensorFlow."""
    (folder / "model.safetensors").rename(folder / "tf_model.h5")


def backbone(folder: Path) -> Made:
    """Save a network without its head."""
    return Made(source=save(build("vit", **PATCHES).vit, folder))


def timm(folder: Path) -> Made:
    """Write what timm writes."""
    (folder / "config.json").write_text(json.dumps({"architecture": "resnet18", "num_classes": 10}))
    save_file({"fc.weight": torch.ones(10, 8)}, folder / "model.safetensors")
    return Made(source=folder)


add("Hugging Face directory", {family: directory(family) for family in FAMILIES})
add(
    "Hugging Face directory",
    {
        "in several files (vit)": directory("vit", max_shard_size="8KB"),
        "`pytorch_model.bin` (vit)": directory("vit", pickled),
        "`pytorch_model.bin` in three files (resnet)": directory("resnet", lambda folder, m: pickled(folder, m, 3)),
        "with code of its own": (
            directory("vit", configured(auto_map={"AutoModelForImageClassification": "modeling.Net"})),
            "state dict",
        ),
        "quantised": (directory("vit", configured(quantization_config={"quant_method": "bitsandbytes"})), "dequantize"),
        "an adapter beside its base": (directory("vit", adapted), "merge_and_unload"),
        "weights of TensorFlow only": (directory("vit", tensorflow), "save_pretrained"),
        "a backbone without its head": (backbone, "fine-tuned classifier"),
        "a language model": (directory("vit", configured(model_type="bert")), "--head-key"),
        "timm": (timm, "timm:create_model"),
    },
)
