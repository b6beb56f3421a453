"""Amazon Web Services, and what can be asked there before anything costs money."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from sweepd.cluster import autoscaler
from sweepd.cluster.base import Check
from sweepd.cluster.launcher import Cloud
from sweepd.grid.yamlfile import Keys

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

    def checks(self) -> Iterator[Check]:
        yield from super().checks()
        unseen = "permissions, images, quotas and the role for spot were not looked at"
        try:
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            yield Check("boto3", False, f"{error}: `pip install 'sweepd[aws]'`; {unseen}")
            return
        section = autoscaler.prepared(self.config())["available_node_types"]
        provider = self.ray["provider"]
        where = {"region_name": provider["region"], **provider.get("aws_credentials", {})}
        try:
            session = boto3.Session(**where)
            who = session.client("sts").get_caller_identity()["Arn"]
        except (BotoCoreError, ClientError) as error:
            yield Check("credentials", False, f"{error}; `aws configure` sets them; {unseen}")
            return
        yield Check("credentials", True, who)
        for name, one in section.items():
            # Amazon is asked to say whether it would start such a node, and to start none.
            asked = {key: value for key, value in one["node_config"].items() if key != "SubnetIds"}
            if subnets := one["node_config"].get("SubnetIds"):
                asked["SubnetId"] = subnets[0]
            started = Check(f"node type {name}", True, "Amazon would start one")
            try:
                session.client("ec2").run_instances(**asked, MinCount=1, MaxCount=1, DryRun=True)
            except (BotoCoreError, ClientError) as error:
                if "DryRunOperation" not in str(error):
                    started = Check(f"node type {name}", False, str(error))
            yield started
            try:
                yield _within_quota(session, name, one["node_config"])
            except (BotoCoreError, ClientError) as error:
                yield Check(f"quota of {name}", True, f"not known: {error}")
        if any(_is_spot(one["node_config"]) for one in section.values()):
            try:
                session.client("iam").get_role(RoleName=SPOT_ROLE)
                yield Check("spot", True, f"the account has the role {SPOT_ROLE}")
            except (BotoCoreError, ClientError) as error:
                make = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
                missing = "NoSuchEntity" in str(error)
                said = f"the account has no role {SPOT_ROLE}: run `{make}` once"
                yield Check("spot", not missing, said if missing else f"not known: {error}")


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
