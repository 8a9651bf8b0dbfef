# Everything here needs Go and make, and the Go module proxy for the first build; what deals with
# the stubs of other languages also needs Python 3.11, Node 20 and a JDK 17 with Maven.
# The race detector also needs a C compiler; without one the tests run without it.

GO      ?= go
PYTHON  ?= python3
TOOL     = $(GO) tool -modfile=internal/tools/go.mod
LINT     = $(GO) tool -modfile=internal/tools/lint/go.mod golangci-lint
RACE    := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
# What `make breaking` compares the contract with.
BASE    ?= main
# How long `make simulate` simulates, and where it begins.
HOURS   ?= 10000
SEED    ?= 1
# How long `make fuzz` tries each target.
FUZZTIME ?= 30s
# Where a release puts the image and the chart: HOST/OWNER.
REGISTRY ?=

.DEFAULT_GOAL := help
.PHONY: help build demo run test test-attacks test-clients test-clients-rust test-openapi test-page test-prometheus test-collector test-deploy simulate simulate-bugs torture test-replicas soak fuzz bench bench-counts bench-schedule check generate notice picture image release release-image release-chart release-notes publish test-release packages package-python package-typescript package-java client-python client-typescript client-java client-rust lint breaking tidy vulnerabilities reproducible fmt clean

# need COMMAND,WHAT FOR,THE CURE ends with one line where a command is missing.
need = command -v $(1) >/dev/null || { echo "$(1) is not on this machine, and $(2) need it: install $(3) or newer" >&2; exit 1; }

help: ## Show this help
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)'

build: ## Build bin/easel
	@mkdir -p bin
	$(BUILD) -o bin/easel ./cmd/easel

demo: build ## Do the main job once over an embedded sandbox, and paint a picture
	bin/easel demo

run: build ## Keep the facade up on its fixed ports over an embedded sandbox
	bin/easel dev

test: ## Run everything that proves the project
	$(GO) test $(RACE) -timeout 15m ./...
	@# What the race detector makes too slow or meaningless runs once more without it.
	$(GO) test -run 'Large|64Megabyte' ./internal/server

test-attacks: ## Make each attack in its documented size, and print a neighbour's p99, errors and the memory beside quiet (minutes)
	EASEL_TEST_ATTACKS=full $(GO) test -p 1 -count=1 -v -timeout 30m -run '^TestAttack' \
	  $$(grep -rl --include='*_test.go' '^func TestAttack' internal cmd | xargs -n 1 dirname | sort -u | sed 's,^,./,')

test-openapi: .build/validators ## Show the REST port to a validator and to a tester that makes up requests (needs Python)
	EASEL_VALIDATORS='$(CURDIR)/.build/validators/bin' $(GO) test ./internal/systemtest -count=1 -v -timeout 5m -run 'AValidatorOfOpenAPI|WhateverTheDocument'

test-clients: ## Run the example of every language through kills, cuts and silence
	@# They are built side by side, since each waits for its registry most of the time.
	$(MAKE) -j3 client-python client-typescript client-java
	$(GO) test ./internal/clients -count=1 -v -timeout 10m -languages go,python,typescript,java
	$(GO) test ./cmd/easel -count=1 -v -timeout 5m -run EveryProgramOfTheGettingStarted

test-clients-rust: client-rust ## Likewise the example in Rust, which takes minutes to build for the first time
	$(GO) test ./internal/clients -count=1 -v -timeout 10m -languages rust

test-page: ## Open the API page and the status page in a browser, and keep pictures in .build/page (needs Chromium)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { echo "Chromium is not on this machine, and the page needs it: install chromium" >&2; exit 1; }
	@mkdir -p .build/page
	EASEL_PICTURES='$(CURDIR)/.build/page' $(GO) test ./internal/systemtest -count=1 -v -timeout 5m -run 'ThePage|TheStatusPage'

