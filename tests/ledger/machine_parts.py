"""Kill paths on machines, of parts whose truth is known: what stops them, what fires that, what is beside it.

The truth is that of the cloud's own words: ``az vm stop`` leaves a machine allocated, which bills; a start after the stop
bills; cron ends a command at its first ``%``; systemd starts no shell and no unit that is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parts import OFF, ON, UNKNOWN, Scene

#: A cloud on this machine: one machine, its state in a file, in the words of each command line.
STAND_IN = """#!/bin/sh
S=/var/lib/machine/state
case "$(basename "$0") $*" in
"gcloud "*" list "*) [ "$(cat $S 2>/dev/null)" = off ] && echo '[]' || echo '[{"name":"trainer-1"}]' ;;
"gcloud "*"instances describe trainer-1"*) [ "$(cat $S 2>/dev/null)" = off ] && echo TERMINATED || echo RUNNING ;;
"gcloud "*"instances stop trainer-1"*) echo off > $S ;;
"gcloud "*"instances start trainer-1"*) echo on > $S ;;
"aws ec2 describe-instances"*) [ "$(cat $S 2>/dev/null)" = off ] && echo '[]' || echo '["i-0aa1"]' ;;
"aws ec2 stop-instances"*i-0aa1*) echo off > $S ;;
"aws ec2 terminate-instances"*i-0aa1*) echo off > $S ;;
"aws ec2 start-instances"*i-0aa1*) echo on > $S ;;
"az vm list"*) [ "$(cat $S 2>/dev/null)" = off ] && echo '[]' || echo '["trainer-1"]' ;;
"az vm deallocate"*trainer-1*) echo off > $S ;;
"az vm stop"*trainer-1*) : ;;
"az vm start"*trainer-1*) echo on > $S ;;
*) echo "ERROR: no such machine: $*" >&2; exit 1 ;;
esac
"""
START = {
    "gcloud": "gcloud compute instances start trainer-1 --zone us-central1-a",
    "aws": "aws ec2 start-instances --instance-ids i-0aa1 --region us-east-1",
    "az": "az vm start -g ml -n trainer-1",
}
#: What stops the machine, and what that comes to.
STOPS = {
    "gcloud": (OFF, "gcloud compute instances stop trainer-1 --zone us-central1-a --quiet"),
    "gcloud, another": (ON, "gcloud compute instances stop trainer-2 --zone us-central1-a --quiet || true"),
    "aws": (OFF, "aws ec2 stop-instances --instance-ids i-0aa1 --region us-east-1"),
    "aws, ended": (OFF, "aws ec2 terminate-instances --instance-ids i-0aa1 --region us-east-1"),
    "az": (OFF, "az vm deallocate -g ml -n trainer-1"),
    "az, still allocated": (ON, "az vm stop -g ml -n trainer-1"),
    "at the weekend alone": (
        ON,
        'if [ "$(date +%u)" -ge 6 ]; then gcloud compute instances stop trainer-1 --zone us-central1-a; fi',
    ),
}


def _scripted(scene: Scene, line: str) -> None:
    scene.files["opt/gpu/off.sh"] = f"#!/bin/bash\nset -eu\n{line}\n"


def timer(scene: Scene, line: str) -> None:
    """A timer, its service, and a script."""
    _scripted(scene, line)
    _units(scene, "gpu-off", "/opt/gpu/off.sh", "*-*-* 22:00:00")


def _units(scene: Scene, name: str, program: str, when: str) -> None:
    at = "etc/systemd/system"
    scene.files[f"{at}/{name}.timer"] = f"[Timer]\nOnCalendar={when}\n[Install]\nWantedBy=timers.target\n"
    scene.files[f"{at}/{name}.service"] = f"[Service]\nType=oneshot\nExecStart={program}\n"


def timer_that_is_over(scene: Scene, line: str) -> None:
    """Its only day has passed."""
    timer(scene, line)
    _units(scene, "gpu-off", "/opt/gpu/off.sh", "2020-01-01 22:00:00")
    scene.truths["switch"] = ON


def timer_of_a_strange_day(scene: Scene, line: str) -> None:
    """The last of each month (``~``), which no cron says: whether it fires that night nobody here knows."""
    timer(scene, line)
    _units(scene, "gpu-off", "/opt/gpu/off.sh", "*-*~01 22:00:00")
    scene.truths["switch"] = UNKNOWN


def timer_with_seconds(scene: Scene, line: str) -> None:
    """As good as any."""
    timer(scene, line)
    _units(scene, "gpu-off", "/opt/gpu/off.sh", "*-*-* 22:00:30")


def timer_of_another_script(scene: Scene, line: str) -> None:
    """What it starts is not there."""
    timer(scene, line)
    _units(scene, "gpu-off", "/opt/gpu/gpu-off.sh", "*-*-* 22:00:00")
    scene.truths["switch"] = ON


def crontab(scene: Scene, line: str) -> None:
    """As ``crontab -l`` prints it: no user."""
    _scripted(scene, line)
    scene.files["crontab"] = "0 22 * * * /opt/gpu/off.sh\n"


def cron_d(scene: Scene, line: str) -> None:
    """With a user."""
    _scripted(scene, line)
    scene.files["etc/cron.d/gpu"] = "PATH=/usr/bin:/bin:/usr/local/bin\n0 22 * * * root /opt/gpu/off.sh\n"


def cron_with_a_percent(scene: Scene, line: str) -> None:
    """The shell is given what stands before it: an unclosed quote, which it refuses (crontab(5))."""
    _scripted(scene, line)
    scene.files["etc/cron.d/gpu"] = '0 22 * * * root echo "$(date +%F)" >> /tmp/log; /opt/gpu/off.sh\n'
    scene.truths["switch"] = ON


def cron_without_a_user(scene: Scene, line: str) -> None:
    """A system's crontab takes the first word for one, knows no such user, and passes the line by."""
    _scripted(scene, line)
    scene.files["etc/cron.d/gpu"] = "0 22 * * * /bin/sh /opt/gpu/off.sh\n"
    scene.truths["switch"] = ON


