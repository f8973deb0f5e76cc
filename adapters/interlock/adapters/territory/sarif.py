"""A report as SARIF 2.1.0, which code scanning reads (OASIS, https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""

import hashlib
import os
from typing import Any
from urllib.parse import quote

from interlock.adapters.territory.judging import CAUSES
from interlock.adapters.territory.report import sentence
from interlock.adapters.territory.verification import Report, Violation

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RESULTS_MAX = 25_000  # GitHub takes no more of one run


def as_sarif(report: Report, version: str) -> dict[str, Any]:
    """The report as one SARIF log with one run. Args: version: of this program."""
    names = list(CAUSES)
    results = [_result(each, names) for each in report.violations[:RESULTS_MAX]]
    rules = [
        {
            "id": name, "name": "".join(word.title() for word in name.split("_")),
            "shortDescription": {"text": name.replace("_", " ")},
            "fullDescription": {"text": CAUSES[name]}, "help": {"text": CAUSES[name]},
            "defaultConfiguration": {"level": "error"},
        }
        for name in names
    ]  # fmt: skip
    run = {
        "tool": {"driver": {"name": "bus verify", "version": version, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {
            "pairsChecked": report.pairs, "unknown": len(report.unknown), "excluded": report.excluded,
            "violations": len(report.violations), "base": report.range.base, "head": report.range.head,
        },
    }  # fmt: skip
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(each: Violation, names: list[str]) -> dict[str, Any]:
    path = os.fsencode(each.path)
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path, safe="/"), "uriBaseId": "%SRCROOT%"}}
    first, last = each.lines[0] if each.lines else (1, 1)  # GitHub shows nothing that has no line
    place["region"] = {"startLine": first, "endLine": last}
    # The same finding in the next run is the same alert: not by its line, which moves.
    print_ = hashlib.sha256(b"\0".join([path, each.cause.encode(), each.commit.encode(), each.holder.encode()]))
    return {
        "ruleId": each.cause, "ruleIndex": names.index(each.cause), "level": "error",
        "message": {"text": sentence(each)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"interlock/v1": print_.hexdigest()},
    }  # fmt: skip
