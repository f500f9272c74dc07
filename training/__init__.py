"""The reference training job: an sbatch script and a PyTorch trainer that survive the loss of nodes.

* `job.sbatch`    the batch script: it starts one `launch` on each node, and asks `requeue` what becomes of the job
* `launch`        torchrun on one node: rendezvous, one process per GPU, settings of NCCL
* `train`         the trainer; the only module, with `model` and `saving`, that needs PyTorch before it is run
* `options`       its options
* `data`          which samples a rank gets in a step, and the seeds: functions of (seed, step, rank)
* `checkpoints`   the files of checkpoints: names, manifest, which are whole, which are pruned
* `saving`        saves and loads them with torch.distributed.checkpoint
* `schedule`      the learning rate of a step; `shape` the size of the model
* `records`       what a run writes down: one line for each step and event
* `signals`       SIGTERM, also when the trainer is blocked
* `rendezvous`    where the processes of a job meet
* `nccl`          settings of NCCL for a VM type, from `vm_types.json`
* `requeue`       whether and when a job that ended runs again, and `blame` without which nodes
* `report`        tells Slurm how far the job is, beside the ranks; `progress` is what it tells, as text
* `slurm`         the few questions that the batch script asks Slurm; `codes` exit codes
* `preflight`     what can be said before a job is submitted; `cost` what failures cost it

It needs Python 3.11 and PyTorch 2.6 or newer with NumPy, and nothing else of this project: copy the folder.
"""
