from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.unit.terraform.reading import MODULE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.terraform.reading import TerraformModule


def chapters() -> dict[str, str]:
    text = (MODULE / "runbook.md").read_text()
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_the_runbook_names_only_subscriptions_services_and_buckets_that_exist(
    terraform: TerraformModule,
) -> None:
    text = (MODULE / "runbook.md").read_text()
    pubsub = (MODULE / "pubsub.tf").read_text()
    named = text.replace("$TOPIC", "uploads") + text.replace("$TOPIC", "conversions")
    suffixes = set(re.findall(r"\$NAME-([\w-]+)", named))
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


SCRIPT = "republish-dead-letters.sh"

# A pull gives the next file of a folder; publishing notes its arguments.
GCLOUD = """\
#!/bin/sh
case "$*" in
    *"subscriptions pull"*)
        case "$*" in *"--limit 100 --auto-ack"*) ;; *) exit 3 ;; esac
        next="$(ls "$PULLS" | head -n 1)"
        if [ -n "$next" ]; then cat "$PULLS/$next"; rm "$PULLS/$next"; else echo "[]"; fi ;;
    *"topics publish"*) printf '%s\\n' "$*" >> "$PUBLISHED" ;;
esac
"""


def test_the_dead_letters_of_all_pulls_are_published_again_oldest_first(tmp_path: Path) -> None:
    assert chapters()["Dead letters"].count(f"bash infra/terraform/{SCRIPT}") == 2
    pulls = tmp_path / "pulls"
    pulls.mkdir()
    # Out of order, with an empty pull in between and one message that was delivered twice.
    for number, batch in enumerate([range(4, 6), [], range(2, 4), range(3), []]):
        received = [
            {
                "ackId": "a",
                "message": {
                    "attributes": {
                        "objectId": f"o{index}",
                        "CloudPubSubDeadLetterSourceDeliveryCount": "30",
                    },
                    "data": base64.b64encode(f"message {index}".encode()).decode(),
                    "messageId": f"m{index}",
                    "publishTime": f"2026-01-01T00:00:0{index}Z",
                },
            }
            for index in batch
        ]
        (pulls / str(number)).write_text(json.dumps(received))
    (gcloud := tmp_path / "gcloud").write_text(GCLOUD)
    gcloud.chmod(0o755)
    bash = shutil.which("bash")
    assert bash

    subprocess.run(
        [bash, MODULE / SCRIPT, "uploads"],
        cwd=tmp_path,
        env={
            "PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin",
            "PROJECT": "demo-project",
            "PUBLISHED": str(tmp_path / "published"),
            "PULLS": str(pulls),
        },
        check=True,
    )

    assert (tmp_path / "published").read_text().splitlines() == [
        "pubsub topics publish voice-avatar-uploads --project demo-project "
        f"--message message {index} --attribute objectId=o{index}"
        for index in range(6)
    ]
