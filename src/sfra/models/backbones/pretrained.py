"""The plain backbones as transformers models: import this module, and ``from_pretrained`` loads their directories.

    import sfra.models.backbones.pretrained
    from transformers import AutoModelForImageClassification

    model = AutoModelForImageClassification.from_pretrained("runs/original")

Nothing else in sfra imports it: our own loader reads the same directories without transformers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForImageClassification, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import ImageClassifierOutputWithNoAttention

from sfra.release.architecture import find
from sfra.release.directory import MODEL_TYPE
from sfra.release.huggingface import own_memory


class SfraConfig(PreTrainedConfig):  # type: ignore[misc]
    """Names one of the plain backbones; the number of outputs is that of the labels."""

    model_type = MODEL_TYPE

    def __init__(self, backbone: str = "resnet18-small", **settings: Any) -> None:
        super().__init__(**settings)
        self.backbone = backbone


class SfraForImageClassification(PreTrainedModel):  # type: ignore[misc]
    """A plain backbone with the interface of transformers and with its own parameter names."""

    config_class = SfraConfig
    base_model_prefix = ""
    main_input_name = "pixel_values"

    def __init__(self, config: SfraConfig) -> None:
        super().__init__(config)
        network = find(config.backbone).construct(config.num_labels)
        # Both modules share their parts, not a copy: the network computes, and its names stay without a prefix.
        for part in ("_modules", "_parameters", "_buffers", "_non_persistent_buffers_set"):
            self.__dict__[part] = network.__dict__[part]
        self._network = (network,)
        if not any(parameter.is_meta for parameter in network.parameters()):
            for module in network.modules():
                module._is_hf_initialized = True  # type: ignore[assignment]
        self.post_init()

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> Any:
        """Return the logits, and the cross-entropy where labels are given."""
        (network,) = self._network
        network.training = self.training
        logits = network(pixel_values)
        loss = None if labels is None else cross_entropy(logits, labels)
        return ImageClassifierOutputWithNoAttention(loss=loss, logits=logits)

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:
        """Load as every transformers model, then repeat the logits of the saved network to the last bit."""
        loaded = super().from_pretrained(*arguments, **options)
        return (own_memory(loaded[0]), *loaded[1:]) if isinstance(loaded, tuple) else own_memory(loaded)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw what a checkpoint lacks, as torch does for this kind of layer."""
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()


AutoConfig.register(MODEL_TYPE, SfraConfig, exist_ok=True)
AutoModelForImageClassification.register(SfraConfig, SfraForImageClassification, exist_ok=True)
