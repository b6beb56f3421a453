"""A program that stands in for kubectl, and for a KubeRay behind it. Its jobs move on by one state
whenever they are looked at. It keeps what it was given as JSON in the folder $KUBECTL. If a file
`stuck` lies there, pods find no place."""

import json
import os
import sys
from pathlib import Path

STAGES = ("", "Initializing", "Running", "Complete")
LINES = ("waiting for pods", "[1/1] completed")


def main() -> None:
    folder = Path(os.environ["KUBECTL"])
    verb, *arguments = (word for word in sys.argv[1:] if not word.startswith("--"))
    with (folder / "calls").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    kept = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    answer: object = None
    stuck = (folder / "stuck").exists()
    if verb == "create":
        made = json.load(sys.stdin)
        if made["kind"] == (folder / "refused").read_text():
            sys.exit("Error from server (BadRequest): no such thing")
        made["metadata"]["uid"] = f"uid of {made['kind']}"
        (folder / f"{made['kind']}.json").write_text(json.dumps(made))
        answer = made
    elif verb == "auth" and (folder / "refused").read_text() == verb:
        sys.exit("E1126 memcache.go:265] a log\nError from server (Forbidden): no")
    elif verb == "get" and arguments == ["rayjobs"]:
        for name, job in kept.items():
            if job["kind"] == "RayJob":
                stage = STAGES.index(job.get("status", {}).get("jobDeploymentStatus", ""))
                stage = min(stage + 1, 1 if stuck else len(STAGES) - 1)
                ending = json.loads((folder / "ending").read_text()) if stage == 3 else {}
                named = {"rayClusterName": "ray-1", "jobDeploymentStatus": STAGES[stage]}
                job["status"] = {**named, **ending}
                (folder / name).write_text(json.dumps(job))
        answer = {"items": [job for job in kept.values() if job["kind"] == "RayJob"]}
    elif verb == "get" and arguments == ["events"]:
        why = {"type": "Warning", "message": "0/3 nodes are available: 3 Insufficient cpu."}
        answer = {"items": [{**why, "involvedObject": {"name": "pod-1"}}]}
    elif verb == "get":
        labels = {"ray.io/node-type": "worker", "ray.io/group": "cores"}
        pod = {
            "metadata": {"name": "pod-1", "labels": labels},
            "status": {"phase": "Pending" if stuck else "Running"},
        }
        answer = {"items": [pod]}
    elif verb == "logs":
        sys.stdout.write("\n".join(LINES) + "\n")
    elif verb == "delete":
        for name in kept:
            (folder / name).unlink()
    if answer:
        json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
