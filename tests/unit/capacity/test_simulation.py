from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.unit.capacity.planning import (
    PARAMETERS,
    WARM,
    evenly,
    exact_parameters,
    simulated,
    summary_of,
)
from tools.capacity.arrivals import Arrivals, CrowdForecast
from tools.capacity.outcome import Summary, summarise
from tools.capacity.parameters import Duration
from tools.capacity.settings import Quota, Settings, Signing
from tools.capacity.simulation import Simulation, VoiceEnd

DEPLOYMENTS = st.builds(
    Settings,
    warm_up=st.booleans(),
    min_instances=st.integers(0, 3),
    api_min_instances=st.integers(0, 2),
    on_upload_min_instances=st.integers(0, 2),
    max_instances=st.integers(3, 12),
    convert_cpu=st.sampled_from((1, 2, 4, 8)),
    convert_concurrency=st.none() | st.integers(1, 16),
    api_concurrency=st.integers(1, 60),
    signing=st.sampled_from(Signing),
    delivery_attempts=st.integers(1, 6),
    lifted=st.frozensets(st.sampled_from(Quota)),
)

CROWDS = st.builds(
    lambda rate, flash: CrowdForecast(peak=rate, flash=flash, minutes=2),
    st.floats(0.01, 2.0),
    st.none() | st.floats(1.0, 10.0),
)


def waits(simulation: Simulation) -> np.ndarray:
    return summarise(simulation).waits


@hypothesis_settings(max_examples=10, deadline=None)
@given(settings=DEPLOYMENTS, crowd=CROWDS, seed=st.integers(0, 2**16))
def test_no_voice_is_lost_and_no_bound_exceeded_whatever_the_settings(
    settings: Settings, crowd: CrowdForecast, seed: int
) -> None:
    arrivals = crowd.arrivals(PARAMETERS, np.random.default_rng(seed))
    simulation = Simulation(PARAMETERS, settings, arrivals, seed=seed).run()
    summary = summarise(simulation)
    assert sum(summary.counts.values()) == summary.visitors == len(arrivals.times)
    for visit in simulation.visits:
        assert visit.outcome is VoiceEnd.UNDER_WAY or visit.ended >= visit.arrived
    for service in simulation.services.values():
        assert 0 <= max(service.samples) <= service.most_instances <= service.maximum
        assert 0 <= service.busy <= len(service.instances) * service.slots
    if not summary.counts[VoiceEnd.UNDER_WAY]:
        # Records, acknowledgements and warm-ups end after the voices.
        simulation.env.run(simulation.env.now + 1500.0)
        assert not any(service.busy for service in simulation.services.values())
        assert simulation.uploads.flow.outstanding == simulation.conversions.flow.outstanding == 0


def test_a_voice_alone_takes_the_sum_of_its_steps() -> None:
    parameters = exact_parameters()
    pauses = [
        *("google.storage_write", "google.notification", "google.push", "google.firestore_read"),
        *("google.publish", "google.push", "google.firestore_read", "google.firestore_write"),
        *("google.storage_read", "google.storage_write", "google.sign_blob"),
        *("google.firestore_write", "google.listener", "processor.on_upload"),
        "visitor.upload_start",
    ]
    conversion = parameters.durations["processor.conversion"].at(3.0)
    expected = sum(parameters[name] for name in pauses)
    expected += max(conversion, parameters["processor.converter"])
    expected += 3.0 * parameters["visitor.upload_per_spoken"]
    found = waits(simulated(parameters, WARM, evenly(20, 30.0)))
    assert found == pytest.approx(expected, abs=1e-9)


