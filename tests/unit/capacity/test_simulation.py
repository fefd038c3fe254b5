from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from capacity.choice.summary import summarise, waits_of
from capacity.engine import state
from capacity.model.arrivals import Arrivals, Crowd
from capacity.model.parameters import Duration, read_parameters
from capacity.model.settings import BusyHours, Instances, Quota, Settings, Signing
from capacity.model.simulation import Allowance, Simulation
from capacity.model.way import Service, Way
from tests.unit.capacity.planning import WARM, evenly, exact_parameters, simulated

PARAMETERS = read_parameters()

DEPLOYMENTS = st.builds(
    Settings,
    warm_up=st.booleans(),
    minimum=st.builds(
        Instances, api=st.integers(0, 2), on_upload=st.integers(0, 2), convert=st.integers(0, 3)
    ),
    maximum=st.builds(
        Instances, api=st.integers(2, 6), on_upload=st.integers(2, 6), convert=st.integers(3, 12)
    ),
    convert_cpu=st.sampled_from((1, 2, 4, 8)),
    convert_concurrency=st.none() | st.integers(1, 16),
    api_concurrency=st.integers(1, 60),
    signing=st.sampled_from(Signing),
    delivery_attempts=st.integers(1, 6),
    lifted=st.frozensets(st.sampled_from(Quota)),
)

CROWDS = st.builds(
    lambda rate, flash: Crowd(peak=rate, flash=flash, minutes=4),
    st.floats(0.01, 12.0),
    st.none() | st.floats(1.0, 20.0),
)


@hypothesis_settings(max_examples=60, deadline=None)
@given(settings=DEPLOYMENTS, crowd=CROWDS, seed=st.integers(0, 2**16))
def test_no_voice_is_lost_and_no_bound_exceeded_whatever_the_settings(
    settings: Settings, crowd: Crowd, seed: int
) -> None:
    arrivals = crowd.arrivals(PARAMETERS, np.random.default_rng(seed))
    simulation = simulated(PARAMETERS, settings, arrivals, seed)
    conserves_voices_and_keeps_littles_law(simulation)
    keeps_its_bounds(simulation)


def conserves_voices_and_keeps_littles_law(simulation: Simulation) -> None:
    clock, voices = simulation.world.clock[0], simulation.world.voices
    outcomes = np.bincount(voices["outcome"], minlength=5)
    assert clock["arrived"] == len(voices)
    assert clock["ended"] + clock["in_system"] == clock["arrived"]
    assert outcomes[state.UNDER_WAY] == clock["in_system"]
    # Little: the integral of the number in the system is the sum of the times in it.
    ended = np.where(voices["outcome"] == state.UNDER_WAY, clock["changed"], voices["ended"])
    assert clock["area"] == pytest.approx((ended - voices["arrived"]).sum(), rel=1e-9, abs=1e-6)
    assert (voices["ended"] >= voices["arrived"])[voices["outcome"] != state.UNDER_WAY].all()


def keeps_its_bounds(simulation: Simulation) -> None:
    world, settings = simulation.world, simulation.settings
    samples = world.samples[: int(world.clock[0]["ticks"])]
    for service in Service:
        most = getattr(settings.maximum, service.name.lower())
        one = simulation.service(service)
        assert 0 <= one["most_instances"] <= most
        assert (samples["instances"][:, service] <= most).all()
        assert (samples["busy"][:, service] <= most * one["slots"]).all()
        assert one["cpu_area"] <= one["instance_area"] * one["cpus"] + 1e-6
        assert one["active_area"] <= one["instance_area"] + 1e-6
    assert (world.voices["attempts"] <= 2 * settings.delivery_attempts).all()
    assert (world.subscriptions["outstanding"] >= 0).all()


@hypothesis_settings(max_examples=30, deadline=None)
@given(settings=DEPLOYMENTS, crowd=CROWDS)
def test_nothing_is_held_after_every_voice_has_ended(settings: Settings, crowd: Crowd) -> None:
    arrivals = crowd.arrivals(PARAMETERS, np.random.default_rng(1))
    # What follows a voice's end, a record or an acknowledgement, ends within these minutes.
    arrivals = replace(arrivals, seconds=arrivals.seconds + 1500.0)
    world = simulated(PARAMETERS, settings, arrivals).world
    if world.clock[0]["in_system"]:
        return
    assert not world.services["busy"].any()
    assert not world.services["waiting"].any()
    assert not world.subscriptions["outstanding"].any()
    assert not world.hosts["working"].any()
    assert not world.instances["turns"].any()


