"""Every benchmark, one table."""

from __future__ import annotations

from benchmarks import calibrate, compile, engine, plan, start, table


def main() -> None:
    """`python -m benchmarks`."""
    given = table.parser("", __doc__, rounds=20).parse_args()
    rounds = given.rounds
    rows = engine.run(list(engine.TARGETS), rounds=rounds)
    rows += compile.run(list(compile.BUDGET_S), rounds=rounds)
    rows += plan.run(list(plan.SUBJECTS), rounds=rounds)
    rows += calibrate.run(rounds=rounds)
    rows += start.run(rounds=rounds)
    table.show("", rows, as_json=given.json)


if __name__ == "__main__":
    main()