test-prometheus: ## Have Prometheus check and try the alerts, and scrape a running server (needs Prometheus)
	@$(call need,promtool,the alerts,Prometheus 2.42)
	@$(call need,prometheus,the alerts,Prometheus 2.42)
	$(GO) test ./internal/telemetry ./cmd/easel -count=1 -v -timeout 5m -run 'Prometheus|EveryAlert|EveryRule|EveryQuery'

test-collector: .build/collector ## Send the trace of a job through a real OpenTelemetry Collector, with the configuration of deploy/otel
	EASEL_COLLECTOR='$(CURDIR)/.build/collector' $(GO) test ./internal/systemtest -count=1 -v -timeout 5m -run 'TheCollectorTakes|ARealCollector'

# A module of its own, with the parts that our configuration names: a minute and a half for the first time.
.build/collector: internal/tools/collector/go.mod internal/tools/collector/main.go
	@mkdir -p .build
	$(GO) build -C internal/tools/collector -trimpath -o '$(CURDIR)/$@' .

test-deploy: .build/deploy ## Check what is below deploy/ as far as it can be without a cluster: the chart, nginx, Envoy, and the release
	@command -v nginx >/dev/null || echo 'nginx is not on this machine: deploy/nginx is NOT checked' >&2
	EASEL_HELM='$(CURDIR)/.build/deploy/helm' $(GO) test ./internal/systemtest -count=1 -v -timeout 5m -run 'Chart|Nginx|BelowDeploy|Composition|TheImageIs'
	@for values in deploy/helm/easel/ci/*.yaml; do \
	  .build/deploy/helm lint deploy/helm/easel --strict --quiet -f $$values && \
	  .build/deploy/helm template easel deploy/helm/easel --kube-version 1.34.0 -f $$values | .build/deploy/manifests || exit; \
	done
	.build/deploy/envoy deploy/envoy/envoy.yaml

# helm, and readers of what Kubernetes and Envoy take, from a module of their own.
.build/deploy: internal/tools/deploy/go.mod $(wildcard internal/tools/deploy/*/*.go)
	@rm -rf $@ && mkdir -p $@
	$(GO) build -C internal/tools/deploy -o '$(CURDIR)/$@' helm.sh/helm/v3/cmd/helm ./manifests ./envoy
	@touch $@

.build/validators: internal/tools/openapi/requirements.txt
	@rm -rf $@ && mkdir -p .build
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

simulate: ## Simulate HOURS (default: 10000) of the whole stack under faults, from seed SEED (default: 1)
	@mkdir -p .build
	$(GO) test -c -o .build/simulation ./internal/simulation
	.build/simulation -test.run '^TestSimulate$$' -test.timeout 0 -hours $(HOURS) -from $(SEED)

simulate-bugs: ## Put each seeded bug into the source, and see that the simulation catches it
	$(GO) test ./internal/simulation -count=1 -v -run 'SeededBugs|TheBugs' -bugs -timeout 60m

torture: ## Kill the real program 1,200 times over 10,000 orders, and look at the books (minutes)
	$(GO) test ./internal/torture -count=1 -v -run WhateverIsKilledAndCut -timeout 20m \
	  -orders 10000 -kills 1000 -catalog-kills 200 -cuts 5000 -limit 18m

soak: ## Open a million watches, race a million others, and time those beside stuck readers (minutes)
	EASEL_SOAK=1 $(GO) test ./internal/server ./internal/watch -count=1 -v -timeout 60m \
	  -run 'AreStuckDoNotSlow|OpenedAndCancelled|BeginsAsItsGenerationEnds'

test-replicas: ## Kill, stop, cut off and replace real replicas under 5,000 watches, and measure what replicas cost the catalog
	$(GO) test ./internal/torture -count=1 -v -run Replicas -timeout 10m -watches 5000
	$(GO) test ./internal/cluster -count=1 -v -run 'EightReplicas|AnyNetwork|OldLeader|PartitionedReplicas' -timeout 10m -generations 1000 -runs 400 -every-size

fuzz: ## Look for inputs that break something, FUZZTIME (default: 30s) for each target
	@set -e; for package in $$($(GO) list ./internal/...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$package | grep ^Fuzz || true); do \
	    echo "== $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

