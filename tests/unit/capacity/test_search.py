from __future__ import annotations

import numpy as np
import pytest

from tests.unit.capacity.planning import PARAMETERS
from tools.capacity import report
from tools.capacity.arrivals import CrowdForecast
from tools.capacity.outcome import Target
from tools.capacity.parameters import Duration, Parameters, PlanningError
from tools.capacity.search import Found, Study, search
from tools.capacity.settings import Quota, Settings, Signing

USUAL = Settings()


def searched(parameters: Parameters, target: str, settings: Settings = USUAL) -> tuple[Found, str]:
    """Return what a search finds, and its advice."""
    arrivals = CrowdForecast(peak=2.0, minutes=1).arrivals(parameters, np.random.default_rng(0))
    study, wanted = Study(parameters, arrivals), Target.parse(target)
    found = search(study, wanted, settings)
    return found, "\n".join(report.advice({"today": study.simulate(settings)}, found, wanted))


def test_settings_avoid_the_quotas_in_the_way_and_the_others_are_named_and_lifted() -> None:
    quotas = {
        "quota.sign_blob": Duration(30.0),
        "quota.storage_writes": Duration(2.0),
        "quota.firestore_index": Duration(2.0 / PARAMETERS["deployed.index_parts"]),
    }
    found, advice = searched(PARAMETERS.replaced(quotas), "p95 <= 1.5 s")
    settings = found.summary.settings
    assert found.holds
    assert settings.signing is Signing.HMAC
    assert "sign with an HMAC key" in advice
    assert settings.upload_shards > 1
    assert found.in_the_way == (Quota.FIRESTORE_INDEX,)
    assert "Firestore writes under the sweep's index" in advice


def test_settings_stay_as_they_were_chosen_where_no_quota_is_in_the_way() -> None:
    found, advice = searched(PARAMETERS, "p95 <= 1.5 s")
    assert found.summary.settings.signing is Signing.IAM
    assert found.in_the_way == ()
    assert "HMAC" not in advice


def test_the_best_of_what_was_tried_is_shown_where_nothing_keeps_the_target() -> None:
    # Two converters of four CPUs convert fewer than two voices a second.
    parameters = PARAMETERS.replaced({"processor.conversion": Duration(6.0)})
    found, advice = searched(parameters, "p95 <= 8 s", Settings(max_instances=2))
    assert not found.holds
    assert "No settings that were tried keep p95 <= 8 s" in advice


def test_an_impossible_target_is_refused_in_one_sentence() -> None:
    with pytest.raises(PlanningError, match=r"No settings can keep p95 <= 0\.01 s: .*") as refused:
        searched(PARAMETERS, "p95 <= 10 ms")
    assert "\n" not in str(refused.value)
