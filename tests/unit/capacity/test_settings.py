from __future__ import annotations

from tools.capacity.settings import BusyHours, Settings, Signing


def test_printed_settings_leave_room_and_the_quota_holds_all_of_it() -> None:
    settings = Settings(max_instances=121, busy_hours=BusyHours(19, 21, 40), signing=Signing.HMAC)
    printed = settings.terraform({"api": 10, "on_upload": 5, "convert": 110, "live": 0})
    assert "max_instances          = { api = 13, convert = 121, on_upload = 7 }" in printed
    # 121 converters of two CPUs, 20 functions, one dead_letter and one sweep.
    assert "quota                  = { cpus = 264, memory_gib = 132 }" in printed
    assert "{ crowd = { from = 19, to = 21, min_instances = 40 } }" in printed
    assert 'signing                = "hmac"' in printed