def test_two_conversions_on_one_processor_come_one_after_another() -> None:
    # Nothing but the conversion takes time, and two messages come at the same moment.
    google = [name for name in PARAMETERS.durations if name.startswith("google.")]
    nothing = {name.replace(".", "__"): 0.0 for name in google}
    nothing |= {f"processor__{name}": 0.0 for name in ("api", "on_upload", "converter", "warm_up")}
    nothing |= {f"visitor__{name}": 0.0 for name in ("way", "upload_start", "upload_per_spoken")}
    nothing |= {f"start__{name}": 0.0 for name in ("api", "on_upload", "convert")}
    parameters = exact_parameters(**nothing).replaced({"processor.conversion": Duration(0.2)})
    settings = Settings(warm_up=False, max_instances=1, convert_cpu=1)
    arrivals = Arrivals(np.zeros(2), np.full(2, 3.0), 60.0)
    assert waits(simulated(parameters, settings, arrivals)) == pytest.approx([0.2, 0.4])
    two_processors = replace(settings, convert_cpu=2)
    assert waits(simulated(parameters, two_processors, arrivals)) == pytest.approx([0.2, 0.2])


def test_only_the_warm_up_hides_a_cold_start_behind_the_recording() -> None:
    parameters = exact_parameters(start__platform=0.5)
    cold = Settings(api_min_instances=1, min_instances=0, max_instances=1)
    arrivals = evenly(1, 1.0, spoken=5.0)
    (with_warm_up,) = waits(simulated(parameters, cold, arrivals))
    (without,) = waits(simulated(parameters, replace(cold, warm_up=False), arrivals))
    (warm,) = waits(simulated(parameters, replace(cold, min_instances=1), arrivals))
    assert with_warm_up == pytest.approx(warm, abs=0.01)
    start = 0.5 + parameters["start.convert"]
    assert without - warm == pytest.approx(start + parameters["cloud_run.reaction"], rel=0.3)


def test_a_full_service_refuses_after_ten_seconds_and_its_message_comes_again() -> None:
    parameters = exact_parameters().replaced({"processor.conversion": Duration(30.0)})
    settings = Settings(
        warm_up=False,
        max_instances=1,
        convert_cpu=1,
        convert_concurrency=1,
        delivery_attempts=2,
    )
    simulation = simulated(parameters, settings, evenly(6, 0.1))
    counts = summarise(simulation).counts
    assert simulation.convert.gave_up > 0
    assert counts[VoiceEnd.DONE] >= 1
    assert counts[VoiceEnd.DEAD] >= 1
    assert counts[VoiceEnd.DONE] + counts[VoiceEnd.DEAD] == 6
    assert summarise(simulation).percentiles[99] == np.inf


def test_negative_acknowledgements_stop_the_delivery_of_everybodys_messages() -> None:
    def slowest(most_backoff: float) -> float:
        parameters = exact_parameters(
            pubsub__most_pause=most_backoff, pubsub__least_pause=0.0
        ).replaced({"processor.conversion": Duration(0.4), "cloud_run.patience": Duration(1.0)})
        crowded = Settings(max_instances=1)
        arrivals = evenly(200, 0.1, seconds=600.0)
        simulation = simulated(parameters, crowded, arrivals)
        assert simulation.conversions.flow.refused > 10
        return float(np.percentile(waits(simulation), 50))

    assert slowest(60.0) > slowest(0.0) + 5.0


def test_signing_calls_beyond_the_quota_of_a_minute_are_refused() -> None:
    parameters = exact_parameters(quota__sign_blob=30.0, line__patience=0.0)
    summary = summary_of(parameters, WARM, evenly(40, 0.5))
    assert summary.counts[VoiceEnd.REFUSED] > 0
    assert summary.quotas[Quota.SIGN_BLOB].refused > 0
    assert list(summary.quotas) == [Quota.SIGN_BLOB]
    again = summary_of(parameters, replace(WARM, signing=Signing.HMAC), evenly(40, 0.5))
    assert again.counts[VoiceEnd.REFUSED] == 0
    assert not again.quotas


