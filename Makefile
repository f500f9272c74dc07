# The front door. Each target takes STACK= (default dev) and hands ARGS= on to the program behind it.
# What a target does stands in tools/front_door; here is only how it is reached.

STACK ?= dev
ARGS ?=
NAME ?=
LOCATION ?=
POOLS ?=
FROM ?= staging
TO ?= prod
TIER ?=
SCENARIO ?=
ALL ?=
CONFIRM ?=
ACTION ?=
TIMES ?=
N ?= 200
SEED ?= 1

# Sets up .venv from the lock files, then runs a module in it.
bootstrap = @python3 tools/bootstrap.py --for
stack_need = $(if $(filter dev,$(STACK)),dev,cloud)
on_stack = $(bootstrap) $(stack_need) -m tools.front_door $@ --stack '$(STACK)' -- $(ARGS)
on_files = $(bootstrap) cloud -m tools.front_door $@
on_clone = $(bootstrap) dev -m tools.front_door $@

.DEFAULT_GOAL := help
.PHONY: help up preview report deploy drift diagram operator-stack new-stack promote plan refresh outputs check autoclusters test-alert drill console down env test faults soak lint audit sbom bench policy-pack lock clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  STACK=dev (default) is the local cloud on this machine; any other stack is a real environment."
	@echo "  ARGS='...' is handed on: to pulumi, pytest or the benchmark. More in README.md."

up: ## Bring a stack up: environment, tools, local cloud, then pulumi up (outside dev it asks first)
	$(on_stack)

preview: ## Show what an up would change; changes nothing
	$(on_stack)

report: ## Preview as a report for reviewers, with a verdict (.local/reports; ARGS=--label=...)
	$(on_stack)

deploy: ## Report, and where that is safe bring the stack to exactly that (outside dev it asks, or ARGS=--yes)
	$(on_stack)

drift: ## Report what differs in the cloud from the program; changes nothing
	$(on_stack)

diagram: ## Draw what the stack declares (.local/reports)
	$(on_stack)

operator-stack: ## Write the stack's objects for the Pulumi Kubernetes Operator (ARGS='--repository URL' or '--flux NAME')
	$(on_stack)

new-stack: ## Write a stack's file from what the cloud offers now (NAME=, LOCATION=, POOLS=train=TYPE:COUNT,...)
	$(on_files) -- --name='$(NAME)' --location='$(LOCATION)' --pools='$(POOLS)' $(ARGS)

promote: ## Show how two stacks' files differ: what has to, and what probably should not (FROM=staging TO=prod)
	$(on_files) -- --from='$(FROM)' --to='$(TO)' $(ARGS)

plan: ## Print who is guaranteed what of the shared GPU pools, from the settings alone
	$(on_stack)

refresh: ## Read the real state of every resource into the stack
	$(on_stack)

outputs: ## Print the stack's outputs (ARGS=--json, ARGS=--show-secrets)
	$(on_stack)

check: ## Compare Slurm's GPUs with Kubernetes' and the catalogue's, node by node (ARGS=--json)
	$(on_stack)

autoclusters: ## Stop all automatic repairs at once, so that the next up keeps it (ACTION=off; ACTION=on ends it)
	$(on_stack) '--action=$(ACTION)'

test-alert: ## Send one alert through the stack's Alertmanager, and say for each route whether it arrived
	$(on_stack)

drill: ## Let a GPU node fail under a training job and judge the recovery (SCENARIO=name, ALL=1; docs/drill.md)
	$(on_clone) --stack '$(STACK)' -- $(ARGS) $(if $(SCENARIO),'--scenario=$(SCENARIO)') $(if $(ALL),--all) $(if $(TIMES),'--times=$(TIMES)') $(if $(CONFIRM),'--confirm=$(CONFIRM)')

console: ## Open the local cloud's pages in a browser: nodes, GPUs, jobs, repairs (docs/console.md)
	$(on_stack)

down: ## Take a stack down after a preview; stops first if anything is protected
	$(on_stack)

env: ## Print what prepares a shell: eval "$(make -s env)"
	$(on_stack)

test: ## Run the tests (TIER=unit|policy|provider|integration for one tier, TIER=long for the long ones, ARGS='-k name')
	$(on_clone) --tier '$(TIER)' -- $(ARGS)

faults: ## Try every resource kind in every operation under every fault (docs/reliability.md)
	$(on_clone) -- $(ARGS)

soak: ## Kill the CLI, the plugin and the cloud at random moments, again and again (N=200, SEED=1; docs/reliability.md)
	$(on_clone) -- '$(N)' '$(SEED)'

lint: ## Check style, types and the project's own rules
	$(on_clone)

audit: ## Look the pinned Python packages up among known vulnerabilities
	$(on_clone)

sbom: ## Write the software bill of materials as CycloneDX (ARGS=FILE, default .local/sbom.cdx.json)
	$(on_clone) -- $(ARGS)

bench: ## Measure speed and memory, each number beside its bound
	$(on_clone) -- $(ARGS)

policy-pack: ## Make the policies a folder of their own, to publish or for other programs (ARGS=FOLDER)
	$(on_clone) -- $(ARGS)

lock: ## Pin every Python package anew after a change of pyproject.toml (ARGS=--upgrade)
	$(bootstrap) dev -m tools.lock $(ARGS)

clean: ## Stop the local cloud and remove everything that runs have made here
	@if [ -x .venv/bin/python ]; then .venv/bin/python -m tools.front_door clean; \
	else python3 -B -m tools.front_door.foreign; fi
	@rm -rf .venv .local
