"""The scripts that an apply runs, with a stand-in that refuses as gcloud and Cloud Build do."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.unit.terraform.reading import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# gcloud (googlecloudsdk/core/credentials/creds.py, GetQuotaProject) sends no quota project with a
# token from CLOUDSDK_AUTH_ACCESS_TOKEN, whatever --project says, unless a billing project is named.
# The token of a person belongs to a project of Google's, in which Cloud Build is off.
GCLOUD = """\
#!/bin/sh
quota=764086051850
for each in "$@"; do
    case "$each" in --billing-project=*) quota="${each#*=}" ;; esac
done
if [ "$*" = "auth application-default print-access-token" ]; then echo "a token"; exit; fi
[ "$CLOUDSDK_AUTH_ACCESS_TOKEN" = "a token" ] || { echo "not Terraform's credentials" >&2; exit 1; }
if [ "$quota" = 764086051850 ]; then
    echo "PERMISSION_DENIED: the API has not been used in project $quota before" >&2
    exit 1
fi
echo "$quota $*"
"""
VALUES = {
    "CHECK": "--no-invoker-iam-check",
    "KOKORO": "off",
    "IMAGE": "region-docker.pkg.dev/my-project/voice-avatar/convert:tag",
    "PROJECT_ID": "my-project",
    "PROVIDER": "cpu",
    "REGION": "us-central1",
    "SERVICE": "voice-avatar-api",
    "SERVICE_ACCOUNT": "build",
    "STAGING": "gs://staging",
}


@pytest.mark.parametrize(
    ("script", "asks"),
    [
        ("build-image.sh", "builds submit . "),
        ("set-invoker-check.sh", "run services update voice-avatar-api --no-invoker-iam-check"),
    ],
)
def test_with_terraforms_own_credentials_the_quota_of_the_project_is_used(
    script: str, asks: str, tmp_path: Path
) -> None:
    (gcloud := tmp_path / "gcloud").write_text(GCLOUD)
    gcloud.chmod(0o755)

    done = subprocess.run(
        ["/bin/sh", ROOT / "infra/terraform" / script],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **VALUES},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"my-project {asks}")
    assert script != "build-image.sh" or "_KOKORO=off," in done.stdout
