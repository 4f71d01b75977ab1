#!/usr/bin/env python3
"""Ten million requests, one by one: written as Parquet, and their quantiles with intervals, by
Wallfinder and by pandas, in turn.

    make bench-samples                      10,000,000 rows, 5 rounds
    bench/samples.py --rows 1000000 --rounds 3

Both start from rows in memory, write the same columns without compression, read the columns that they
need, and say p50 to p99.99 and the maximum of two clocks with 95 % intervals by twenty batches. What is
counted: for writing, the seconds between rows in memory and a finished file; for reading, Wallfinder's whole process
from its start to its end, and in pandas what follows the imports. The answers are compared before the times are.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "target" / "release"
LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999, "max": 1.0}
BATCHES = 20
STUDENT_19 = 2.093  # 95 %, two-sided, 19 degrees of freedom


def ours(rows: int, file: Path) -> tuple[float, float, dict]:
    """Seconds of writing and of reading, and what was read."""
    writer = [TARGET / "examples" / "sample_writer", str(rows), str(file.parent)]
    wrote = json.loads(subprocess.run(writer, check=True, capture_output=True).stdout)
    began = time.perf_counter()
    reader = [TARGET / "wallfinder", "samples", str(file), "--format", "json"]
    said = subprocess.run(reader, check=True, capture_output=True).stdout
    took = time.perf_counter() - began
    document = json.loads(said)[0]
    answers = {
        clock: {q["name"]: (q["value_ns"], q.get("low_ns"), q.get("high_ns")) for q in document[clock]}
        for clock in ("latency", "service")
    }
    return wrote["seconds"], took, answers


def theirs(file: Path, again: Path) -> tuple[float, float, dict]:
    """The same by pandas, in this process. Rows come from `file`, and are written to `again`."""
    import pandas as pd

    rows = pd.read_parquet(file)
    began = time.perf_counter()
    rows.to_parquet(again, compression=None, index=False)
    wrote = time.perf_counter() - began
    del rows

    began = time.perf_counter()
    frame = pd.read_parquet(again, columns=["latency_ns", "service_ns", "failed"])
    good = frame[frame["failed"].isna()]
    length = len(good) // BATCHES
    levels = list(LEVELS.values())
    answers = {}
    for clock in ("latency", "service"):
        times = good[f"{clock}_ns"]
        values = times.quantile(levels, interpolation="higher")
        parts = [times.iloc[at * length : (at + 1) * length] for at in range(BATCHES)]
        readings = pd.DataFrame([part.quantile(levels, interpolation="higher") for part in parts])
        half = STUDENT_19 * readings.std() / BATCHES**0.5
        answers[clock] = {
            name: (float(values[q]), float(values[q] - half[q]), float(values[q] + half[q]))
            for name, q in LEVELS.items()
        }
    return wrote, time.perf_counter() - began, answers


def compare(ours: dict, theirs: dict) -> None:
    """Both must say the same: pandas' ranks may differ by one, and so the ends of intervals by a little."""
    for clock, quantiles in ours.items():
        for name, (value, low, high) in quantiles.items():
            other, other_low, other_high = theirs[clock][name]
            if abs(value / other - 1) > 1e-3:
                sys.exit(f"{clock} {name}: {value} here, {other} there")
            if low is not None and abs((high - low) - (other_high - other_low)) > 1e-3 * value:
                sys.exit(f"{clock} {name}: [{low}, {high}] here, [{other_low}, {other_high}] there")


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--rows", type=int, default=10_000_000)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--theirs", type=Path, help=argparse.SUPPRESS)
    asked = flags.parse_args()
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        folder = Path(folder)
        if asked.theirs:
            print(json.dumps(theirs(asked.theirs, folder / "pandas.parquet")))
            return
        file = folder / "samples-0.parquet"
        ratios = {"write": [], "quantiles": [], "both": []}
        print(f"{asked.rows:,} rows, seconds   writes: ours, pandas   quantiles: ours, pandas")
        for round_ in range(asked.rounds):
            our_write, our_read, our_answers = ours(asked.rows, file)
            # A process of its own: what an earlier round has left in memory helps nobody.
            other = subprocess.run(
                [sys.executable, __file__, "--theirs", str(file)], check=True, capture_output=True
            )
            their_write, their_read, their_answers = json.loads(other.stdout)
            compare(our_answers, their_answers)
            ratios["write"].append(their_write / our_write)
            ratios["quantiles"].append(their_read / our_read)
            ratios["both"].append((their_write + their_read) / (our_write + our_read))
            print(
                f"round {round_ + 1:<20} {our_write:14.2f} {their_write:7.2f} {our_read:18.2f} {their_read:7.2f}",
                flush=True,
            )
        for what, values in ratios.items():
            middle = statistics.median(values)
            print(f"{what}: pandas takes {middle:.1f} times as long [{min(values):.1f}, {max(values):.1f}]")


if __name__ == "__main__":
    main()