def test_idle_minimum_instances_and_their_probes_are_paid_for() -> None:
    quiet = Arrivals(np.array([10.0]), np.array([2.0]), 7200.0)
    settings = Settings(on_upload_min_instances=0, min_instances=2, max_instances=10)
    rate = 2 * PARAMETERS["price.idle_cpu_second"] + PARAMETERS["price.idle_gib_second"]
    summary = summary_of(PARAMETERS, settings, quiet)
    assert summary.bill["idle minimum instances"] == pytest.approx(2 * 7200 * rate, rel=0.01)
    # A probe every ten seconds is billed as a tenth of a second at work.
    working = 2 * PARAMETERS["price.cpu_second"] + PARAMETERS["price.gib_second"]
    probes = 2 * 720 * 0.1 * working
    assert summary.bill["their liveness probes"] == pytest.approx(probes, rel=0.01)
    # Nobody is a visitor of a month with less than 10 000: no assessment is paid for.
    assert summary.options["`app_check`"] == 0.0


def test_a_crowd_pays_for_logs_and_options_its_share_of_a_month() -> None:
    hours = Arrivals(np.linspace(10.0, 7000.0, 200), np.full(200, 2.0), 7200.0, weight=100)
    summary = summary_of(exact_parameters(), WARM, hours)
    # Two hours are a 360th of a month, which then has 7.2 million visitors.
    visitors, share = 7_200_000, 1 / 360
    options = summary.options
    assert options["`app_check`"] == pytest.approx((8 + (visitors - 1e5) / 1000) * share)
    domain = 25 + 1.5 * visitors * 0.75e-6
    assert options["`domain.name`: load balancer and Cloud Armor"] == pytest.approx(domain * share)
    assert options["alert conditions, once Google charges them"] == pytest.approx(21 * share)
    logs = (visitors * 9000 / 2**30 - 50) * 0.5
    assert summary.bill["logging"] == pytest.approx(logs * share)
    running = ("converters at work", "idle minimum instances", "their liveness probes")
    seconds = sum(summary.bill[name] for name in (*running, "functions at work"))
    assert options["a region of tier 2"] == pytest.approx(0.4 * seconds)


def test_whoever_is_refused_waits_in_line_and_is_served_in_the_next_minute() -> None:
    parameters = exact_parameters(quota__sign_blob=30.0)
    summary = summary_of(parameters, WARM, evenly(20, 0.5, seconds=240.0))
    # Each voice signs twice, and a minute has room for fifteen.
    assert summary.counts[VoiceEnd.DONE] == 20
    assert 0 < summary.in_line <= 10
    assert 20.0 < summary.percentiles[99] < 120.0


def test_visitors_leave_type_or_speak_live_by_their_shares() -> None:
    leaving = summary_of(exact_parameters(visitor__leaving=0.5), WARM, evenly(400, 0.5)).counts
    assert 120 < leaving[VoiceEnd.LEFT] < 280
    assert leaving[VoiceEnd.LEFT] + leaving[VoiceEnd.DONE] == 400
    live = summary_of(exact_parameters(visitor__live=0.999999), WARM, evenly(50, 0.5))
    uploaded = summary_of(exact_parameters(), WARM, evenly(50, 0.5))
    assert live.percentiles[50] < uploaded.percentiles[50] - 0.1


def test_a_text_takes_what_its_speech_takes_and_the_first_of_an_instance_the_load() -> None:
    def typed(of_a_second: float, load: float) -> Summary:
        parameters = exact_parameters(visitor__texts=0.999999, processor__first_text=load)
        speech = {"processor.text": Duration(0.0, 0.0, of_a_second)}
        # One converter, and texts that do not meet; each becomes three seconds of speech.
        return summary_of(parameters.replaced(speech), Settings(max_instances=1), evenly(9, 20.0))

    fast, slow, loaded = typed(0.1, 0.0), typed(0.4, 0.0), typed(0.1, 2.0)
    assert fast.counts[VoiceEnd.DONE] == 9
    # A text is there with the click.
    assert fast.percentiles[50] < 1.0
    assert slow.percentiles[50] - fast.percentiles[50] == pytest.approx(0.9)
    assert loaded.percentiles[99] - fast.percentiles[99] == pytest.approx(2.0, rel=0.1)
    assert loaded.percentiles[50] == pytest.approx(fast.percentiles[50])
