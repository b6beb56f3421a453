"""Google Cloud, and what can be asked there before anything costs money."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from sweepd.cluster import autoscaler
from sweepd.cluster.base import Check
from sweepd.cluster.launcher import Cloud

COMPUTE = "https://compute.googleapis.com/compute/v1"
PROJECTS = "https://cloudresourcemanager.googleapis.com/v1/projects"
ACCOUNTS = "https://iam.googleapis.com/v1/projects"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
NEEDED = (
    *("compute.instances.create", "compute.instances.delete", "compute.instances.list"),
    *("compute.instances.setLabels", "compute.instances.setMetadata", "compute.disks.create"),
    *("compute.subnetworks.use", "compute.subnetworks.useExternalIp"),
    *("iam.serviceAccounts.actAs", "iam.serviceAccounts.get"),
    "resourcemanager.projects.getIamPolicy",
)
KEY = "compute.projects.setCommonInstanceMetadata"
FIRST = ("iam.serviceAccounts.create", "resourcemanager.projects.setIamPolicy")
"""What Ray does in the name of whoever brings a cluster up; with the SSH key, unless the file names
one; and with the account of the head and its roles, unless there is one."""
ACCOUNT = "ray-autoscaler-sa-v1"
BARE = re.compile("^projects/(ubuntu|debian|rocky-linux|centos|cos)[a-z-]*/")
"""A pattern of public images that have no driver of NVIDIA's."""

Answer = dict[str, Any]
Ask = Callable[..., Answer]
"""Asks an address for JSON, with a body if one is named. Where that fails, the answer has the
reason as `error`, as Google's own has it."""


class GCP(Cloud):
    """Instances of Compute Engine. Credentials and network are found as Google's library and Ray
    find them."""

    provider: ClassVar[str] = "gcp"
    extra: ClassVar[str] = "gcp"

    kind: Literal["gcp"]

    def checks(self, address: str = "") -> Iterator[Check]:
        yield from super().checks(address)
        unseen = "permissions, zone, machines, images and quotas were not looked at"
        try:
            import google.auth
            from google.auth.exceptions import GoogleAuthError
            from google.auth.transport.requests import AuthorizedSession, Request
            from google.oauth2 import credentials, service_account

            # Google's library has few types.
            accounts: Any = service_account.Credentials
            users: Any = credentials.Credentials
            sessions: Any = AuthorizedSession
        except ImportError as error:
            yield Check("google.auth", False, f"{error}: `pip install 'sweepd[gcp]'`; {unseen}")
            return
        provider = self.ray["provider"]
        given = provider.get("gcp_credentials", {"type": None})
        try:
            if given["type"] == "service_account":
                info = json.loads(given["credentials"])
                who = accounts.from_service_account_info(info, scopes=[SCOPE])
            elif given["type"]:
                who = users(given["credentials"])
            else:
                who, _ = google.auth.default(scopes=[SCOPE])
            if not who.token:
                who.refresh(Request())
        except (GoogleAuthError, ValueError, KeyError) as error:
            do = "`gcloud auth application-default login` makes them"
            yield Check("credentials", False, f"{str(error).rstrip('.')}; {do}; {unseen}")
            return
        name = getattr(who, "service_account_email", None) or "those of a user"
        yield Check("credentials", True, name)
        session = sessions(who)

        def ask(address: str, **body: Any) -> Answer:
            try:
                method = "POST" if body else "GET"
                answer = session.request(method, address, json=body or None, timeout=30)
                found: Answer = answer.json()
                return found
            except (GoogleAuthError, OSError, ValueError) as error:
                return {"error": {"message": str(error)}}

        needed = (*NEEDED, *(() if "ssh_private_key" in self.ray["auth"] else (KEY,)))
        yield from _project_checks(ask, provider, needed)
        place = f"{COMPUTE}/projects/{provider['project_id']}"
        known = ask(f"{place}/regions/{provider['region']}")
        if "error" in known:
            yield Check("region", False, _reason(known))
        quotas = [*known.get("quotas", ()), *ask(place).get("quotas", ())]
        room = {one["metric"]: (one["limit"], one.get("usage", 0)) for one in quotas}
        types = autoscaler.prepared(self.config())["available_node_types"]
        for name, one in types.items():
            config = one["node_config"]
            kind = config.get("machineType", "").rpartition("/")[2]
            machine = ask(f"{place}/zones/{provider['availability_zone']}/machineTypes/{kind}")
            if "error" in machine:
                yield Check(f"node type {name}", False, _reason(machine))
                continue
            yield Check(f"node type {name}", True, f"{kind}, {machine['guestCpus']} vCPUs")
            cards = {
                one["guestAcceleratorType"]: one["guestAcceleratorCount"]
                for one in machine.get("accelerators", ())
            }
            for one in config.get("guestAccelerators", ()):  # besides those of the machine's type
                cards[one["acceleratorType"].rpartition("/")[2]] = one["acceleratorCount"]
            for disk in config.get("disks", ()):
                if image := disk.get("initializeParams", {}).get("sourceImage"):
                    yield _image(ask, name, image, bool(cards))
            yield _within_quota(name, kind, machine["guestCpus"], cards, config, room)