def test_a_voice_alone_takes_the_sum_of_its_steps() -> None:
    parameters = exact_parameters()
    way = Way(parameters, WARM)
    program = way.write()
    steps = program.records()
    # From the end of the recording: what lies between the upload and `done`, each path once.
    begin = [step["kind"] for step in program.steps].index(state.DEPART)
    done = [step.get("target") for step in program.steps].index("listener")
    expected = 0.0
    for first, last in (
        (begin, program.labels["record"]),
        (program.labels["conversions"], done),
        (program.labels["listener"], program.labels["warm_up"]),
    ):
        for step in steps[first:last]:
            if step["kind"] in {state.DELAY, state.WORK}:
                expected += step["minimum"] + step["median"] + 3.0 * step["per_spoken"]
    simulation = simulated(parameters, WARM, evenly(20, 30.0))
    assert waits_of(simulation) == pytest.approx(expected, abs=1e-9)


def test_two_conversions_on_one_processor_take_twice_as_long() -> None:
    # Nothing but the conversion takes time, and two messages come at the same moment.
    nothing = {name.replace(".", "__"): 0.0 for name, _ in PARAMETERS if name.startswith("google.")}
    nothing |= {f"processor__{name}": 0.0 for name in ("api", "on_upload", "converter", "warm_up")}
    nothing |= {f"visitor__{name}": 0.0 for name in ("way", "upload_start", "upload_per_spoken")}
    parameters = exact_parameters(**nothing).replaced({"processor.conversion": Duration(0.2)})
    settings = Settings(
        warm_up=False, minimum=Instances(1, 1, 1), maximum=Instances(1, 1, 1), convert_cpu=1
    )
    arrivals = Arrivals(np.zeros(2), np.full(2, 3.0), 60.0)
    assert waits_of(simulated(parameters, settings, arrivals)) == pytest.approx([0.4, 0.4])
    two_processors = replace(settings, convert_cpu=2)
    assert waits_of(simulated(parameters, two_processors, arrivals)) == pytest.approx([0.2, 0.2])


def test_only_the_warm_up_hides_a_cold_start_behind_the_recording() -> None:
    parameters = exact_parameters(start__platform=0.5)
    cold = Settings(minimum=Instances(1, 1, 0), maximum=Instances(1, 1, 1))
    arrivals = evenly(1, 1.0, spoken=5.0)
    (with_warm_up,) = waits_of(simulated(parameters, cold, arrivals))
    (without,) = waits_of(simulated(parameters, replace(cold, warm_up=False), arrivals))
    (warm,) = waits_of(simulated(parameters, replace(cold, minimum=Instances(1, 1, 1)), arrivals))
    assert with_warm_up == pytest.approx(warm, abs=0.01)
    start = 0.5 + parameters["start.convert"]
    assert without - warm == pytest.approx(start + parameters["cloud_run.reaction"], rel=0.3)


def test_surplus_instances_end_after_a_quarter_of_an_hour_but_the_minimum_stays() -> None:
    settings = Settings(minimum=Instances(0, 1, 1), maximum=Instances(4, 4, 8), convert_cpu=1)
    arrivals = Arrivals(np.linspace(0.0, 20.0, 200), np.full(200, 2.0), 3000.0)
    world = simulated(PARAMETERS, settings, arrivals).world
    instances = world.samples["instances"][: int(world.clock[0]["ticks"]), Service.CONVERT]
    tick = float(world.clock[0]["tick"])
    assert instances.max() > 1
    assert instances[int(800 / tick)] > 1
    assert instances[int(1100 / tick) :].max() == 1
    assert world.samples["instances"][int(1100 / tick), Service.API] == 0


def test_the_autoscaler_keeps_three_fifths_of_the_slots_busy() -> None:
    parameters = exact_parameters()
    settings = Settings(minimum=Instances(1, 1, 1), lifted=frozenset(Quota))
    arrivals = Crowd(peak=60.0, minutes=20).arrivals(parameters, np.random.default_rng(0))
    world = simulated(parameters, settings, arrivals).world
    converter = world.services[Service.CONVERT]
    first, last = 120, 230
    seconds = (last - first) * float(world.clock[0]["tick"])
    samples = world.samples[:, Service.CONVERT]
    slots = (samples["busy_area"][last] - samples["busy_area"][first]) / seconds
    wanted = np.ceil(slots / (converter["slots"] * 0.6))
    assert samples["instances"][first:last].min() >= wanted - 1
    assert samples["desired"][first:last] == pytest.approx(wanted, abs=1)


