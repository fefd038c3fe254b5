from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.unit.terraform.reading import MODULE

if TYPE_CHECKING:
    from tests.unit.terraform.reading import TerraformModule


def chapters() -> dict[str, str]:
    text = (MODULE / "runbook.md").read_text()
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_each_alert_carries_its_own_chapter_of_the_runbook(terraform: TerraformModule) -> None:
    told = {}
    for body in terraform.of_type("google_monitoring_alert_policy").values():
        title = body["display_name"].removeprefix("${var.name}: ")
        told[title.capitalize()] = body["documentation"][0]["content"]

    # A budget's mails have a text of their own.
    chapters_of_alerts = chapters().keys() - {"Spending"}
    assert told == {chapter: f'local.runbook["{chapter}"]' for chapter in chapters_of_alerts}
    assert "Spending" in chapters()


def test_a_chapter_says_what_it_means_where_to_look_and_what_to_do() -> None:
    for title, chapter in chapters().items():
        for heading in ("**What it means.**", "**Look.**", "**Do.**"):
            assert heading in chapter, (title, heading)


def test_the_runbook_names_only_subscriptions_services_and_buckets_that_exist(
    terraform: TerraformModule,
) -> None:
    text = (MODULE / "runbook.md").read_text()
    pubsub = (MODULE / "pubsub.tf").read_text()
    suffixes = set(re.findall(r"\$NAME-([\w-]+)", text))
    services = {name.removeprefix("${var.name}-") for name in terraform.locals["names"].values()}
    buckets = {
        body["name"].removeprefix("${var.project_id}-${var.name}-")
        for body in terraform.of_type("google_storage_bucket").values()
    }
    topics = {"uploads", "conversions"}
    subscriptions = {f"{topic}{end}" for topic in topics for end in ("", "-dead", "-dead-retained")}

    assert suffixes
    assert suffixes <= services | subscriptions | buckets | {"log-key"}
    assert all(f'"${{var.name}}-${{each.key}}{end}"' in pubsub for end in ("", "-dead-retained"))


def test_the_events_in_the_runbook_are_those_that_metrics_count_or_alerts_watch(
    terraform: TerraformModule,
) -> None:
    text = (MODULE / "runbook.md").read_text()
    queried = set(re.findall(r'jsonPayload\.event=\(?\\"(\w+)\\"(?: OR \\"(\w+)\\")?', text))
    events = {one for pair in queried for one in pair if one}
    counted = {counter["event"] for counter in terraform.locals["counters"].values()}

    assert events
    assert events <= counted | terraform.watched_events()
