"""The console: pages at `/console/` that show the local cloud to a person, and break a GPU when one asks for it.

Everything is read: the state file, and what a watch of each cluster keeps in memory. A page is whole as the server
sends it and needs no script; one script of this folder replaces what has changed, so that nobody has to reload.

* `sights`    what was seen last of each cluster, and whether anybody wants to know
* `reading`   objects of Kubernetes and Slurm in, the few facts that are shown out: pure
* `changes`   two sights in, what a person would call news out: pure
* `looking`   the actor that looks, while a page is open or a repair goes on
* `gathering` what the state file has
* `roles`     who holds which GPUs, and what a node's state is called: pure
* `repairs`   a repair as steps in time: pure
* `views`     all of these in, what a template prints out: pure
* `guard`     who may ask: this machine's browsers, and forms of these pages
* `deeds`     what a form does
* `app`       the pages

It is for a machine of one's own: whoever can reach the loopback address can read it, and use its forms.
"""