FIRES: dict[str, Callable[[Scene, str], None]] = {
    "a timer": timer,
    "a timer that is over": timer_that_is_over,
    "a timer of a strange day": timer_of_a_strange_day,
    "a timer with seconds": timer_with_seconds,
    "a timer of another script": timer_of_another_script,
    "a crontab": crontab,
    "cron.d": cron_d,
    "cron.d with a percent sign": cron_with_a_percent,
    "cron.d without a user": cron_without_a_user,
}


def morning(scene: Scene, cloud: str) -> None:
    """As it is meant."""
    _units(scene, "gpu-on", f"/usr/bin/{START[cloud]}", "*-*-* 07:00:00")


def an_hour_later(scene: Scene, cloud: str) -> None:
    """It bills for the rest of the night."""
    _units(scene, "gpu-on", f"/usr/bin/{START[cloud]}", "*-*-* 23:00:00")
    scene.truths["starter"] = ON


def at_boot(scene: Scene, cloud: str) -> None:
    """A service without a timer: it starts the machine whenever this one boots. Not that night, as far as is known."""
    at = "etc/systemd/system/wake.service"
    scene.files[at] = f"[Service]\nExecStart=/usr/bin/{START[cloud]}\n[Install]\nWantedBy=multi-user.target\n"
    scene.truths["starter"] = UNKNOWN


def what_cannot_be_read(scene: Scene, cloud: str) -> None:
    """A program of somebody's that is not here, each hour: told under the verdict."""
    _units(scene, "fleet", "/usr/local/bin/fleet-balancer --pool trainers", "hourly")


def rotation(scene: Scene, cloud: str) -> None:
    """Logs."""
    _units(scene, "logrotate", "/usr/sbin/logrotate /etc/logrotate.conf", "daily")


ALONGSIDE: dict[str, Callable[[Scene, str], None]] = {
    "nothing": lambda _scene, _cloud: None,
    "the morning": morning,
    "a start an hour later": an_hour_later,
    "a start at boot": at_boot,
    "a program that is not here": what_cannot_be_read,
    "logs": rotation,
}


@dataclass(frozen=True)
class MachineDraw:
    """One machine's folder, by the names of its parts."""

    stop: str
    fires: str
    alongside: str

    def __str__(self) -> str:
        return " / ".join([self.stop, self.fires, self.alongside])

    def scene(self) -> Scene:
        """Put together."""
        scene = Scene()
        truth, line = STOPS[self.stop]
        scene.truths["way"] = truth
        FIRES[self.fires](scene, line)
        cloud = line.replace("if [", "gcloud [").split()[0]
        ALONGSIDE[self.alongside](scene, cloud)
        for name in START:
            scene.files[f"machine/bin/{name}"] = STAND_IN
        scene.files["machine/var/lib/machine/README"] = "state\n"
        return scene


def every() -> list[MachineDraw]:
    """All of them: a few hundred."""
    return [MachineDraw(s, f, a) for s in STOPS for f in FIRES for a in ALONGSIDE]
