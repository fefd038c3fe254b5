from __future__ import annotations

import numpy as np

from capacity.choice.study import Study, study
from capacity.choice.target import Target
from capacity.model.arrivals import Arrivals, Crowd
from capacity.model.parameters import Duration, Parameters, read_parameters
from capacity.model.running import Runner
from capacity.model.settings import Instances, Quota, Settings, Signing
from capacity.report import tables

PARAMETERS = read_parameters()


def few(parameters: Parameters) -> Arrivals:
    return Crowd(peak=4.0, minutes=4).arrivals(parameters, np.random.default_rng(0))


def searched(parameters: Parameters, target: str) -> Study:
    return study(Runner(parameters), Settings(), few(parameters), Target.parse(target))


def test_signing_needs_no_signblob_where_its_quota_is_in_the_way() -> None:
    quota = {"quota.sign_blob": Duration(30.0)}
    result = searched(PARAMETERS.replaced(quota), "p95 <= 1.5 s")
    assert result.found is not None
    assert result.found.holds
    settings = result.found.summary.settings
    assert settings.signing is Signing.HMAC
    assert 'signing                = "hmac"' in settings.terraform()
    # The quota still stands: nothing is taken for raised that need not be.
    assert Quota.SIGN_BLOB not in result.found.in_the_way
    assert "signs with an HMAC key" in tables.advice(result)


def test_signing_stays_as_it_was_chosen_where_no_quota_is_in_the_way() -> None:
    result = searched(PARAMETERS, "p95 <= 1.5 s")
    assert result.found is not None
    assert result.found.summary.settings.signing is Signing.IAM
    assert result.found.in_the_way == ()
    assert "HMAC" not in tables.advice(result)


def test_a_quota_that_no_setting_avoids_is_named_and_lifted() -> None:
    quota = {"quota.firestore_index": Duration(2.0 / PARAMETERS["deployed.index_parts"])}
    result = searched(PARAMETERS.replaced(quota), "p95 <= 1.5 s")
    assert result.found is not None
    assert result.found.in_the_way == (Quota.FIRESTORE_INDEX,)
    assert "Firestore writes under the sweep's index" in tables.advice(result)


def test_the_best_of_what_was_tried_is_shown_where_nothing_keeps_the_target() -> None:
    # Two converters of four CPUs convert fewer than three voices a second.
    parameters = PARAMETERS.replaced({"processor.conversion": Duration(3.0)})
    arrivals = Crowd(peak=4.0, minutes=2).arrivals(parameters, np.random.default_rng(0))
    settings = Settings(maximum=Instances(10, 10, 2))
    result = study(Runner(parameters), settings, arrivals, Target.parse("p95 <= 8 s"))
    assert result.found is not None
    assert not result.found.holds
    assert "No settings that were tried keep p95 <= 8 s" in tables.advice(result)


def test_there_are_more_buckets_where_one_is_in_the_way() -> None:
    quota = {"quota.storage_writes": Duration(2.0)}
    result = searched(PARAMETERS.replaced(quota), "p95 <= 1.5 s")
    assert result.found is not None
    assert result.found.holds
    settings = result.found.summary.settings
    assert settings.upload_shards > 1
    assert f"upload_shards          = {settings.upload_shards}" in settings.terraform()
    assert result.found.in_the_way == ()