def test_a_full_service_refuses_after_ten_seconds_and_its_message_comes_again() -> None:
    parameters = exact_parameters().replaced({"processor.conversion": Duration(30.0)})
    settings = Settings(
        warm_up=False,
        minimum=Instances(1, 1, 1),
        maximum=Instances(1, 1, 1),
        convert_cpu=1,
        convert_concurrency=1,
        delivery_attempts=2,
    )
    simulation = simulated(parameters, settings, evenly(6, 0.1))
    summary = summarise(simulation)
    assert simulation.service(Service.CONVERT)["given_up"] > 0
    assert summary.done >= 1
    assert summary.dead >= 1
    assert summary.done + summary.dead == 6
    assert summary.waits[99] == np.inf


def test_signing_calls_beyond_the_quota_of_a_minute_are_refused() -> None:
    parameters = exact_parameters(quota__sign_blob=30.0, line__patience=0.0)
    simulation = simulated(parameters, WARM, evenly(40, 0.5))
    summary = summarise(simulation)
    assert summary.refused > 0
    assert summary.quotas[Quota.SIGN_BLOB].refused > 0
    assert summary.binding == [Quota.SIGN_BLOB]
    without_calls = replace(WARM, signing=Signing.HMAC)
    again = summarise(simulated(parameters, without_calls, evenly(40, 0.5)))
    assert again.refused == 0
    assert again.quotas[Quota.SIGN_BLOB].most_in_second == 0
    assert again.waits[50] < summary.waits[50] or np.isinf(summary.waits[50])


def test_writes_above_the_pace_wait_and_the_pace_grows_with_what_was_used() -> None:
    parameters = exact_parameters(
        deployed__collections=1.0,
        quota__firestore_ramp=20.0,
        quota__firestore_ramp_growth=4.0,
        quota__firestore_ramp_period=60.0,
        quota__patience=1000.0,
    )
    settings = replace(WARM, lifted=frozenset({Quota.FIRESTORE_INDEX}))
    simulation = simulated(parameters, settings, evenly(1200, 0.1, seconds=200.0))
    ramp = simulation.quota(Quota.FIRESTORE_RAMP)
    waits = waits_of(simulation)
    assert ramp["delayed"] > 0
    assert ramp["refused"] == 0
    assert waits[:400].max() > 5.0
    assert waits[-50:].max() < waits[:400].max()


def test_a_window_of_pushes_opens_with_success() -> None:
    parameters = exact_parameters(pubsub__first_window=1.0)
    settings = replace(WARM, minimum=Instances(4, 4, 16))
    arrivals = Arrivals(np.zeros(60), np.full(60, 3.0), 60.0)
    simulation = simulated(parameters, settings, arrivals)
    conversions = simulation.world.subscriptions[1]
    assert conversions["most_waiting"] > 0
    assert conversions["window"] == pytest.approx(61.0)


def test_the_same_seed_gives_the_same_day() -> None:
    arrivals = Crowd(per_day=3000).arrivals(PARAMETERS, np.random.default_rng(3))
    one, two = (simulated(PARAMETERS, WARM, arrivals, seed=5) for _ in range(2))
    assert (one.world.voices == two.world.voices).all()


def test_visitors_who_leave_stop_waiting() -> None:
    parameters = exact_parameters(visitor__leaving=0.5)
    summary = summarise(simulated(parameters, WARM, evenly(400, 0.5)))
    assert 120 < summary.left < 280
    assert summary.left + summary.done == 400


def test_idle_minimum_instances_are_paid_for_and_more_in_the_busy_hours() -> None:
    quiet = Arrivals(np.array([10.0]), np.array([2.0]), 7200.0)
    settings = Settings(minimum=Instances(0, 0, 2), maximum=Instances(2, 2, 10))
    summary = summarise(simulated(PARAMETERS, settings, quiet))
    rate = 2 * PARAMETERS["price.idle_cpu_second"] + PARAMETERS["price.idle_gib_second"]
    assert summary.bill.idle == pytest.approx(2 * 7200 * rate, rel=0.01)
    busy = replace(settings, busy_hours=BusyHours(1, 2, 6))
    summary = summarise(simulated(PARAMETERS, busy, quiet))
    assert summary.bill.idle == pytest.approx((2 + 6) * 3600 * rate, rel=0.01)


def test_a_simulation_ends_as_soon_as_more_voices_are_late_than_may_be() -> None:
    settings = Settings(minimum=Instances(0, 0, 0), maximum=Instances(1, 1, 1), convert_cpu=1)
    arrivals = evenly(300, 0.02)
    whole = simulated(PARAMETERS, settings, arrivals)
    late = int((waits_of(whole) > 2.0).sum())
    assert 20 < late < 300
    ended = Simulation.prepare(PARAMETERS, settings, arrivals).run(0, Allowance(2.0, 20))
    assert ended.world.clock[0]["late"] == 21
    assert ended.progress < whole.progress
    assert (waits_of(ended) > 2.0).sum() > 20
    # As many as may be late: it goes on to its end.
    kept = Simulation.prepare(PARAMETERS, settings, arrivals).run(0, Allowance(2.0, late))
    assert (kept.world.voices == whole.world.voices).all()