bench: build .build/bench ## Measure the facade beside one of stock parts (ten minutes); make bench-push measures what begins so
	.build/bench

bench-counts: build .build/bench ## Count requests, allocations and bytes of the same (a minute), and fail where a limit is missed
	.build/bench -counts

bench-%: build .build/bench
	.build/bench $*

.PHONY: .build/bench
.build/bench:
	$(GO) build -o $@ ./internal/bench

bench-schedule: ## Print what the polling schedule costs beside a fixed interval and a known distribution
	$(GO) test -count=1 -v -run ALearnedScheduleCosts ./internal/watch/schedule

check: lint tidy breaking vulnerabilities reproducible ## Vet, lint, look for known faults, compare the contract with BASE (default: main) and two builds

tidy:
	@for module in . internal/tools internal/tools/collector internal/tools/deploy internal/tools/lint internal/tools/vuln; do $(GO) mod tidy -C $$module -diff || exit; done

# Without the database there is nothing to compare with, and that is no fault of the change.
vulnerabilities:
	@mkdir -p .build
	@$(GO) tool -modfile=internal/tools/vuln/go.mod govulncheck ./... > .build/vulnerabilities.txt 2>&1 && tail -1 .build/vulnerabilities.txt || \
	  if grep '^govulncheck: fetching vulnerabilities' .build/vulnerabilities.txt; then echo 'The database of vulnerabilities does not answer: NOT checked.'; \
	  else cat .build/vulnerabilities.txt; exit 1; fi

# The other build is in another directory and takes nothing from the cache.
reproducible: build
	@rm -rf .build/again && mkdir -p .build/again
	@git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C .build/again
	cd .build/again && $(BUILD) -a -o ../again.bin ./cmd/easel
	@$(GO) run -C internal/tools ./program '$(CURDIR)/bin/easel' '$(CURDIR)/.build/again.bin'
	@rm -rf .build/again .build/again.bin

lint: .build/protodeps
	$(GO) vet ./...
	$(LINT) run --allow-parallel-runners ./...
	$(TOOL) buf lint

breaking: .build/protodeps
	@if git rev-parse -q --verify '$(BASE)^{commit}' >/dev/null; then \
	  rm -rf .build/base && mkdir -p .build/base && \
	  git archive '$(BASE)' buf.yaml proto | tar -x -C .build/base && \
	  mkdir -p .build/base/.build && cp -R .build/protodeps .build/base/.build/ && \
	  $(TOOL) buf breaking --against .build/base; \
	else echo "no commit $(BASE) to compare with: set BASE"; exit 1; fi

generate: .build/protodeps .build/tools ## Make gen/ from proto/
	$(TOOL) buf generate
	@# TypeScript alone has no ordinary package of google.rpc, whose messages tell an error's details.
	$(TOOL) buf generate --template internal/tools/node/buf.gen.errors.yaml .build/protodeps --path .build/protodeps/google/rpc/error_details.proto
	$(TOOL) buf build --path proto/easel --as-file-descriptor-set -o .build/full.binpb
	$(GO) run -C internal/tools ./stubs '$(CURDIR)/.build/full.binpb' '$(CURDIR)/proto/easel/v1/service_config.json' '$(CURDIR)/gen'
	$(GO) run -C internal/tools ./openapi '$(CURDIR)/.build/full.binpb' '$(CURDIR)/.build/openapi/easel.swagger.json' '$(CURDIR)/gen/openapi/easel.openapi.json'
	$(GO) run -C internal/tools ./embed '$(CURDIR)/gen/openapi/easel.openapi.json'
	$(GO) run -C internal/tools ./contract '$(CURDIR)/.build/full.binpb' '$(CURDIR)/docs/contract.md'
	$(GO) run -C internal/tools ./page '$(CURDIR)/.build/tools/page/node_modules/@scalar/api-reference/dist/browser/standalone.js' '$(CURDIR)/gen/scalar/scalar.js.gz'
	$(GO) run -C internal/tools ./embed '$(CURDIR)/gen/scalar/scalar.js.gz'

