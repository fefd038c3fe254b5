"""CORS headers from a bucket's configuration.

Rules: https://cloud.google.com/storage/docs/cross-origin. Unlike there, an origin may end with any
port: `http://localhost:*`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.runtime.origins import is_allowed_origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Rule = dict[str, Any]


def response_headers(
    rules: Sequence[Rule], method: str, request_headers: Mapping[str, str]
) -> dict[str, str]:
    origin = request_headers.get("origin")
    rule = _matching_rule(rules, origin, method)
    if origin is None or rule is None:
        return {}
    headers = _origin_headers(rule, origin)
    if rule.get("responseHeader"):
        headers["Access-Control-Expose-Headers"] = ", ".join(rule["responseHeader"])
    return headers


def preflight_headers(rules: Sequence[Rule], request_headers: Mapping[str, str]) -> dict[str, str]:
    """Return the CORS headers of the answer to a preflight; none make the browser refuse."""
    origin = request_headers.get("origin")
    method = request_headers.get("access-control-request-method", "")
    rule = _matching_rule(rules, origin, method)
    if origin is None or rule is None:
        return {}
    header = request_headers.get("access-control-request-headers", "")
    wanted = [name.strip() for name in header.split(",") if name.strip()]
    allowed = {name.lower() for name in rule.get("responseHeader", [])}
    if "*" not in allowed and not {name.lower() for name in wanted} <= allowed:
        return {}
    headers = _origin_headers(rule, origin)
    headers["Access-Control-Allow-Methods"] = ", ".join(rule["method"])
    if wanted:
        headers["Access-Control-Allow-Headers"] = ", ".join(wanted)
    if "maxAgeSeconds" in rule:
        headers["Access-Control-Max-Age"] = str(rule["maxAgeSeconds"])
    return headers


def _matching_rule(rules: Sequence[Rule], origin: str | None, method: str) -> Rule | None:
    for rule in rules:
        origins, methods = rule.get("origin", []), rule.get("method", [])
        is_allowed = origin is not None and is_allowed_origin(origin, None, origins)
        if is_allowed and (method in methods or "*" in methods):
            return rule
    return None


def _origin_headers(rule: Rule, origin: str) -> dict[str, str]:
    if "*" in rule["origin"]:
        return {"Access-Control-Allow-Origin": "*"}
    return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
