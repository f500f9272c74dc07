"""Slurm 26.05 and its neighbours as a folder of Debian's packages, for the daemons of the local cloud.

The folder is the `/usr` of the local cloud's Slurm pods (the line of Slurm that Slinky 1.2's images have): Debian
testing's Slurm daemons and clients, sshd, bash and the small tools, and MariaDB 10.11 of Debian 12 (slurmdbd 26.05.5
refuses Debian testing's 11.8.9; measured). Nothing is installed and no package's script runs: the packages are unpacked
into one folder, so neither root nor debootstrap is needed.

A second folder, `training`, has the same and Debian's PyTorch (for CPUs, with gloo), so that a training job can run on
the local cloud's workers. A third, `upgrade`, has an older Slurm (Debian stable's), which tests of an upgrade begin
with. Both are made when they are asked for.

* `packages`   which packages, and the pure functions that find what they depend on
* `pins`       the lock files, such as `slurm-amd64.lock`: every package file with its digest
* `archive`    mirrors, and what is trusted of them
* `unpack`     .deb files into a folder
* `python`     what installing a Python package would have done: its modules are compiled
* `root`       the order of it all; `ensure` and `folder` are the way in

`python -m tools.slurm_root` writes the lock files anew.
"""