test-release: ## Check what a release is made by: .goreleaser.yaml, the workflows and CHANGELOG.md
	$(GORELEASER) check
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	$(GO) test ./internal/systemtest -count=1 -v -timeout 5m -run 'Release|Workflow|Changelog'

# Its module cannot be tidied together with ours, nor with the other tools: it comes with its own.
GORELEASER = $(GO) run github.com/goreleaser/goreleaser/v2@v2.16.0

image: ## Build the container image easel:VERSION (needs Docker)
	docker build -f deploy/Dockerfile --build-arg VERSION='$(VERSION)' --build-arg REVISION='$(REVISION)' -t 'easel:$(VERSION)' .

release: release-notes ## Build the binaries of the tag that is checked out into .build/release (needs syft)
	$(GORELEASER) release --clean --skip=publish --release-notes .build/notes.md

release-image: ## Build the image for both architectures with its bill of materials into .build/image
	@rm -rf .build/image && mkdir -p .build/image
	docker buildx build -f deploy/Dockerfile --platform linux/amd64,linux/arm64 --sbom=true --provenance=mode=max \
	  --build-arg VERSION='$(VERSION)' --build-arg REVISION='$(REVISION)' --output type=oci,dest=.build/image/easel.tar .

release-chart: .build/deploy ## Package the chart of VERSION into .build/chart
	@rm -rf .build/chart && mkdir -p .build/chart
	.build/deploy/helm package deploy/helm/easel --version '$(VERSION:v%=%)' --app-version '$(VERSION)' -d .build/chart

