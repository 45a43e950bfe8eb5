"""Collects the rows of the benchmark and prints them: one Markdown table, and everything behind it as JSON."""
import json
import sys
import time


def figure(value):
    """A number with about three significant digits."""
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Report:
    """Rows in the order in which they were measured; `gaps` are the figures that were skipped or failed, by name."""

    def __init__(self, machine):
        self.machine, self.rows, self.gaps, self.failed = machine, [], [], False
        self.started = time.monotonic()

    def say(self, text):
        print(f"[{time.monotonic() - self.started:6.0f} s] {text}", file=sys.stderr, flush=True)

    def row(self, section, data_set, name, value, unit, note="", *, ratio=None, ratio_of="", recall=None, target=None,
            good=None, detail=None):
        met = bool(good(ratio)) if target and good else None
        self.rows.append({"section": section, "set": data_set, "name": name, "value": value, "unit": unit, "note": note,
                          "ratio": ratio, "ratio_of": ratio_of, "recall_at_10": recall, "target": target,
                          "target_met": met, "detail": detail or {}})
        shown = f"{section}: {name}: {figure(value)} {unit}"
        if ratio is not None:
            shown += f", {ratio:.2f} x {ratio_of}"
        if met is not None:
            shown += f" ({target}: {'met' if met else 'missed'})"
        self.say(shown)

    def gap(self, section, data_set, name, reason, failure):
        self.gaps.append({"section": section, "set": data_set, "name": name, "reason": reason, "failure": failure})
        self.failed = self.failed or failure
        self.say(f"{'FAILED' if failure else 'skip'}: {section}: {name} ({reason})")

    def spread_of(self, row):
        """The middle 80 % of the runs behind a row's value, in its unit, or nothing."""
        for key in ("times_ms", "build_ms", "rows_per_s"):
            values = row["detail"].get(key)
            if values:
                return f"{figure(values['p10'])}–{figure(values['p90'])}, {values['runs']} runs"
        return ""

    def markdown(self):
        lines = [f"Measured {self.machine['date']} on {self.machine['cpu']} ({self.machine['cores']} cores, "
                 f"{self.machine['memory_gb']:.0f} GB), {self.machine['server']}; commit {self.machine['commit']}; "
                 f"{', '.join(f'{key} = {value}' for key, value in self.machine['settings'].items())}.", ""]
        for warning in self.machine["warnings"]:
            lines += [f"Note: {warning}.", ""]
        lines += ["| figure | data | what | value | middle 80 % | ratio | target | recall@10 | remark |",
                  "|---|---|---|---:|---|---|---|---:|---|"]
        for row in self.rows:
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f} × {row['ratio_of']}"
            target = "" if not row["target"] else f"{row['target']}: {'met' if row['target_met'] else '**missed**'}"
            recall = "" if row["recall_at_10"] is None else f"{row['recall_at_10']:.3f}"
            lines.append(f"| {row['section']} | {row['set']} | {row['name']} | {figure(row['value'])} {row['unit']} | "
                         f"{self.spread_of(row)} | {ratio} | {target} | {recall} | {row['note']} |")
        if self.gaps:
            lines += ["", "Not measured:"]
            lines += [f"- {gap['section']}, {gap['set']}, {gap['name']}: {gap['reason']}" for gap in self.gaps]
        return "\n".join(lines)

    def write_json(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"machine": self.machine, "rows": self.rows, "gaps": self.gaps}, file, indent=1)
            file.write("\n")
