"""Amazon Web Services, and what can be asked there before anything costs money."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal

from sweepd import ray_private
from sweepd.cluster import autoscaler
from sweepd.cluster.base import Check
from sweepd.cluster.launcher import Cloud
from sweepd.errors import EnvironmentFailure
from sweepd.grid.yamlfile import Keys

BUCKET = "my-bucket"
"""The bucket in the policy of the nodes' role, which stands for the user's."""
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
"""The role by which Amazon starts spot instances. An account has it once somebody has made it."""
QUOTAS = {
    ("G", "VT"): ("L-DB2E81BA", "L-3819A6DF"),
    ("A", "C", "D", "H", "I", "M", "R", "T", "Z"): ("L-1216C47A", "L-34B43A08"),
}
"""Amazon's quotas of cores by the first letters of types of instances: on demand, and spot. Those
of the largest cards differ by generation, and are not looked at."""


class AWS(Cloud):
    """Instances of EC2. Credentials and network are found as boto3 and Ray find them."""

    provider: ClassVar[str] = "aws"
    extra: ClassVar[str] = "aws"

    kind: Literal["aws"]

    def own_faults(self) -> Iterator[tuple[Keys, str]]:
        yield from super().own_faults()
        # Ray gives the head a role of its own making where the file names none. That role starts
        # instances, but may not give them any role (iam:PassRole).
        section = autoscaler.prepared(self.config())
        types, head = section["available_node_types"], section["head_node_type"]
        profiles = {
            name: one["node_config"].get("IamInstanceProfile") for name, one in types.items()
        }
        for name, profile in profiles.items():
            if profile not in (None, profiles[head]):
                yield (
                    ("ray", "available_node_types", name, "node_config", "IamInstanceProfile"),
                    f"name it for {head} too: the head may pass on no other profile than its own, "
                    "so that these nodes could not start",
                )

    def config(self) -> dict[str, Any]:
        made = super().config()
        if isinstance(made["provider"], dict):
            # Ray would only stop nodes. Their disks would go on costing, and be listed nowhere.
            made["provider"].setdefault("cache_stopped_nodes", False)
        return made

    def policy(self, address: str) -> str:
        """Returns the policy of the role of all nodes, for results at this address, as JSON."""
        text = (files("sweepd.cluster") / "aws-policy.json").read_text(encoding="utf-8")
        return text.replace(BUCKET, _split(address)[0] or BUCKET)

    def checks(self, address: str = "") -> Iterator[Check]:
        address = address or self.results or ""
        yield from super().checks(address)
        unseen = "permissions, images, quotas and the role for spot were not looked at"
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            yield Check("boto3", False, f"{error}: `pip install 'sweepd[aws]'`; {unseen}")
            return
        provider = self.ray["provider"]
        where = {"region_name": provider["region"], **provider.get("aws_credentials", {})}
        try:
            session = boto3.Session(**where)
            who = session.client("sts").get_caller_identity()
        except (BotoCoreError, ClientError) as error:
            yield Check("credentials", False, f"{error}; `aws configure` sets them; {unseen}")
            return
        yield Check("credentials", True, who["Arn"])
        section, ec2 = autoscaler.prepared(self.config()), session.client("ec2")
        try:
            section = autoscaler.with_subnets(section)
        except EnvironmentFailure as failure:
            yield Check("subnets", False, str(failure))
        types = section["available_node_types"]

        def dry(check: str, act: Callable[..., object], said: str, **arguments: Any) -> Check:
            """Asks Amazon whether it would do something, and to do nothing."""
            try:
                act(**arguments, DryRun=True)
            except (BotoCoreError, ClientError) as error:
                if not re.search(r"DryRunOperation|\bInvalid\w+\.Duplicate\b", str(error)):
                    return Check(check, False, str(error))
            return Check(check, True, said)

        # What Ray makes where the file names none, and an earlier cluster has left none.
        name, key = ray_private.first_key_pair(section)
        if "ssh_private_key" not in section["auth"] and not Path(key).exists():
            yield dry("key pair", ec2.create_key_pair, f"Ray would make {name}", KeyName=name)
        plain = [one["node_config"] for one in types.values()]
        plain = [one for one in plain if "SecurityGroupIds" not in one and "SubnetIds" in one]
        if plain:
            name = f"ray-autoscaler-{section['cluster_name']}"
            about = {"GroupName": name, "Description": "of Ray's autoscaler"}
            with suppress(BotoCoreError, ClientError):  # else it is asked without its network
                subnets = ec2.describe_subnets(SubnetIds=plain[0]["SubnetIds"][:1])["Subnets"]
                about["VpcId"] = subnets[0]["VpcId"]
            said = f"Ray would make {name}, unless it has"
            yield dry("security group", ec2.create_security_group, said, **about)
        for name, one in types.items():
            asked = {key: value for key, value in one["node_config"].items() if key != "SubnetIds"}
            if subnets := one["node_config"].get("SubnetIds"):
                asked["SubnetId"] = subnets[0]
            started = {**asked, "MinCount": 1, "MaxCount": 1}
            yield dry(f"node type {name}", ec2.run_instances, "Amazon would start one", **started)
            try:
                yield _within_quota(session, name, one["node_config"])
            except (BotoCoreError, ClientError) as error:
                yield Check(f"quota of {name}", True, f"not known: {error}")
        if any(_is_spot(one["node_config"]) for one in types.values()):
            try:
                session.client("iam").get_role(RoleName=SPOT_ROLE)
                yield Check("spot", True, f"the account has the role {SPOT_ROLE}")
            except (BotoCoreError, ClientError) as error:
                make = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
                missing = "NoSuchEntity" in str(error)
                said = f"the account has no role {SPOT_ROLE}: run `{make}` once"
                yield Check("spot", not missing, said if missing else f"not known: {error}")
        yield from self._all_rights(session, types, section["head_node_type"], address)

    def _all_rights(
        self, session: Any, types: Mapping[str, Any], head: str, address: str
    ) -> Iterator[Check]:
        """Yields whether the roles of all node types may do what they have to."""
        from botocore.exceptions import BotoCoreError, ClientError

        profiles = {
            name: one["node_config"].get("IamInstanceProfile") for name, one in types.items()
        }
        for name in profiles:
            if name != head and profiles[name] == profiles[head]:
                continue  # the head's, which needs more, is looked at
            try:
                yield self._rights(session, name, profiles[name], address, is_head=name == head)
            except (BotoCoreError, ClientError) as error:
                said = f"not asked, since these credentials may not ({error})"
                yield Check(f"rights of {name}", True, said)

    def _rights(
        self,
        session: Any,
        name: str,
        profile: Mapping[str, str] | None,
        address: str,
        is_head: bool,
    ) -> Check:
        """Returns whether the policies of a node type's role, and of the bucket, let it do what
        `policy` says. Their conditions and the account's own limits are not looked at."""
        check, iam = f"rights of {name}", session.client("iam")
        if not profile:
            said = (
                "not asked: it names no IamInstanceProfile, so that Ray makes the head's own role"
            )
            return Check(check, True, said)
        named = profile.get("Name") or profile["Arn"].rpartition("/")[2]
        found = iam.get_instance_profile(InstanceProfileName=named)["InstanceProfile"]
        if not found["Roles"]:
            add = f"aws iam add-role-to-instance-profile --instance-profile-name {named}"
            return Check(
                check, False, f"the profile {named} has no role: run `{add} --role-name …`"
            )
        role, bucket = found["Roles"][0]["RoleName"], _split(address)[0]
        statements = [*_statements_of(iam, role)]
        if bucket:
            with suppress(session.client("s3").exceptions.ClientError):  # it has none of its own
                policy = session.client("s3").get_bucket_policy(Bucket=bucket)["Policy"]
                arn = found["Roles"][0]["Arn"]
                own = json.loads(policy)["Statement"]
                statements += [one for one in own if arn in json.dumps(one.get("Principal"))]
        examples = {
            f"arn:aws:s3:::{BUCKET}": f"arn:aws:s3:::{bucket}",
            f"arn:aws:s3:::{BUCKET}/*": f"arn:aws:s3:::{'/'.join(filter(None, _split(address)))}/x",
            "arn:aws:iam::*:role/sweepd": found["Roles"][0]["Arn"],
            "*": f"arn:aws:ec2:{session.region_name}:{found['Arn'].split(':')[4]}:instance/i-1",
        }
        missing = []
        for needs in json.loads(self.policy(""))["Statement"]:
            of_s3 = needs["Resource"].startswith("arn:aws:s3")
            for action in _list(needs["Action"]):
                told = action.replace("Describe*", "DescribeInstances")
                if not (bucket if of_s3 else is_head):
                    continue
                if not _allowed(statements, told, examples[needs["Resource"]]):
                    missing.append(f"{told} on {examples[needs['Resource']]}")
        if missing:
            said = f"the role {role} may not {', '.join(missing)}: put the policy on it that "
            return Check(check, False, f"{said}`sweepd doctor --cluster FILE --policy` prints")
        said = f"the policies of the role {role} allow what a node does"
        if "PermissionsBoundary" in found["Roles"][0]:
            said += "; its boundary was not read"
        return Check(check, True, said)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _split(address: str) -> tuple[str, str]:
    """Returns the bucket of an address on S3 and what follows it. Both are empty for others."""
    scheme, _, rest = address.partition("://")
    bucket, _, prefix = rest.rstrip("/").partition("/")
    return (bucket, prefix) if scheme == "s3" else ("", "")


