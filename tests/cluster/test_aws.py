"""What is asked of Amazon before anything costs money. moto plays it, on loopback, behind a proxy
that refuses what Amazon may refuse. Covers `cluster/aws.py`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from cluster.ready import CLUSTERS, have_commands, written
from inprocess import sweepd
from object_store import Amazon, Services
from ray.autoscaler._private import providers
from ray.autoscaler._private.aws import config, utils

from sweepd.cluster.aws import SPOT_ROLE
from sweepd.ray_private import HEAD_CONFIG, nodes_and_types


@pytest.fixture(scope="module")
def services() -> Services:
    return Services()


ROLE = {"RoleName": "sweepd", "PolicyName": "sweepd"}


def policy(folder: Path) -> str:
    """What `sweepd doctor --policy` prints for the bucket `ours`."""
    path = str(written(folder, "aws"))
    return sweepd("doctor", "--cluster", path, "--policy", exits=0).out


@pytest.fixture
def account(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Amazon]:
    """What the head of the ready file says has been done to an account."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for cached in (utils.resource_cache, utils.client_cache, config._get_subnets_or_die):
        cached.cache_clear()  # they would ask the proxy of the test before
    monkeypatch.setattr(providers, "_provider_instances", {})
    have_commands(tmp_path, monkeypatch)
    proxy = Amazon(services, "us-west-2")
    proxy.lead_s3(monkeypatch)
    for service, operation, arguments in (
        ("iam", "create_role", {"RoleName": SPOT_ROLE, "AssumeRolePolicyDocument": "{}"}),
        ("iam", "create_role", {"RoleName": "sweepd", "AssumeRolePolicyDocument": "{}"}),
        ("iam", "create_instance_profile", {"InstanceProfileName": "sweepd"}),
        (
            *("iam", "add_role_to_instance_profile"),
            {"InstanceProfileName": "sweepd", "RoleName": "sweepd"},
        ),
        ("iam", "put_role_policy", {**ROLE, "PolicyDocument": policy(tmp_path)}),
        (
            *("s3", "create_bucket"),
            {"Bucket": "ours", "CreateBucketConfiguration": {"LocationConstraint": "us-west-2"}},
        ),
    ):
        getattr(boto3.client(service, "us-west-2"), operation)(**arguments)
    yield proxy
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.iam.models import iam_backends
    from moto.s3.models import s3_backends

    for backends in (iam_backends, s3_backends):
        backends[DEFAULT_ACCOUNT_ID]["aws"].reset()
    proxy.close()


def refused(path: Path) -> dict[str, str]:
    """The checks that fail, and what they say."""
    answer = sweepd("doctor", "--cluster", str(path), "--json")
    rows = [row for row in json.loads(answer.out) if not row["ok"]]
    assert answer.code == (3 if rows else 0), answer
    return {row["check"]: row["detail"] for row in rows}


def test_an_account_that_has_all_passes(account: Amazon, tmp_path: Path) -> None:
    assert refused(written(tmp_path, "aws")) == {}
    assert not any(b"RunInstances" in path.encode() for _, path in account.requests)
    assert not boto3.client("ec2", "us-west-2").describe_instances()["Reservations"]


@pytest.mark.parametrize(
    ("said", "check", "told"),
    [
        ("UnauthorizedOperation", "node type gpu", "UnauthorizedOperation"),
        ("CreateKeyPair", "key pair", "UnauthorizedOperation"),
        ("CreateSecurityGroup", "security group", "UnauthorizedOperation"),
        ("quota", "quota of gpu", "2 vCPUs (Some Instances); a node takes 8: ask Amazon for more"),
        ("no role", "spot", "aws iam create-service-linked-role --aws-service-name spot.amazonaws"),
        ("no bucket", "write", "s3://theirs/sweeps: there is no such bucket"),
        ("no key", "credentials", "`aws configure` sets them"),
        ("no profile", "credentials", "The config profile (mine) could not be found"),
        ("no boto3", "boto3", "pip install 'sweepd[aws]'"),
    ],
)
def test_what_is_missing_is_told_and_nothing_is_started(
    account: Amazon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    check: str,
    told: str,
) -> None:
    path = written(tmp_path, "aws")
    if said == "UnauthorizedOperation":
        account.refused["RunInstances"] = said
    elif said.startswith("Create"):
        account.refused[said] = "UnauthorizedOperation"
    elif said == "quota":
        account.quota = 2.0
        path.write_text(path.read_text().replace("max_workers: 8", "max_workers: 32"))
    elif said == "no role":
        boto3.client("iam", "us-west-2").delete_role(RoleName=SPOT_ROLE)
    elif said == "no profile":
        monkeypatch.setenv("AWS_PROFILE", "mine")
    elif said == "no boto3":
        monkeypatch.setitem(sys.modules, "boto3", None)
    elif said == "no bucket":
        path.write_text(path.read_text().replace("s3://ours", "s3://theirs"))
    else:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert told in refused(path)[check]
    if said in ("UnauthorizedOperation", "quota", "no role"):
        answer = sweepd("cluster", "up", str(path), "--yes")
        assert answer.code == 3 and "nothing was started:\n" in answer.err, answer
        assert f"{check}: " in answer.err and told in answer.err
        assert ("up to 33 nodes will each install" in answer.err) == (said == "quota")
        account.refused.clear()
        assert not boto3.client("ec2", "us-west-2").describe_instances()["Reservations"]


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("", "", "may not ec2:RunInstances on arn:aws:ec2:us-west-2:123456789012:instance/i-1, "),
        (":::ours", ":::theirs", "may not s3:ListBucket on arn:aws:s3:::ours, s3:GetObject on "),
        (":::ours/", ":::ours/other/", "may not s3:GetObject on arn:aws:s3:::ours/sweeps/x, "),
        ('"s3:PutObject", ', "", "may not s3:PutObject on arn:aws:s3:::ours/sweeps/x:"),
        ("role/sweepd", "role/other", "may not iam:PassRole on arn:aws:iam::123456789012:role/s"),
    ],
)
def test_rights_that_the_role_lacks_are_told(
    account: Amazon, tmp_path: Path, old: str, new: str, missing: str
) -> None:
    iam = boto3.client("iam", "us-west-2")
    if old:
        text = policy(tmp_path)
        assert old in text
        iam.put_role_policy(**ROLE, PolicyDocument=text.replace(old, new))
    else:
        iam.delete_role_policy(**ROLE)
    told = refused(written(tmp_path, "aws"))
    assert told.keys() == {"rights of head"} and missing in told["rights of head"], told
    assert "sweepd doctor --cluster FILE --policy" in told["rights of head"]


