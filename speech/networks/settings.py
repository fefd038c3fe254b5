"""How the graphs of a process run."""

from dataclasses import dataclass, field

from speech.networks.mapped_weights import MappedWeights
from speech.networks.providers import Provider
from speech.networks.sharing import Sharing
from speech.text.front_end import FrontEnd


@dataclass(frozen=True)
class SessionSettings:
    """How an engine runs its graphs.

    Attributes:
        threads: how many threads the network of one conversion may use.
        provider: where the graphs run; small ones that were optimised for a CPU stay there.
        sharing: keeps the networks that several engines built with these settings use.
        front_end: reads texts for all of them.
        weights: shares the weights of large networks with other processes; None for no sharing.
    """

    threads: int = 1
    provider: Provider = Provider.CPU
    sharing: Sharing = field(default_factory=Sharing, compare=False)
    front_end: FrontEnd = field(default_factory=FrontEnd, compare=False)
    weights: MappedWeights | None = None
