"""A step that runs the tasks of the current feature with descartes.

descartes starts a fresh agent for each task, repeats it until the project's checks
pass, and commits wave by wave. Where it waits for a person or for a provider's quota,
the workflow is paused, and `specify workflow resume` continues it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from specify_cli.workflows.base import StepBase, StepContext, StepResult, StepStatus
from specify_cli.workflows.expressions import evaluate_expression

#: Exit codes of descartes after which the same command continues, and what they wait for.
WAITS = {
    7: "descartes waits for you: `descartes status` and `descartes answer` say for what.",
    75: "The provider's quota is used up: `descartes doctor` says until when.",
}

#: What the other exit codes mean, and what to look at.
FAILURES = {
    2: "descartes cannot start; its message says why.",
    3: "Tasks are blocked: `descartes status` names them. "
    "`descartes resume --retry-blocked` tries them again.",
    4: "The agent cannot be run: `descartes doctor` says what is missing.",
    5: "git refused; the work is kept, and descartes says where.",
    6: "A limit was reached with work left: `descartes resume` continues.",
}


class DescartesStep(StepBase):
    """Run `descartes run TASKS`.

    ``tasks`` is the list; without it, tasks.md of the current feature.
    ``args`` are further flags of descartes.
    """

    type_key = "descartes"

    def execute(self, config: dict[str, Any], context: StepContext) -> StepResult:
        errors = self.validate(config)
        if errors:
            return _failed(" ".join(errors), -1)
        root = Path(context.project_root or ".")
        tasks = config.get("tasks")
        if tasks is not None:
            tasks = str(evaluate_expression(tasks, context))
        else:
            tasks = _tasks_of_feature(root)
        if not tasks or not (root / tasks).is_file():
            return _failed("There is no tasks.md of a current feature yet: run speckit.tasks first.", -1)
        program = shutil.which("descartes")
        if program is None:
            return _failed("descartes is not on PATH.", -1)
        try:
            code = subprocess.run([program, "run", tasks, *config.get("args", [])], cwd=root).returncode
        except OSError as exc:
            return _failed(f"descartes cannot be started: {exc}", -1)
        if code == 0:
            return StepResult(output={"exit_code": 0, "tasks": tasks})
        if code in WAITS:
            print(WAITS[code])
            return StepResult(
                status=StepStatus.PAUSED,
                output={"exit_code": code, "tasks": tasks, "message": WAITS[code]},
            )
        return _failed(FAILURES.get(code, f"descartes ended with exit code {code}."), code)

    def validate(self, config: dict[str, Any]) -> list[str]:
        errors = super().validate(config)
        name = config.get("id", "?")
        if "tasks" in config and not isinstance(config["tasks"], str):
            errors.append(f"Descartes step {name!r}: 'tasks' must be a string.")
        args = config.get("args", [])
        if not isinstance(args, list) or not all(isinstance(a, str) for a in args):
            errors.append(f"Descartes step {name!r}: 'args' must be a list of strings.")
        return errors


def _failed(error: str, code: int) -> StepResult:
    return StepResult(status=StepStatus.FAILED, error=error, output={"exit_code": code})


def _tasks_of_feature(root: Path) -> str | None:
    """Return tasks.md of the feature that Spec Kit's own scripts mean."""
    feature = os.environ.get("SPECIFY_FEATURE_DIRECTORY", "")
    if not feature:
        try:
            data = json.loads((root / ".specify" / "feature.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        feature = data.get("feature_directory") if isinstance(data, dict) else None
    if not isinstance(feature, str) or not feature:
        return None
    return str(Path(feature) / "tasks.md")
