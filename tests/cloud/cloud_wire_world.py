"""The reference path over TLS, its machines a stand-in's instances: what a kubeconfig and an account are to us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import forked
from wire_world import CONTEXT, WireWorld

from killcheck.kube import resources as r
from killcheck.standins.aws import ACCOUNT, AMI, Ec2Machines, StandIn

__all__ = ["CONTEXT", "CloudWorld"]

ALARM = f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:stop"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/fis"
#: Virtual seconds in a wall second while nobody's doing has to be told by times.
BRISK = 60.0
KILLCHECK = (sys.executable, "-c", "from killcheck.cli import main; main()")
KEYS = {"AWS_ACCESS_KEY_ID": "AKIASTANDIN000000000", "AWS_SECRET_ACCESS_KEY": "stand-in"}


class CloudWorld(WireWorld):
    """``killcheck`` is started with ``KEYS`` and asks the stand-in, by ``cloud.endpoint`` in its spec."""

    def __init__(self, folder):
        self.stand_in = StandIn()
        super().__init__(folder, speed=BRISK)
        spec = self.spec.read_text().replace("proof: [P1, P2, P4]", "proof: [P1, P2, P3, P4]")
        spec = spec.replace("held: 15m", "held: 2s")  # by the wall clock, on which killcheck lives
        assert "P3" in spec and "held: 2s" in spec  # noqa: PT018 - the reference path has changed
        self.spec.write_text(
            spec
            + f"""
cloud:
  endpoint: {self.stand_in.url}
  region: us-east-1
  cluster: dev
  account: "{ACCOUNT}"
  queue: {self.stand_in.queue_url}
  experiment: {{role: "{ROLE}", stopAlarms: ["{ALARM}"], maxTargets: 1}}
"""
        )

    def prepare(self):
        """Before anything is launched."""
        cloud, loop = self.cluster.cloud, self.cluster.loop

        def later(fn, *args):
            threading.Thread(target=loop.post, args=(fn, *args), daemon=True).start()

        cloud.machines = Ec2Machines(self.stand_in, lambda name: later(cloud.lost, name), cluster="dev")
        self.stand_in.fis.interrupt = lambda name, in_s: later(cloud.announce, name, in_s)
        self.stand_in.queue(lambda body: later(cloud.queue.send, body))

    # -- the account ---------------------------------------------------------------------------------------
    @property
    def ec2(self):
        return self.stand_in.aws().client("ec2")

    def states(self):
        """Instance id to state."""
        return {
            one["InstanceId"]: one["State"]["Name"]
            for page in self.ec2.describe_instances()["Reservations"]
            for one in page["Instances"]
        }

    def ghost(self):
        """A GPU machine of the cluster that never joined it."""
        tags = [{"Key": "kubernetes.io/cluster/dev", "Value": "owned"}]
        made = self.ec2.run_instances(
            ImageId=AMI,
            InstanceType="p4d.24xlarge",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        return made["Instances"][0]["InstanceId"]

    def consent(self):
        """Every machine may be taken."""
        self.ec2.create_tags(Resources=list(self.states()), Tags=[{"Key": "killcheck.dev/consent", "Value": "true"}])

    def withdraw(self):
        """No machine may be taken any more."""
        self.ec2.delete_tags(Resources=list(self.states()), Tags=[{"Key": "killcheck.dev/consent"}])

    def allow_experiments(self):
        """A role and an alarm for FIS."""
        trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "fis.amazonaws.com"}}]}
        self.stand_in.aws().client("iam").create_role(RoleName="fis", AssumeRolePolicyDocument=json.dumps(trust))
        watch = self.stand_in.aws().client("cloudwatch")
        watch.put_metric_alarm(
            AlarmName="stop",
            MetricName="m",
            Namespace="n",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanThreshold",
        )
        watch.set_alarm_state(AlarmName="stop", StateValue="OK", StateReason="test")

    # -- killcheck -----------------------------------------------------------------------------------------
    def drill(self, cwd, *argv, **death):
        """``killcheck drill --json`` in a child: its end, and the drill as the document has it."""
        self.cluster.loop.speed = 1.0
        over = threading.Event()
        pacing = threading.Thread(target=self._pace, args=(over,))
        pacing.start()
        answer = self.order(cwd, "drill", str(self.spec), "--on", CONTEXT, "--yes", "--json", *argv, **death)
        over.set()
        pacing.join()
        found = answer["out"].find("{")
        answer["drill"] = json.loads(answer["out"][found:])["drills"][0] if answer["code"] in (0, 1, 3) else None
        return answer

    def killed_by(self, fault, folder):
        """A drill that dies by SIGKILL in the middle of starting its experiment, which goes on."""
        self.stand_in.fis.lingers = True
        words = [
            *KILLCHECK,
            "drill",
            str(self.spec),
            "--on",
            CONTEXT,
            "--yes",
            "--under",
            fault,
            "--kubeconfig",
            str(self.kubeconfig),
        ]
        with (folder / "out").open("wb") as out:
            doomed = subprocess.Popen(words, cwd=folder, env={**os.environ, **KEYS}, stdout=out, stderr=out)
            interrupt, self.stand_in.fis.interrupt = self.stand_in.fis.interrupt, lambda name, in_s: doomed.kill()
            assert doomed.wait() == -9, (folder / "out").read_text()
        self.stand_in.fis.interrupt = interrupt

    def _pace(self, over):
        """As the wall's clock until the executor has done its work: whose it was is told by times; then briskly."""
        while not over.wait(0.1):
            with self.cluster.loop.entered():
                kube = self.cluster.kube
                asked = kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"]
                done = any(job.get("status", {}).get("succeeded") for job in kube.list(r.JOBS, "inference").items)
            if not asked and done:
                break
        self.cluster.loop.speed = BRISK

    def elsewhere(self, folder, *argv, **env):
        """``killcheck`` on another machine: another process, home, and folder; only the kubeconfig is the same."""
        folder.mkdir()
        home = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
        done = forked.killcheck(folder, *argv, "--kubeconfig", str(self.kubeconfig), env=home)
        return done.returncode, done.stdout + done.stderr

    def close(self):
        super().close()
        self.stand_in.close()
