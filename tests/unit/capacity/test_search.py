from __future__ import annotations

import numpy as np

from tests.unit.capacity.planning import simulated
from tools.capacity import report
from tools.capacity.arrivals import Arrivals, CrowdForecast
from tools.capacity.outcome import Summary, Target, summarise, waits_of
from tools.capacity.parameters import Duration, Parameters, read_parameters
from tools.capacity.search import Found, Runner, search
from tools.capacity.settings import Instances, Quota, Settings, Signing

PARAMETERS = read_parameters()


def few(parameters: Parameters) -> Arrivals:
    return CrowdForecast(peak=4.0, minutes=4).arrivals(parameters, np.random.default_rng(0))


def searched(
    parameters: Parameters, target: str, settings: Settings | None = None
) -> tuple[Found, str]:
    """Return what a search finds, and its advice."""
    settings, arrivals, wanted = settings or Settings(), few(parameters), Target.parse(target)
    day = simulated(parameters, settings, arrivals)
    found = search(Runner(parameters), wanted, arrivals, settings, waits_of(day))
    summaries: dict[str, Summary] = {"today": summarise(day)}
    return found, report.advice(summaries, found, wanted)


def test_signing_needs_no_signblob_where_its_quota_is_in_the_way() -> None:
    quota = {"quota.sign_blob": Duration(30.0)}
    found, advice = searched(PARAMETERS.replaced(quota), "p95 <= 1.5 s")
    assert found.holds
    settings = found.summary.settings
    assert settings.signing is Signing.HMAC
    assert 'signing                = "hmac"' in settings.terraform()
    # The quota still stands: nothing is taken for raised that need not be.
    assert Quota.SIGN_BLOB not in found.in_the_way
    assert "sign with an HMAC key" in advice


def test_signing_stays_as_it_was_chosen_where_no_quota_is_in_the_way() -> None:
    found, advice = searched(PARAMETERS, "p95 <= 1.5 s")
    assert found.summary.settings.signing is Signing.IAM
    assert found.in_the_way == ()
    assert "HMAC" not in advice


def test_a_quota_that_no_setting_avoids_is_named_and_lifted() -> None:
    quota = {"quota.firestore_index": Duration(2.0 / PARAMETERS["deployed.index_parts"])}
    found, advice = searched(PARAMETERS.replaced(quota), "p95 <= 1.5 s")
    assert found.in_the_way == (Quota.FIRESTORE_INDEX,)
    assert "Firestore writes under the sweep's index" in advice


def test_the_best_of_what_was_tried_is_shown_where_nothing_keeps_the_target() -> None:
    # Two converters of four CPUs convert fewer than three voices a second.
    parameters = PARAMETERS.replaced({"processor.conversion": Duration(3.0)})
    settings = Settings(maximum=Instances(10, 10, 2))
    found, advice = searched(parameters, "p95 <= 8 s", settings)
    assert not found.holds
    assert "No settings that were tried keep p95 <= 8 s" in advice


def test_there_are_more_buckets_where_one_is_in_the_way() -> None:
    quota = {"quota.storage_writes": Duration(2.0)}
    found, _ = searched(PARAMETERS.replaced(quota), "p95 <= 1.5 s")
    assert found.holds
    settings = found.summary.settings
    assert settings.upload_shards > 1
    assert f"upload_shards          = {settings.upload_shards}" in settings.terraform()
    assert found.in_the_way == ()
