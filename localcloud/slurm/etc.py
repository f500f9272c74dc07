"""The folder that every container's /etc is copied from."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from localcloud.slurm.images import group, passwd

NAMES = "/etc/local-cloud"
"""Where the pods of a namespace have the folder with their `hosts` file, which is replaced while they run."""

_FILES = {
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\n",
    "resolv.conf": "",
    # Keys are sshd's business; there are no passwords.
    **{
        f"pam.d/common-{kind}": f"{kind} required pam_permit.so\n"
        for kind in ("auth", "account", "password", "session")
    },
    "pam.d/common-session-noninteractive": "session required pam_permit.so\n",
    "pam.d/sshd": (
        "auth required pam_deny.so\naccount required pam_permit.so\n"
        "password required pam_deny.so\nsession required pam_permit.so\n"
    ),
}


def make(target: Path, image: Path, *, single_user: bool) -> Path:
    """Make the folder whole, in place of what was there; returns it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".etc-", dir=target.parent))
    made = draft / "etc"
    shutil.copytree(image / "etc", made, symlinks=True)
    files = {**_FILES, "passwd": passwd(single_user=single_user), "group": group(single_user=single_user)}
    for name, text in files.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).unlink(missing_ok=True)
        (made / name).write_text(text)
    (made / "shadow").write_text(
        "".join(f"{line.split(':')[0]}:*:20000:0:99999:7:::\n" for line in files["passwd"].splitlines())
    )
    example = image / "usr/share/openssh/sshd_config"
    if example.exists():
        shutil.copyfile(example, made / "ssh/sshd_config")
    (made / "hosts").unlink(missing_ok=True)
    (made / "hosts").symlink_to(f"{NAMES}/hosts")
    shutil.rmtree(target, ignore_errors=True)
    made.rename(target)
    draft.rmdir()
    return target