def test_rights_may_come_from_elsewhere_or_may_not_be_asked_for(
    account: Amazon, tmp_path: Path
) -> None:
    """From a policy that several roles share, in other words, and from the bucket's own. A denial
    counts."""
    iam, s3 = boto3.client("iam", "us-west-2"), boto3.client("s3", "us-west-2")
    broad = {"Effect": "Allow", "Action": ["EC2:*", "iam:Pass*"], "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": broad})
    made = iam.create_policy(PolicyName="broad", PolicyDocument=document)["Policy"]
    iam.attach_role_policy(RoleName="sweepd", PolicyArn=made["Arn"])
    iam.delete_role_policy(**ROLE)
    arn = iam.get_role(RoleName="sweepd")["Role"]["Arn"]
    all_of_it = {"Action": "s3:*", "Resource": ["arn:aws:s3:::ours", "arn:aws:s3:::ours/*"]}
    own = {"Effect": "Allow", "Principal": {"AWS": arn}, **all_of_it}
    s3.put_bucket_policy(Bucket="ours", Policy=json.dumps({"Statement": [own]}))
    assert refused(written(tmp_path, "aws")) == {}
    denied = {"Effect": "Deny", "NotAction": "s3:Get*", "Resource": "arn:aws:s3:::ours/sw*"}
    iam.put_role_policy(
        **ROLE, PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [denied]})
    )
    told = refused(written(tmp_path, "aws"))["rights of head"]
    assert "s3:PutObject" in told and "GetObject" not in told and "ListBucket" not in told

    account.refused["GetInstanceProfile"] = "AccessDenied"
    answer = sweepd("doctor", "--cluster", str(written(tmp_path, "aws")), "--json", exits=0)
    [row] = [row for row in json.loads(answer.out) if row["check"] == "rights of head"]
    assert "not asked, since these credentials may not" in row["detail"]


def test_the_subnet_is_the_one_that_ray_would_choose(account: Amazon, tmp_path: Path) -> None:
    """Accounts without Amazon's default network have subnets of their own."""
    ec2 = boto3.client("ec2", "us-west-2")
    for one in ec2.describe_subnets()["Subnets"]:
        ec2.delete_subnet(SubnetId=one["SubnetId"])
    told = refused(written(tmp_path, "aws"))
    assert "No usable subnets found" in told["subnets"]
    network = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    zone = "us-west-2a"
    made = ec2.create_subnet(VpcId=network, CidrBlock="10.0.1.0/24", AvailabilityZone=zone)
    subnet = made["Subnet"]["SubnetId"]
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    account.bodies.clear()
    assert refused(written(tmp_path, "aws")) == {}
    started = [body for body in account.bodies if b"Action=RunInstances&" in body]
    [group] = [body for body in account.bodies if b"Action=CreateSecurityGroup&" in body]
    assert f"VpcId={network}".encode() in group
    assert len(started) == 2 and all(f"SubnetId={subnet}&".encode() in body for body in started)


def test_the_head_counts_nodes_of_which_ray_knows_nothing(account: Amazon, tmp_path: Path) -> None:
    """As one that boots, and one whose setup has failed."""
    head = {"cluster_name": "ours", "provider": {"type": "aws", "region": "us-west-2"}}
    HEAD_CONFIG.expanduser().write_text(json.dumps(head))
    names = {"ray-cluster-name": "ours", "ray-node-kind": "worker", "ray-user-node-type": "gpu"}
    tags = [{"Key": name, "Value": value} for name, value in names.items()]
    ec2 = boto3.client("ec2", "us-west-2")
    [image] = ec2.describe_images(Owners=["amazon"], MaxResults=5)["Images"][:1]
    started = ec2.run_instances(
        ImageId=image["ImageId"],
        InstanceType="g5.2xlarge",
        MinCount=2,
        MaxCount=2,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    ids = [one["InstanceId"] for one in started["Instances"]]
    assert nodes_and_types() == [("gpu", {}), ("gpu", {})]
    ec2.terminate_instances(InstanceIds=ids)
    assert nodes_and_types() == []


def test_the_policy_lets_the_head_pass_on_the_role_of_the_ready_file(tmp_path: Path) -> None:
    policy = json.loads((CLUSTERS / "aws-policy.json").read_text())
    allowed = {
        action: one["Resource"]
        for one in policy["Statement"]
        for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    assert allowed["iam:PassRole"] == "arn:aws:iam::*:role/sweepd"
    assert {"ec2:RunInstances", "ec2:TerminateInstances", "ec2:CreateTags"} <= allowed.keys()
    assert allowed["s3:PutObject"] == "arn:aws:s3:::my-bucket/*"
