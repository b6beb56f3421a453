"""A sweep on instances that Ray's launcher asks EC2 for. moto plays EC2 and hands out the addresses
of machines that exist already. Workers come when trials wait, and go when they are idle. The
results are on S3, in a region that only the bucket tells. Covers `cluster/leaving.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from e2e.conftest import Running
from machines.conftest import Amazon
from shell import Shell
from waiting import wait_until

CLUSTER = """
kind: aws
after: keep
results: s3://mine/sweeps
prices: {head: 0.5, worker: 0.25}
ray:
  cluster_name: cloudy
  max_workers: 1
  idle_timeout_minutes: 0.2
  provider: {type: aws, region: us-west-2, use_internal_ips: true}
  auth: {ssh_user: root, ssh_private_key: /mnt/key}
  head_node_type: head
  available_node_types:
    head:
      resources: {CPU: 0}
      node_config: {InstanceType: m6i.large, KeyName: mine, SubnetIds: [SUBNET], ImageId: IMAGE,
        PrivateIpAddress: 10.99.0.11}
    worker:
      min_workers: 0
      max_workers: 1
      resources: {CPU: 2}
      node_config: {InstanceType: c6i.large, KeyName: mine, SubnetIds: [SUBNET], ImageId: IMAGE,
        PrivateIpAddress: 10.99.0.12, InstanceMarketOptions: {MarketType: spot}}
  setup_commands:
    - echo 'export PATH=BIN:$PATH' >> ~/.bashrc
"""
GRID = """
name: cloudy
task: {name: lis, n: 4, value_range: 16}
model: {name: standard, d: [4, 8], layers: 1, heads: 1}
train: {steps: 200, batch_size: 8}
seeds: [0, 1]
"""


def instances(amazon: Amazon) -> dict[str, str]:
    """Private address -> state."""
    found = amazon("ec2", "describe_instances")["Reservations"]
    return {
        one.get("PrivateIpAddress", one["InstanceId"]): one["State"]["Name"]
        for reservation in found
        for one in reservation["Instances"]
    }


def test_from_no_instance_to_none(lab: Shell, amazon: Amazon, running: Running) -> None:
    vpc = amazon("ec2", "create_vpc", CidrBlock="10.99.0.0/16")["Vpc"]["VpcId"]
    subnet = amazon("ec2", "create_subnet", VpcId=vpc, CidrBlock="10.99.0.0/24")["Subnet"]
    image = amazon("ec2", "describe_images")["Images"][0]["ImageId"]
    amazon("ec2", "create_key_pair", KeyName="mine")
    text = CLUSTER.replace("SUBNET", subnet["SubnetId"]).replace("IMAGE", image)
    lab.write("aws.yaml", text.replace("BIN", str(Path(sys.executable).parent)))
    lab.write("cloudy.yaml", GRID)
    assert lab.rows("cluster", "status", "aws.yaml") == []
    assert all(row["ok"] for row in lab.rows("doctor", "--cluster", "aws.yaml"))

    # Amazon has no such machine now. The launch says so, and goes on once it has one.
    lab.run("cluster", "up", "aws.yaml", "--yes")
    lab.write("refused.json", '{"RunInstances": "InsufficientInstanceCapacity"}')
    client = running(lab.start("launch", "cloudy.yaml", "--cluster", "aws.yaml", "--yes"))
    lines = list[str]()
    assert client.stderr
    for line in client.stderr:
        lines.append(line)
        if "InsufficientInstanceCapacity" in line:
            break
    (lab.folder / "refused.json").unlink()
    told = "".join([*lines, client.communicate(timeout=400)[1]])
    assert client.returncode == 0 and "Failed to launch" in told and "2 at once" in told, told
    assert "4 of 4 trials done" in told
    assert "an hour; `sweepd cluster down aws.yaml` ends it" in told
    status = lab.run("cluster", "status", "aws.yaml")
    assert "10.99.0.11" in status.stdout and "head" in status.stdout

    idle = {"10.99.0.11": "running", "10.99.0.12": "terminated"}
    wait_until(lambda: instances(amazon) == idle, 300)
    status = lab.run("cluster", "status", "aws.yaml")
    assert "$0.50 an hour" in status.stderr and "10.99.0.12" not in status.stdout

    # Nobody follows the next sweep, and its worker does not come: moto gives no address twice. When
    # it is cancelled, the head takes down all that there is, itself at last.
    lab.write("down.yaml", (lab.folder / "aws.yaml").read_text().replace("after: keep", ""))
    lab.write("grid.yaml", GRID.replace("steps: 200", "steps: 201"))
    client = running(lab.start("launch", "grid.yaml", "--cluster", "down.yaml", "--yes"))
    assert client.stderr and any("was handed over" in line for line in client.stderr)
    client.kill()
    cancel = ("cancel", "cloudy", "--results", "s3://mine/sweeps")
    wait_until(lambda: "was cancelled" in lab.run(*cancel).stderr, 300)
    wait_until(lambda: set(instances(amazon).values()) == {"terminated"}, 300)
    assert lab.rows("cluster", "status", "aws.yaml") == []
    [row] = lab.rows("sql", "SELECT count(*) AS n FROM trials", "--results", "s3://mine/sweeps")
    assert row["n"] == 4
