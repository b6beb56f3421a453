"""Both runners tell the same events and leave the same rows, digit for digit."""

import re

from shell import ONE_AT_A_TIME, SharedShell

GRID = f"""
name: twins
task: {{name: lis, n: [2, 3], value_range: 16}}
model: {{name: [standard, linear], d: [4, 8], layers: 1, heads: 2}}
train: {{steps: 40, batch_size: 4, schedule: wsd}}
evaluate: {{check_every: 10, check_samples: 8, verdict_samples: 16}}
search: staircase
seeds: [0, 1, 2]
goal: acc > 0.3
resources: {ONE_AT_A_TIME}
"""
LEFT_OUT = "EXCLUDE (attempt, seconds, started, ended)"
"""What differs from launch to launch."""


def test_both_runners_leave_the_same_rows_and_say_the_same(module_shell: SharedShell) -> None:
    module_shell.write("grid.yaml", GRID)
    on_ray = module_shell.run("launch", "grid.yaml", "--yes", "--results", "ray")
    here = module_shell.run("launch", "grid.yaml", "--in-process", "--results", "here")
    ended = re.compile(r"^\[.*", re.MULTILINE)
    assert ended.findall(here.stderr) == ended.findall(on_ray.stderr) != []
    for question in (
        f"SELECT * {LEFT_OUT} FROM trials ORDER BY ALL",
        "SELECT * EXCLUDE (attempt, seconds) FROM metrics ORDER BY ALL",
    ):
        twins = [module_shell.rows("sql", question, "--results", r) for r in ("ray", "here")]
        assert twins[0] == twins[1] != []
