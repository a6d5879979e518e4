#!/usr/bin/env python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes the pages of the role monitoring: from files/panels.yml Prometheus' console pages and dashboards for Grafana,
and from the guide of alerts the page that the links in alerts open.

tests/setup/monitoring_pages.py writes them. A test compares them with their sources.
"""

from __future__ import annotations

import html
import json
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import docutils.core  # type: ignore[import-untyped]
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ROLE = REPOSITORY / "roles/monitoring/files"
GUIDE = REPOSITORY / "docs/docsite/rst/guide_alerts.rst"
# REUSE-IgnoreStart
NOTICE = (
    "Copyright (c) 2026, hpcai.azure contributors",
    "GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)",
    "SPDX-License-Identifier: GPL-3.0-or-later",
)
# REUSE-IgnoreEnd
MADE = "Made by tests/setup/monitoring_pages.py"
KINDS = ("graph", "table", "heat", "matrix")
WIDE = ("heat", "matrix")
# Grafana's names of our units.
UNITS = {"count": "short", "s": "s", "percent": "percent", "ratio": "percentunit", "bytes": "decbytes", "Bps": "Bps"}
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "unknown": "text", "skip": "text"}
SCHEMA_VERSION = 39
"""Of Grafana 10.4 and later, which read older versions too."""


def panels() -> list[dict[str, Any]]:
    """The pages."""
    return list(yaml.safe_load((ROLE / "panels.yml").read_text(encoding="utf-8")))


def files() -> dict[str, str]:
    """The text of each file by its path below the role's files."""
    pages = panels()
    made = {"console_libraries/hpcai_navigation.lib": _navigation(pages), "consoles/hpcai.html": _index(pages)}
    for number, page in enumerate(pages, start=1):
        made[f"consoles/hpcai-{page['name']}.html"] = _console(page)
        made[f"dashboards/hpcai-{page['name']}.json"] = json.dumps(_dashboard(page, number), indent=1) + "\n"
    made["consoles/hpcai-alerts.html"] = _alerts()
    return made


# Console pages


def _commented(source: str) -> str:
    lines = "\n".join((*NOTICE, f"{MADE} from {source}."))
    return f"{{{{/*\n{lines}\n*/}}}}\n"


def _navigation(pages: Sequence[Mapping[str, Any]]) -> str:
    links = "".join(
        f'<a href="hpcai-{page["name"]}.html">{html.escape(page["title"])}</a>\n'
        for page in ({"name": "", "title": ""}, *pages)
        if page["name"]
    )
    return (
        f'{_commented("panels.yml")}{{{{ define "hpcai_navigation" }}}}<a href="hpcai.html">Cluster</a>\n'
        f"{links}{{{{ end }}}}\n"
    )


