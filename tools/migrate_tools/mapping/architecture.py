"""The numbers of a transformer that Megatron has to be told, dense or with experts."""

from __future__ import annotations

from migrate_tools.model import Frozen


class Experts(Frozen):
    """A mixture of experts: sizes, and how the router chooses."""

    count: int
    topk: int
    ffn: int
    """Inner size of one expert."""
    sparse_layers: tuple[int, ...] = ()
    """1 for each layer with experts, 0 for each dense one; empty when every layer has experts."""
    shared_ffn: int | None = None
    """Inner size of all shared experts together."""
    shared_gate: bool = False
    scoring: str = "softmax"
    """softmax or sigmoid."""
    pre_softmax: bool = False
    """Weights are taken over all experts before the best are chosen, and not made to sum to one again."""
    expert_bias: bool = False
    """A bias for each expert takes part in the choice, not in the weight."""
    groups: int | None = None
    group_topk: int | None = None
    scale: float | None = None
    """Factor on the weights of the chosen experts."""


class LatentAttention(Frozen):
    """Multi-latent attention (DeepSeek): ranks and head sizes."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_head: int
    qk_rotary: int
    v_head: int
    scaling_factor: float = 1.0
    """YaRN factor; 1 when positions are not scaled."""
    mscale: float = 1.0
    mscale_all: float = 1.0


class Architecture(Frozen):
    """Numbers of a decoder, as in its public config.json."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    groups: int
    vocab: int
    rotary_base: int = 10000
    rotary_percent: float = 1.0
    norm_epsilon: float = 1e-6
    kv_channels: int | None = None
    """Size of a head when it is not hidden / heads."""
    qkv_bias: bool = False
    qk_norm: bool = False
    tied: bool = False
    """Input and output embeddings are one matrix."""
    rope_scaling_factor: float | None = None
    """Llama 3.1 frequency scaling, by this factor."""
    rope_interpolation: int | None = None
    """Linear position interpolation, by this factor."""
    window: int | None = None
    """Tokens that attention looks back, where that is limited."""
    vision: bool = False
    """The text part of a vision-language model."""
    family: str = ""
    experts: Experts | None = None
    latent: LatentAttention | None = None

    @property
    def head(self) -> int:
        """Size of an attention head."""
        return self.kv_channels or self.hidden // self.heads

    @property
    def sparse_layers(self) -> int:
        """Layers that hold experts."""
        if self.experts is None:
            return 0
        return sum(self.experts.sparse_layers) if self.experts.sparse_layers else self.layers

    @property
    def billions(self) -> float:
        """Parameters in billions, by counting the matrices (all experts, not only those in use)."""
        total = self.layers * self._attention() + self.vocab * self.hidden * (1 if self.tied else 2)
        total += (self.layers - self.sparse_layers) * 3 * self.hidden * self.ffn
        if self.experts is not None:
            own = self.experts.count * self.experts.ffn + (self.experts.shared_ffn or 0)
            total += self.sparse_layers * (3 * self.hidden * own + self.hidden * self.experts.count)
        return total / 1e9

    def _attention(self) -> int:
        if self.latent is None:
            return self.hidden * self.head * (2 * self.heads + 2 * self.groups)
        mla = self.latent
        size = mla.qk_head + mla.qk_rotary
        query = self.hidden * self.heads * size
        if mla.q_lora_rank:
            query = mla.q_lora_rank * (self.hidden + self.heads * size)
        keys = self.hidden * (mla.kv_lora_rank + mla.qk_rotary)
        keys += mla.kv_lora_rank * self.heads * (mla.qk_head + mla.v_head)
        return query + keys + self.heads * mla.v_head * self.hidden


class Gap(Frozen):
    """Why no Megatron arguments can be made of a config.json: one sentence that names the field and its value."""

    reason: str
