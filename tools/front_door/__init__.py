"""The front door: what stands behind each target of the Makefile.

Every command says what it does, leaves `git status` clean, and on failure says what to do. Everything a command makes
on this machine lies in `.local`; the stack `dev` has its state, its Pulumi home and its cloud there. Any other stack is
the user's own: their backend, their passphrase and their credentials are used as they stand.
"""