def _index(pages: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(
        f'<section><h2><a href="hpcai-{page["name"]}.html">{html.escape(page["title"])}</a></h2>'
        f"<p>{html.escape(page['about'])}</p></section>\n"
        for page in pages
    )
    firing = (
        '<section class="wide"><h2>Firing alerts</h2>\n'
        '{{ $rows := query `ALERTS{alertstate="firing"}` }}{{ if $rows }}<table>'
        "<tr><th>alert</th><th>severity</th><th>on</th></tr>\n"
        '{{ range sortByLabel "alertname" $rows }}<tr><td><a href="hpcai-alerts.html#{{ toLower .Labels.alertname }}">'
        "{{ .Labels.alertname }}</a></td><td>{{ .Labels.severity }}</td><td>{{ .Labels.instance }}</td></tr>\n"
        '{{ end }}</table>{{ else }}<span class="none">none</span>{{ end }}</section>\n'
    )
    return (
        f'{_commented("panels.yml")}{{{{ template "hpcai_head" "Cluster" }}}}\n<h1>Cluster</h1>\n<main>\n'
        f'{firing}{rows}</main>\n{{{{ template "hpcai_foot" }}}}\n'
    )


def _console(page: Mapping[str, Any]) -> str:
    asks = page.get("asks")
    head = f'{{{{ template "hpcai_head" "{page["title"]}" }}}}\n'
    if asks:
        # Digits only, because it becomes a part of the queries.
        head += f'{{{{ ${asks} := reReplaceAll "[^0-9]" "" (index .Params "{asks}") }}}}\n'
    main = "<main>"
    if asks and "window" in page:
        # Without the job, the page is about now. Prometheus accepts no offset of 0 s.
        start = _printed(f"max({page['window']['start']}) or vector(0)", asks)
        past = _printed(f"clamp_min(ceil(min({page['window']['past']})), 1) or vector(1)", asks)
        head += f"{{{{ $start := query ({start}) | first | value }}}}\n"
        head += f"{{{{ $past := query ({past}) | first | value }}}}\n"
        main = '<main data-start="{{ printf `%.0f` $start }}" data-past="{{ printf `%.0f` $past }}">'
    title = f"<h1>{html.escape(page['title'])}{f' {{{{ ${asks} }}}}' if asks else ''}</h1>\n"
    form = (
        f'<form><label>{asks} <input name="{asks}" inputmode="numeric" value="{{{{ ${asks} }}}}"></label> '
        "<button>Show</button></form>\n"
        if asks
        else ""
    )
    views = "".join(_view(view, asks) for view in page["views"])
    return (
        f"{_commented('panels.yml')}{head}{title}<p>{html.escape(page['about'])}</p>\n{form}{main}\n{views}</main>\n"
        '{{ template "hpcai_foot" }}\n'
    )


def _printed(query: str, asks: str) -> str:
    """A query with the reader's word and the offset of the job's last values, as an expression of Go's templates."""
    names = re.findall(rf"\$({asks}|past)\b", query)
    form = re.sub(rf"\${asks}\b", "%s", re.sub(r"\$past\b", "%.0fs", query.replace("%", "%%")))
    return f"printf `{form}` {' '.join(f'${name}' for name in names)}"


def _query(view: Mapping[str, Any]) -> str:
    return " ".join(str(view["query"]).split())


def _view(view: Mapping[str, Any], asks: str | None) -> str:
    body = _table(view, asks) if view["kind"] == "table" else _drawn(view, asks)
    wide = ' class="wide"' if view["kind"] in WIDE else ""
    return f"<section{wide}><h2>{html.escape(view['title'])}</h2>\n{body}</section>\n"


def _drawn(view: Mapping[str, Any], asks: str | None) -> str:
    query = html.escape(_query(view))
    if asks:
        query = query.replace(f"${asks}", f"{{{{ ${asks} }}}}")
    data = {
        "kind": view["kind"],
        "query": query,
        "labels": html.escape(",".join(view.get("legend") or [view.get("rows", "")])),
        "unit": view.get("unit", "count"),
    }
    if view["kind"] == "heat":
        data["most"] = str(view["most"])
    if view["kind"] == "matrix":
        data["columns"] = ",".join(view["columns"])
        data["cells"] = html.escape(json.dumps({str(value): word for value, word in view["cells"].items()}))
    attributes = " ".join(f'data-{name}="{text}"' for name, text in data.items())
    return f"<div {attributes}></div>\n"


def _table(view: Mapping[str, Any], asks: str | None) -> str:
    query = f"query `{_query(view)}`"
    if asks and f"${asks}" in query:
        query = f"query ({_printed(_query(view), asks)})"
    columns, links = view["columns"], view.get("links", {})
    heads = "".join(
        f"<th>{html.escape(text)}</th>" for text in (*columns, *([view["value"]] if view.get("value") else []))
    )
    cells = "".join(
        f'<td><a href="{links[label]}{{{{ .Labels.{label} }}}}">{{{{ .Labels.{label} }}}}</a></td>'
        if label in links
        else f"<td>{{{{ .Labels.{label} }}}}</td>"
        for label in columns
    )
    if view.get("value"):
        unit = view.get("unit", "count")
        cells += f'<td class="number" data-value="{{{{ .Value }}}}" data-unit="{unit}">{{{{ .Value }}}}</td>'
    rows = f'sortByLabel "{columns[0]}" $rows' if columns else "$rows"
    return (
        f"{{{{ $rows := {query} }}}}{{{{ if $rows }}}}<table>\n<tr>{heads}</tr>\n"
        f"{{{{ range {rows} }}}}<tr>{cells}</tr>\n{{{{ end }}}}</table>\n"
        '{{ else }}<span class="none">none</span>{{ end }}'
    )


# Dashboards


def _dashboard(page: Mapping[str, Any], number: int) -> dict[str, Any]:
    asks = page.get("asks")
    variables: list[dict[str, Any]] = [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "current": {},
            "hide": 0,
        }
    ]
    if asks:
        variables.append(
            {
                "name": asks,
                "label": asks.capitalize(),
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "query": {"query": "label_values(hpcai_job_info, job_id)", "refId": asks},
                "refresh": 2,
                "sort": 4,
                "current": {},
                "hide": 0,
            }
        )
    return {
        "uid": f"hpcai-{page['name']}",
        "title": f"HPC: {page['title']}",
        "description": page["about"],
        "tags": ["hpcai.azure"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "links": [
            {"title": "HPC", "type": "dashboards", "tags": ["hpcai.azure"], "asDropdown": True, "includeVars": False,
             "keepTime": True, "targetBlank": False, "icon": "external link", "tooltip": "", "url": ""}
        ],
        "annotations": {"list": []},
        "templating": {"list": variables},
        "panels": _placed([_panel(view, 100 * number + at) for at, view in enumerate(page["views"], start=1)]),
    }  # fmt: skip


def _placed(made: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two panels in a row; wide ones have a row of their own."""
    x = y = 0
    for panel in made:
        wide = panel.pop("wide")
        if wide and x:
            x, y = 0, y + 8
        panel["gridPos"] = {"x": x, "y": y, "w": 24 if wide else 12, "h": 12 if wide else 8}
        if wide or x:
            x, y = 0, y + panel["gridPos"]["h"]
        else:
            x = 12
    return list(made)


def _panel(view: Mapping[str, Any], number: int) -> dict[str, Any]:
    kind, source = view["kind"], {"type": "prometheus", "uid": "${datasource}"}
    instant = kind in ("table", "matrix")
    target: dict[str, Any] = {
        "refId": "A",
        "datasource": source,
        # A dashboard's instant query is evaluated at the end of the time that the reader chooses.
        "expr": _query(view).replace(" offset $past", ""),
        "instant": instant,
        "range": not instant,
    }
    defaults: dict[str, Any] = {"unit": UNITS[view.get("unit", "count")]}
    panel: dict[str, Any] = {
        "id": number,
        "title": view["title"],
        "datasource": source,
        "targets": [target],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
        "wide": kind in WIDE,
    }
    if kind == "graph":
        target["legendFormat"] = " ".join(f"{{{{{label}}}}}" for label in view["legend"])
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
        panel.update(type="timeseries", options={"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}})
    elif kind == "heat":
        target["legendFormat"] = f"{{{{{view['rows']}}}}}"
        defaults.update(min=0, max=view["most"], color={"mode": "continuous-RdYlGr"})
        panel.update(type="status-history", maxDataPoints=120, options={"showValue": "never", "rowHeight": 0.9,
                     "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False}})  # fmt: skip
    else:
        target["format"] = "table"
        panel.update(type="table", options={"showHeader": True, "cellHeight": "sm"})
        if kind == "table":
            panel["transformations"] = _columns(view)
        else:
            panel["transformations"] = [
                {
                    "id": "groupingToMatrix",
                    "options": {"rowField": view["rows"], "columnField": view["columns"][0], "valueField": "Value"},
                }
            ]
            defaults["custom"] = {"cellOptions": {"type": "color-background"}}
            words = {
                str(value): {"text": word, "color": COLOURS[word], "index": value}
                for value, word in view["cells"].items()
            }
            defaults["mappings"] = [{"type": "value", "options": words}]
    return panel


def _columns(view: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = [*view["columns"], *(["Value"] if view.get("value") else [])]
    return [
        {"id": "filterFieldsByName", "options": {"include": {"names": names}}},
        {"id": "organize", "options": {"excludeByName": {}, "indexByName": {name: at for at, name in enumerate(names)},
                                       "renameByName": {"Value": view["value"]} if view.get("value") else {}}},
    ]  # fmt: skip


# Alerts


def _alerts() -> str:
    """The guide of alerts as a console page, so that the links in alerts open it without any other server."""
    source = GUIDE.read_text(encoding="utf-8")
    # Only what Sphinx adds to docutils is left out: labels of other pages, and the list of sections.
    source = re.sub(r"^\.\. _ansible_collections\..*\n", "", source, flags=re.MULTILINE)
    source = re.sub(r":ref:`([^`<]*?)\s*<[^`]*>`", r"\1", source)
    source = re.sub(r"^\.\. contents::\n(?:   .*\n)*", "", source, flags=re.MULTILINE)
    source = re.sub(r"^\.\. code-block:: \w+$", "::", source, flags=re.MULTILINE)
    settings = {
        "initial_header_level": 2,
        "report_level": 2,
        "halt_level": 2,
        "file_insertion_enabled": False,
        "raw_enabled": False,
    }
    body = docutils.core.publish_parts(source, writer="html5", settings_overrides=settings)["html_body"]
    # The text contains examples for a shell, but must not contain actions of Go's templates.
    if "{{" in body:
        raise ValueError(f"{GUIDE.name} contains '{{{{'")
    return (
        f'{_commented("guide_alerts.rst")}{{{{ template "hpcai_head" "Alerts" }}}}\n'
        f'<main class="text">\n{body}</main>\n'
        '{{ template "hpcai_foot" }}\n'
    )


def main() -> int:
    """Write the files."""
    wanted = files()
    for folder in ("consoles", "dashboards"):
        (ROLE / folder).mkdir(exist_ok=True)
        for path in (ROLE / folder).iterdir():
            if f"{folder}/{path.name}" not in wanted:
                path.unlink()
    for name, text in wanted.items():
        (ROLE / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