def test_visitors_in_a_closed_loop_come_as_soon_as_a_voice_has_its_end() -> None:
    parameters = exact_parameters(deployed__records_from_the_click=0.0)
    arrivals = Arrivals(np.zeros(30), np.full(30, 3.0), 0.0, at_once=3)
    voices = simulated(parameters, WARM, arrivals).world.voices
    assert (voices["outcome"] == state.DONE).all()
    assert voices["arrived"][:3].tolist() == [0.0, 0.0, 0.0]
    assert voices["arrived"][3:] == pytest.approx(np.sort(voices["ended"])[:-3])


def test_only_the_first_voice_of_an_instance_takes_longer() -> None:
    settings = Settings(minimum=Instances(1, 1, 1), maximum=Instances(1, 1, 1))
    parameters = exact_parameters(processor__first_voice=0.5)
    first, second, third = waits_of(simulated(parameters, settings, evenly(3, 30.0)))
    assert first == pytest.approx(second + 0.5)
    assert third == pytest.approx(second)


def test_whoever_is_refused_waits_in_line_and_is_served_in_the_next_minute() -> None:
    parameters = exact_parameters(quota__sign_blob=30.0)
    summary = summarise(simulated(parameters, WARM, evenly(20, 0.5, seconds=240.0)))

    # Each voice signs twice, and a minute has room for fifteen.
    assert summary.refused == 0
    assert summary.done == 20
    assert 0 < summary.in_line <= 10
    assert 20.0 < summary.waits[99] < 120.0


def test_a_crowd_wakes_more_than_one_converter_before_it_has_spoken() -> None:
    parameters = exact_parameters()
    crowd = evenly(100, 0.02, spoken=5.0)
    settings = Settings(minimum=Instances(2, 2, 0), maximum=Instances(8, 8, 50))

    def converters(most: int) -> int:
        simulation = simulated(parameters, replace(settings, warm_ups_at_once=most), crowd)
        samples = simulation.world.samples["instances"][:, Service.CONVERT]
        # The autoscaler's first look after the crowd came, before anybody has uploaded.
        return int(samples[1])

    assert converters(1) == 1
    assert converters(40) >= 4


def test_more_buckets_take_more_recordings() -> None:
    parameters = exact_parameters(quota__storage_writes=4.0, line__patience=0.0)
    crowd = evenly(400, 0.1)

    one = summarise(simulated(parameters, WARM, crowd))
    four = summarise(simulated(parameters, replace(WARM, upload_shards=4), crowd))

    assert one.quotas[Quota.UPLOADS_WRITES].first_met is not None
    assert one.refused > four.refused == 0


def test_a_text_is_spoken_without_an_upload() -> None:
    parameters = exact_parameters(visitor__texts=0.999999)
    simulation = simulated(parameters, WARM, evenly(50, 0.5))
    summary = summarise(simulation)

    assert summary.done == 50
    # It waits from the click, and takes one signature, that of its result.
    assert simulation.quota(Quota.SIGN_BLOB)["taken"] == 50
    assert 0.2 < summary.waits[50] < 1.0


def test_a_voice_over_a_websocket_is_heard_sooner_than_one_that_is_uploaded() -> None:
    def waits(share: float) -> float:
        parameters = exact_parameters(visitor__live=share)
        settings = replace(WARM, minimum=Instances(2, 2, 8, 2))
        simulation = simulated(parameters, settings, evenly(50, 0.5))
        assert summarise(simulation).done == 50
        return float(np.median(waits_of(simulation)))

    assert waits(0.999999) < waits(0.0) - 0.1


def test_who_finds_no_connection_uploads_instead() -> None:
    # A hundred speak at the same time; one instance has forty connections.
    parameters = exact_parameters(visitor__live=0.999999)
    settings = replace(WARM, minimum=Instances(2, 2, 8, 1), maximum=Instances(8, 8, 50, 1))
    simulation = simulated(parameters, settings, evenly(100, 0.01, spoken=9.0))
    summary = summarise(simulation)

    assert summary.done == 100
    assert summary.most_instances.live == 1
    # An upload is one of the three messages of a voice that did not go over the socket.
    assert simulation.service(Service.CONVERT)["requests"] >= 60
