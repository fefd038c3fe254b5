"""The cost of the simulated time, from the areas that the simulation kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from capacity.engine import state
from capacity.model.way import Service

if TYPE_CHECKING:
    from capacity.model.parameters import Parameters
    from capacity.model.simulation import Simulation

TIB: Final = 2.0**40
GIB: Final = 2.0**30
BYTES_OF_A_MESSAGE: Final = 2_000.0
"""Published and delivered, each counted as 1000 bytes at least."""

OBJECT_WRITES: Final = 4
"""Recording, result, and the emptying of the recording; notifications are counted as one more."""

OBJECT_READS: Final = 2


@dataclass(frozen=True, slots=True)
class Bill:
    """US dollars, by what they are for.

    Attributes:
        converter: instances of the conversion container at work, those of `live` with them: an
            open connection is work.
        idle: its idle minimum instances, and those of the functions.
        functions: instances of api and on_upload at work.
        requests: to all of them.
        firestore: documents.
        storage: objects.
        messages: Pub/Sub.
        results: bytes to the visitors.
        own_characters: making characters of visitors' own voices.
    """

    converter: float
    idle: float
    functions: float
    requests: float
    firestore: float
    storage: float
    messages: float
    results: float
    own_characters: float

    @property
    def together(self) -> float:
        """The sum."""
        return (
            self.converter
            + self.idle
            + self.functions
            + self.requests
            + self.firestore
            + self.storage
            + self.messages
            + self.results
            + self.own_characters
        )


def bill(simulation: Simulation) -> Bill:
    """Compute the cost of the simulated time, free quotas not counted."""
    prices, settings = simulation.parameters, simulation.settings
    services, voices = simulation.world.services, simulation.world.voices
    done = voices[voices["outcome"] == state.DONE]
    converter, live = services[Service.CONVERT], services[Service.LIVE]
    functions = (services[Service.API], services[Service.ON_UPLOAD])
    sizes = {
        "converter": (float(settings.convert_cpu), settings.gib),
        "function": (prices["deployed.function_cpus"], prices["deployed.function_gib"]),
    }
    working = {name: _second(prices, "", *size) for name, size in sizes.items()}
    idle = {name: _second(prices, "idle_", *size) for name, size in sizes.items()}
    return Bill(
        converter=float(converter["active_area"] + live["active_area"]) * working["converter"],
        idle=float(converter["idle_minimum_area"]) * idle["converter"]
        + sum(float(each["idle_minimum_area"]) for each in functions) * idle["function"],
        functions=sum(float(each["active_area"]) for each in functions) * working["function"],
        requests=float(services["requests"].sum()) * prices["price.request"],
        firestore=_documents(prices, len(voices), len(done)),
        storage=len(done)
        * (
            OBJECT_WRITES * prices["price.object_write"]
            + OBJECT_READS * prices["price.object_read"]
        ),
        messages=len(done)
        * prices["voice.messages"]
        * BYTES_OF_A_MESSAGE
        / TIB
        * prices["price.message_tib"],
        results=float(done["spoken"].sum())
        * prices["voice.result_bytes"]
        / GIB
        * prices["price.gib_to_the_internet"],
        own_characters=prices["visitor.own_characters"] * _character(prices),
    )


def _character(prices: Parameters) -> float:
    second = _second(prices, "job_", prices["training.cpus"], prices["training.gib"])
    return prices["training.seconds"] * second + prices["training.besides"]


def _second(prices: Parameters, kind: str, cpus: float, gib: float) -> float:
    cpu, memory = prices[f"price.{kind}cpu_second"], prices[f"price.{kind}gib_second"]
    return cpus * cpu + gib * memory


def _documents(prices: Parameters, created: int, done: int) -> float:
    """Compute the cost of documents: a voice that is not done has been created and expires."""
    reads = prices["voice.documents_read"] + prices["voice.documents_listened"]
    later_writes = prices["voice.documents_written"] - 1
    return (
        created * (prices["price.document_write"] + prices["price.document_expiry"])
        + done * later_writes * prices["price.document_write"]
        + done * reads * prices["price.document_read"]
    )
