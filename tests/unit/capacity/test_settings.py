from __future__ import annotations

from tools.capacity.settings import Settings, Signing


def test_printed_settings_leave_room_and_the_quota_holds_all_of_it() -> None:
    settings = Settings(max_instances=121, signing=Signing.HMAC)
    printed = settings.terraform({"api": 10, "on_upload": 5, "convert": 110, "live": 0})
    assert "max_instances = 121 }" in printed
    assert "api       = { concurrency = 500, min_instances = 0, max_instances = 13," in printed
    assert "on_upload = { min_instances = 1, max_instances = 7 }" in printed
    # 121 converters of two CPUs, 20 functions, one dead_letter and one sweep.
    assert "quota     = { cpus = 264, memory_gib = 132 }" in printed
    assert 'signing   = { method = "hmac" }' in printed
