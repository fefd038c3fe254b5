"""The prices of what the service uses, in US dollars; prices and use are in parameters.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools.capacity.arrivals import DAY

if TYPE_CHECKING:
    from tools.capacity.parameters import Parameters

GIB: Final = 2.0**30
MONTH_DAYS: Final = 30
UP_TO: Final = 100_000.0
"""Assessments of a month up to which Google takes one price for all of them."""

FUNCTION: Final = (1.0, 0.5)
"""The CPUs and the GiB of a function."""


def second(p: Parameters, cpus: float, gib: float, kind: str = "") -> float:
    """Return the price of a second; `kind` is `idle_` or `job_`."""
    return cpus * p[f"price.{kind}cpu_second"] + gib * p[f"price.{kind}gib_second"]


def firestore(p: Parameters) -> tuple[float, float]:
    """Return the price of a voice's creation, and of its documents until it is done."""
    reads = p["voice.documents_read"] + p["voice.documents_listened"]
    later = (p["voice.documents_written"] - 1) * p["price.document_write"]
    created = p["price.document_write"] + p["price.document_expiry"]
    return created, later + reads * p["price.document_read"]


def storage(p: Parameters) -> float:
    """Return the price of a voice's calls of Cloud Storage."""
    writes = p["voice.object_writes"] * p["price.object_write"]
    return writes + p["voice.object_reads"] * p["price.object_read"]


def probes(p: Parameters, cpus: float, gib: float) -> float:
    """Return the price of a day of an idle instance's liveness probes."""
    return p["probe.runs"] * p["probe.seconds"] * second(p, cpus, gib)


def idle_month(p: Parameters, cpus: float, gib: float) -> dict[str, float]:
    """Return the prices of a month without visitors, with one warm converter and on_upload."""
    query = p["sweep.reads"] * p["price.document_read"] + p["price.request"]
    sweep = p["sweep.seconds"] * second(p, *FUNCTION) + query
    days = MONTH_DAYS
    return {
        "one warm instance of the converter (`convert.min_instances`)": days
        * DAY
        * second(p, cpus, gib, "idle_"),
        "its liveness probes, one every ten seconds": days * probes(p, cpus, gib),
        "one warm instance of on_upload (`on_upload.min_instances`)": days
        * DAY
        * second(p, *FUNCTION, "idle_"),
        "sweeps": days * p["sweep.runs"] * sweep + p["price.scheduler_job_month"],
    }


def month_of_messages(p: Parameters, voices: float) -> dict[str, float]:
    """Return the prices of a month's logs and messages, less what is free."""
    logged = voices * p["voice.logged_bytes"] / GIB - p["price.logged_gib_free"]
    sent = voices * p["voice.messages"] * p["voice.message_bytes"] / GIB
    return {
        "logging": p["price.logged_gib"] * max(0.0, logged),
        "Pub/Sub": p["price.message_gib"] * max(0.0, sent - p["price.message_gib_free"]),
    }


def month_of_options(p: Parameters, visits: float) -> dict[str, float]:
    """Return the prices of a month of what is off by default or not charged yet.

    Each visit is that of another browser, which needs one assessment a day.
    """
    balanced = visits * p["voice.balanced_requests"] * p["price.cloud_armor_request"]
    fewest = p["price.assessments_100_000"] if visits > p["price.assessments_free"] else 0.0
    conditions = p["deployed.alert_conditions"] * p["price.alert_condition_month"]
    domain = p["price.load_balancer_month"] + p["price.cloud_armor_month"]
    return {
        "alert conditions, once Google charges them": conditions,
        "`domain.name`: load balancer and Cloud Armor": domain + balanced,
        "`app_check`": fewest + max(0.0, visits - UP_TO) * p["price.assessment"],
    }


def own_character(p: Parameters) -> dict[str, float]:
    """Return the prices of one character of a visitor's own voice."""
    seconds = p["training.seconds"] + p["training.start"]
    requests = p["training.recordings"] + p["training.other_requests"]
    renewals = seconds / p["training.renewal"]
    # Its document and the one that its owner listens to: begun, asked for, leased, six stages,
    # ready, cleaned, and each renewal; the day's number besides.
    writes = (1 + 2 * (11 + renewals)) * p["price.document_write"]
    # Each request of the page lists the recordings, which costs as much as a write.
    objects = p["training.recordings"] + p["training.checkpoints"] + requests + 10
    reads = 2 * p["training.recordings"] * p["price.object_read"]
    return {
        "job": seconds * second(p, p["training.cpus"], p["training.gib"], "job_"),
        "api": requests * (p["price.request"] + 0.1 * second(p, *FUNCTION)),
        "Firestore": writes + (requests + renewals + 20) * p["price.document_read"],
        "Cloud Storage": objects * p["price.object_write"] + reads,
        "a month of the bundle": p["training.bundle_bytes"] / GIB * p["price.bundle_gib_month"],
    }