def _statements_of(iam: Any, role: str) -> Iterator[dict[str, Any]]:
    """Yields the statements of all policies of a role."""
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        yield from _list(document["Statement"])
    for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        arn = attached["PolicyArn"]
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        asked = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]
        yield from _list(asked["Document"]["Statement"])


def _allowed(statements: Iterable[Mapping[str, Any]], action: str, resource: str) -> bool:
    """Returns whether a statement allows this, and none denies it for certain."""
    effects = set()
    for one in statements:
        applies = True
        for key, value in (("Action", action), ("Resource", resource)):
            patterns = [text.lower() for text in _list(one.get(key, one.get(f"Not{key}", "*")))]
            among = any(fnmatchcase(value.lower(), pattern) for pattern in patterns)
            applies = applies and among == (f"Not{key}" not in one)
        if applies and not (one["Effect"] == "Deny" and "Condition" in one):
            effects.add(one["Effect"])
    return effects == {"Allow"}


def _is_spot(node_config: Mapping[str, Any]) -> bool:
    return bool(node_config.get("InstanceMarketOptions", {}).get("MarketType") == "spot")


def _within_quota(session: Any, name: str, node_config: Mapping[str, Any]) -> Check:
    """Returns whether one such node fits into the account's quota. Amazon looks at that only when a
    node is to be started for real."""
    kind = node_config.get("InstanceType", "")  # else a launch template names it
    family = re.sub("[^a-z].*", "", kind).upper()
    codes = next((codes for of, codes in QUOTAS.items() if family in of), None)
    if codes is None:
        return Check(f"quota of {name}", True, f"not known for {kind or 'a launch template'}")
    asked = session.client("ec2").describe_instance_types(InstanceTypes=[kind])
    cores = asked["InstanceTypes"][0]["VCpuInfo"]["DefaultVCpus"]
    asking = {"ServiceCode": "ec2", "QuotaCode": codes[_is_spot(node_config)]}
    quota = session.client("service-quotas").get_service_quota(**asking)["Quota"]
    said = f"{quota['Value']:g} vCPUs ({quota['QuotaName']}); a node takes {cores}"
    more = "" if quota["Value"] >= cores else ": ask Amazon for more (Service Quotas, EC2)"
    return Check(f"quota of {name}", not more, said + more)