# It runs with credentials, so it builds nothing and fetches nothing.
publish: ## Draft the release of what the targets above and packages have built, and push image and chart to REGISTRY (needs gh, skopeo and helm)
	@test -n '$(REGISTRY)' || { echo 'REGISTRY is not set: it is where the image and the chart go, HOST/OWNER' >&2; exit 1; }
	gh release create '$(VERSION)' --draft --verify-tag $(if $(findstring -,$(VERSION)),--prerelease) --title '$(VERSION)' --notes-file .build/notes.md \
	  .build/release/*.tar.gz .build/release/*.sbom.json .build/release/checksums.txt .build/packages/*
	skopeo copy --all oci-archive:.build/image/easel.tar 'docker://$(REGISTRY)/easel:$(VERSION)'
	helm push '.build/chart/easel-$(VERSION:v%=%).tgz' 'oci://$(REGISTRY)/charts'

# What CHANGELOG.md says of VERSION; a version that it does not know is no release.
release-notes:
	@mkdir -p .build
	@awk -v want='$(VERSION)' '/^## / {on = $$2 == want; next} on' CHANGELOG.md > .build/notes.md
	@grep -q '[^[:space:]]' .build/notes.md || { echo 'CHANGELOG.md has no section "## $(VERSION)"' >&2; exit 1; }

picture: build ## Record a watch in a terminal, and draw docs/watch.svg of it
	$(GO) run -C internal/tools ./picture '$(CURDIR)/bin/easel' '$(CURDIR)/docs/watch.svg'

packages: package-python package-typescript package-java ## Build the stubs' wheel, npm package and Maven artifact into .build/packages
	cp gen/easel.binpb .build/packages

package-python: .build/tools/python
	@rm -rf .build/stage/python .build/packages/*.whl && mkdir -p .build/packages .build/stage
	cp -R gen/python .build/stage/python
	.build/tools/python/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w .build/packages .build/stage/python

package-typescript:
	@$(call need,npm,the TypeScript stubs,Node 20)
	@rm -f .build/packages/*.tgz && mkdir -p .build/packages
	npm pack --silent --pack-destination .build/packages ./gen/typescript

package-java:
	@$(call need,mvn,the Java stubs,a JDK 17 with Maven 3.8)
	@rm -rf .build/stage/java .build/packages/*.jar && mkdir -p .build/packages
	mvn -B -q -ntp -f gen/java -Dstage='$(CURDIR)/.build/stage/java' -DskipTests install
	cp .build/stage/java/*.jar .build/packages

client-python: package-python .build/clients/python ## Build the example in Python; client-typescript, client-java and client-rust likewise
	.build/clients/python/bin/pip install -q --disable-pip-version-check --no-deps --force-reinstall .build/packages/*.whl
	.build/clients/python/bin/mypy --strict examples/python

.build/clients/python: examples/python/requirements.txt
	@$(call need,python3,the Python example,Python 3.11)
	@rm -rf $@ && mkdir -p $(@D) && python3 -m venv $@
	$@/bin/pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

client-typescript: package-typescript .build/clients/typescript
	cp examples/typescript/render.ts examples/typescript/tsconfig.json .build/clients/typescript
	npm install --prefix .build/clients/typescript --no-save --silent --no-audit --no-fund .build/packages/*.tgz
	npm run --prefix .build/clients/typescript --silent build

.build/clients/typescript: examples/typescript/package.json examples/typescript/package-lock.json
	@$(call need,npm,the TypeScript example,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp $^ $@
	npm ci --prefix $@ --silent --no-audit --no-fund
	@touch $@

client-java: package-java
	mvn -B -q -ntp -f examples/java -Dstage='$(CURDIR)/.build/clients/java' compile dependency:copy-dependencies

client-rust:
	@$(call need,cargo,the Rust example,Rust 1.85)
	cargo build --quiet --manifest-path examples/rust/Cargo.toml --target-dir .build/clients/rust

# The generators of the other languages, each from its own registry, pinned by its own lock file.
.build/tools: .build/tools/python .build/tools/node .build/tools/page .build/tools/java

.build/tools/python: internal/tools/python/requirements.txt
	@$(call need,python3,the Python stubs,Python 3.11)
	@rm -rf $@ && python3 -m venv $@
	$@/bin/pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

.build/tools/node: internal/tools/node/package-lock.json
	@$(call need,npm,the TypeScript stubs,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp internal/tools/node/package.json $< $@
	npm ci --prefix $@ --silent --no-audit --no-fund
	@touch $@

# One file of this package is used, which carries within it all that it needs. So the lock file names
# none of the package's dependencies, and none are fetched.
.build/tools/page: internal/tools/page/package-lock.json
	@$(call need,npm,the page,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp internal/tools/page/package.json $< $@
	npm ci --prefix $@ --ignore-scripts --silent --no-audit --no-fund
	@touch $@

.build/tools/java: internal/tools/java/pom.xml
	@$(call need,mvn,the Java stubs,a JDK 17 with Maven 3.8)
	@rm -rf $@
	mvn -B -q -ntp -f $< dependency:copy -Dout='$(CURDIR)/$@'
	@chmod +x $@/*.exe && touch $@

# What the page is made of is installed for this alone.
notice: .build/tools/page ## Write the licences of what draws the page anew, where its version has changed
	@rm -rf .build/notice && mkdir -p .build/notice
	$(NOTICE)
	npm install --prefix .build/notice --ignore-scripts --legacy-peer-deps --silent --no-audit --no-fund --no-package-lock
	$(NOTICE)
	@rm -rf .build/notice

NOTICE = $(GO) run -C internal/tools ./notice '$(CURDIR)/.build/tools/page/node_modules/@scalar/api-reference' '$(CURDIR)/.build/notice' '$(CURDIR)/internal/rest/page/notice.txt'

# The .proto files that ours import, printed from the descriptors in our Go dependencies.
.build/protodeps: internal/tools/go.mod internal/tools/protodeps/main.go
	@rm -rf $@ && mkdir -p $@
	$(GO) run -C internal/tools ./protodeps '$(CURDIR)/$@'
	@touch $@

fmt: ## Format the code and the contract
	$(LINT) fmt ./...
	$(TOOL) buf format -w proto

clean: ## Remove what was built
	rm -rf bin .build