def _project_checks(
    ask: Ask, provider: Mapping[str, Any], needed: tuple[str, ...]
) -> Iterator[Check]:
    project, zone = provider["project_id"], provider["availability_zone"]
    account = f"{ACCOUNT}@{project}.iam.gserviceaccount.com"
    if "error" in ask(f"{ACCOUNTS}/{project}/serviceAccounts/{account}"):
        needed = (*needed, *FIRST)
    # A project that is not there is refused here. Ray would make one.
    held = ask(f"{PROJECTS}/{project}:testIamPermissions", permissions=needed)
    missing = [one for one in needed if one not in held.get("permissions", ())]
    said = f"all {len(needed)} are held on {project}"
    if "error" in held:
        said = f"{project}: {_reason(held)}"
    elif missing:
        said = f"{', '.join(missing)}: have an owner of {project} grant them (the roles Editor and"
        said += f" Service Account User; Project IAM Admin until there is {ACCOUNT})"
    yield Check("permissions", not missing, said)
    found = ask(f"{COMPUTE}/projects/{project}/zones/{zone}")
    region = found.get("region", "").rpartition("/")[2]
    if "error" in found:
        yield Check("zone", False, f"{zone}: {_reason(found)}")
    elif region != provider["region"]:
        yield Check("zone", False, f"{zone} is in {region}, and not in {provider['region']}")
    else:
        yield Check("zone", found["status"] == "UP", f"{zone} is {found['status']}")


def _image(ask: Ask, name: str, image: str, cards: bool) -> Check:
    """Returns whether there is such an image, and a driver where the node has cards."""
    path = image[image.index("projects/") :] if "projects/" in image else image
    found = ask(f"{COMPUTE}/{path}")
    if "error" in found:
        return Check(f"image of {name}", False, _reason(found))
    state = found.get("deprecated", {}).get("state", "")
    ok, told = False, " has no driver for cards: take one of deeplearning-platform-release"
    if state in ("OBSOLETE", "DELETED"):
        told = f" is {state}: name another one"
    elif not (cards and BARE.match(path)):
        ok, told = True, "; whether it has NVIDIA's driver, its name does not say" if cards else ""
        if driver := re.search(r"nvidia-(\d+)", found["name"]):
            told = f", NVIDIA's driver {driver[1]}"
    return Check(f"image of {name}", ok, found["name"] + told)


def _within_quota(
    name: str,
    kind: str,
    cores: int,
    cards: Mapping[str, int],
    config: Mapping[str, Any],
    room: Mapping[str, tuple[float, float]],
) -> Check:
    """Returns whether one such node fits into what is left of the project's quotas."""
    family = kind.partition("-")[0].upper()
    wanted = {"CPUS" if family in ("N1", "F1", "G1") else f"{family}_CPUS": cores}
    for card, count in cards.items():
        plain = card.removeprefix("nvidia-").removeprefix("tesla-").upper().replace("-", "_")
        wanted[f"NVIDIA_{plain}_GPUS"] = count
    spot = config.get("scheduling", {}).get("provisioningModel") == "SPOT"
    if cards and not spot:
        wanted["GPUS_ALL_REGIONS"] = sum(cards.values())
    told, ok = [], True
    for metric, count in wanted.items():
        # Spot nodes count against a quota of their own, once a project has asked for one.
        of = metric if not metric.endswith("_CPUS") else "CPUS"
        if spot and room.get(f"PREEMPTIBLE_{of}", (0, 0))[0]:
            metric = f"PREEMPTIBLE_{of}"
        if metric not in room:
            continue
        limit, used = room[metric]
        told.append(f"{metric}: {used:g} of {limit:g} in use, a node takes {count}")
        ok = ok and used + count <= limit
    more = "" if ok else ": ask Google for more (IAM & Admin, Quotas)"
    return Check(f"quota of {name}", ok, ("; ".join(told) or f"not known for {kind}") + more)


def _reason(answer: Answer) -> str:
    return str(answer["error"]["message"])
