"""What a training depends on: settings that load no PyTorch."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from bestofq.core.frozen import FrozenModel
from bestofq.core.identity import FREE

Input = Literal["state", "action", "task"]
Scaling = Literal["standardize", "whiten"]

CARD = "checkpoint.json"  # in the folder of a Q-function: all that the weights do not tell
PAPER_DIM = 2048  # D of the embeddings that B.2's widths are for
PAPER_PROJECT = 1024
PAPER_HIDDEN = (1024, 1024, 512, 256, 128, 64)
LEAST_WIDTH = 16


class EpisodeSet(FrozenModel):
    """The episodes that a Q-function is learned from."""

    count: int = Field(ge=0)
    fingerprint: str = Field(description="16 hex digits over their ids, verdicts and numbers of steps, in order")
    tasks: Annotated[tuple[str, ...] | None, FREE] = Field(
        default=None, description="`task_mark` of each task, sorted; None: from before they were kept"
    )


class NetworkConfig(FrozenModel):
    """The shape both networks share. At D = 2048 the defaults are B.2's: Q has 11.19 M parameters, V 8.04 M."""

    scaling: Scaling | None = Field(
        default=None,
        description="of each embedding, by the training set; None: as it is (the paper); standardize: each number to "
        "mean 0 and variance 1; whiten: the same along the principal axes, so that no direction outweighs the others",
    )
    project: PositiveInt | Literal["auto"] | None = Field(
        default="auto",
        description="width each embedding is projected to, 1024 in B.2; None: concatenated as they are; auto: B.2's "
        "where D is above it, else None (a wider projection without an activation is no other function)",
    )
    hidden: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] | Literal["auto", "paper"] = Field(
        default="auto",
        description="widths of the hidden layers; paper: 1024, 1024, 512, 256, 128, 64 (B.2); auto: these × D / 2048, "
        "each at least 16 and at most B.2's",
    )
    dropout: float = Field(default=0.1, ge=0, lt=1, description="after each hidden layer; the paper gives no rate")
    q_without: tuple[Input, ...] = Field(default=(), description="inputs that Q does not see, zeros for it: ablations")
    v_without: tuple[Input, ...] = Field(default=(), description="inputs that V does not see")

    def at(self, dim: int) -> "NetworkConfig":
        """The same with the widths that it has for vectors of `dim` numbers."""
        return self.model_copy(update={"project": self.projected_width(dim), "hidden": self.widths(dim)})

    def projected_width(self, dim: int) -> int | None:
        if self.project == "auto":
            return PAPER_PROJECT if dim > PAPER_PROJECT else None
        return self.project

    def widths(self, dim: int) -> tuple[int, ...]:
        if self.hidden == "paper":
            return PAPER_HIDDEN
        if self.hidden == "auto":
            return tuple(min(width, max(LEAST_WIDTH, width * dim // PAPER_DIM)) for width in PAPER_HIDDEN)
        return self.hidden


class IQLConfig(FrozenModel):
    """One training of Q and V by Implicit Q-Learning (Best-of-Q, 3.2, A.4, B.1; Kostrikov et al. 2021).

    V is fitted to an upper expectile of the target Q (Eq. 3), then Q to the reward and the next V (Eq. 4):

        L_V(ψ) = E[ |τ - 1(u < 0)| u² ],  u = Q_target(s, a) - V_ψ(s)
        L_Q(θ) = E[ (r(s, a) + γ V_ψ(s') - Q_θ(s, a))² ]

    A terminal step has no V(s'). Q_target is a copy of Q. The optimizer is Adam, one for each network, and both rates
    fall to 0 by a cosine. The defaults are appendix B's, with two exceptions: `steps` (B: 50,000) and `network.hidden`
    (B: `paper`). The paper gives no dropout rate. `expectile` is τ: the larger it is, the closer V comes to the best
    action in the data. `discount` is γ. Transitions are drawn with replacement.
    """

    expectile: float = Field(default=0.7, gt=0, lt=1, description="B.1: 0.7 for Qwen2.5-VL's data, 0.8 for GPT-4.1's")
    discount: float = Field(default=0.99, ge=0, le=1, description="per step (B.1)")
    target_update_every: PositiveInt = Field(default=100, description="steps between copies of Q into its target (B.1)")
    lr_q: float = Field(default=3e-4, gt=0, description="at the first step, cosine decay to 0 (B.1)")
    lr_v: float = Field(default=3e-4, gt=0, description="at the first step, cosine decay to 0 (B.1)")
    weight_decay: float = Field(default=1e-4, ge=0, description="L2 term in Adam's gradient (B.1)")
    clip_norm: float = Field(default=1.0, gt=0, description="largest gradient norm, per network (B.1)")
    batch_size: PositiveInt = Field(default=128, description="transitions, over all processes (B.1)")
    steps: PositiveInt = Field(default=6000, description="gradient steps; B.1 says 50,000 epochs and no data size")
    network: NetworkConfig = NetworkConfig()
    seed: int = Field(default=0, ge=0, description="of first weights, batches and dropout")
    device: Annotated[str, FREE] = Field(default="auto", description="auto, cpu, cuda, cuda:1, …")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        default="auto", description="bf16: autocast, weights and optimizer in float32; auto: where hardware has it"
    )
    log_every: Annotated[PositiveInt, FREE] = Field(default=100, description="steps per row of metrics")
    checkpoint_seconds: Annotated[float, FREE] = Field(
        default=60, ge=0, description="between checkpoints of an unfinished training; 0: after each step"
    )

    def at(self, dim: int) -> "IQLConfig":
        """The same with the widths that its networks have for vectors of `dim` numbers."""
        return self.model_copy(update={"network": self.network.at(dim)})


class TuningRates(FrozenModel):
    """What each kind of tuning sets for itself. The defaults are RFT's: Agent Q gives no numbers; rate and batch are
    TRL's. Eq. 4 has no penalty for leaving the first policy; few rounds are all that holds it (3.2.1). Hence the one
    epoch."""

    lr: float = Field(default=2e-5, gt=0, description="peak rate; adapters want some ten times that of all weights")
    epochs: int = Field(default=1, ge=1, description="times that every example is trained on")
    batch_size: int = Field(default=8, ge=1, description="turns or pairs a step, of all processes, at least")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of the matrix products; auto: bfloat16 where the hardware multiplies it"
    )


class TuningConfig(TuningRates):
    """One training run. The optimizer is AdamW as in TRL: without weight decay, gradients clipped to norm 1."""

    warmup_share: ClassVar[float] = 0.0
    """First share of the steps, in which the rate rises; then it falls straight to 0."""

    micro_batch_tokens: int = Field(default=8192, ge=1, description="tokens a forward pass, each shared prompt once")
    lora: int | None = Field(
        default=None, ge=1, description="rank of adapters on every linear layer of the blocks; none: train all weights"
    )
    gradient_checkpointing: bool = Field(default=False, description="less memory, a third more time")
    device: str = Field(default="auto", description="auto (a GPU where there is one) or cpu")
    checkpoint_every: int = Field(default=50, ge=1, description="steps between checkpoints")
    seed: int = Field(default=0, ge=0, description="of the order of examples")


class DPOConfig(TuningConfig):
    """Preference optimization. Agent Q names β only (3.2.2, 5.2); the numbers are Rafailov et al. 2023's (B)."""

    warmup_share: ClassVar[float] = 0.1
    beta: float = Field(default=0.1, gt=0, description="β of Eqs. 3, 5, 6: the cost of leaving π_ref; Rafailov B")
    lr: float = Field(default=1e-6, gt=0, description="peak rate, Rafailov B; adapters want some ten times that")
    batch_size: int = Field(default=64, ge=1, description="pairs a step, of all processes, at least; Rafailov B")
