# All targets need Go and make, and the Go module proxy for the first build. Targets for the stubs
# of other languages also need Python 3.11, Node 20 and a JDK 17 with Maven. The race detector also
# needs a C compiler.
#
# `make help` lists the targets that have a ## comment.

GO      ?= go
PYTHON  ?= python3
# Packages outside the modules of go.work are built without go.work.
ALONE_GO = GOWORK=off $(GO)
TOOL     = $(ALONE_GO) tool -modfile=internal/tools/go.mod
# Tools that read our packages are built without go.work, but run with it.
built    = "$$($(ALONE_GO) tool -n -modfile=$(1) $(2))"
LINT     = $(call built,internal/tools/lint/go.mod,golangci-lint)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
# Version of the packages for other languages: from a tag such as v1.2.3 or v1.2.3-rc.1, otherwise 0.0.0.
# Source files contain 0.0.0, and stamp,FILES,VERSION replaces it.
PACKAGE_VERSION = $(or $(shell echo '$(VERSION)' | sed -nE 's/^v([0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?)$$/\1/p'),0.0.0)
# The same version in the form of Python, such as 1.2.3rc1.
PYTHON_VERSION = $(subst -alpha.,a,$(subst -beta.,b,$(subst -rc.,rc,$(PACKAGE_VERSION))))
stamp = for file in $(1); do sed 's/\([">]\)0\.0\.0\(["<]\)/\1$(2)\2/' $$file > $$file.new && mv $$file.new $$file || exit; done
# Commit that `make check` compares the contract and the prose with.
BASE    ?= main
# Simulated time of `make simulate` in hours, and its first seed.
HOURS   ?= 10000
SEED    ?= 1
comma    = ,
# Languages whose examples `make test-clients` runs. rust is supported too, but takes minutes to build.
LANGUAGES ?= python typescript java

.DEFAULT_GOAL := help
.PHONY: help build grpcurl demo run test test-race test-system test-clients test-attacks test-replicas test-content test-postgres torture simulate simulate-bugs one-order bench bench-counts bench-schedule \
  check lint prose tidy licences page-licences breaking vulnerabilities reproducible generate version packages image fmt clean \
  screenshots package-python package-typescript package-java client-python client-python-oldest client-python-newest client-typescript client-java client-rust

# need COMMAND,PURPOSE,PACKAGE fails with a one-line message if a command is missing.
need = command -v $(1) >/dev/null || { echo "$(1) is not on this machine, and $(2) need it: install $(3) or newer" >&2; exit 1; }

help: ## Show this help
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)'

build: ## Build bin/easel
	@mkdir -p bin
	$(BUILD) -o bin/easel ./cmd/easel

grpcurl: ## Build bin/grpcurl, which calls gRPC by reflection
	@mkdir -p bin
	$(ALONE_GO) build -C internal/tools -o '$(CURDIR)/bin/grpcurl' github.com/fullstorydev/grpcurl/cmd/grpcurl

demo: build ## Run a complete example with an embedded sandbox, and paint a picture
	bin/easel demo

run: build ## Run the facade on its fixed ports with an embedded sandbox
	bin/easel dev

# Packages whose tests need other programs or take minutes. make test-system runs SYSTEM, and make test-attacks runs siege.
SYSTEM  = ./internal/systemtest ./internal/clients ./internal/torture ./internal/simulation
NIGHTLY = ./internal/siege ./internal/bench

# Debian does not install PostgreSQL in the PATH.
POSTGRES = command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
  echo "SKIP: PostgreSQL is not installed, so no test runs on it" >&2

# The tests that prove a guarantee of the README fail without PostgreSQL. They would otherwise be skipped.
NEED_POSTGRES = command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
  { echo "PostgreSQL is not installed, and this test needs it: install the package postgresql" >&2; exit 1; }

# Without this variable no test runs on PostgreSQL.
test-race test-system test-replicas test-content torture: export EASEL_TEST_POSTGRES = default

test: ## Test all packages, the contract over gRPC and REST, the ledger on SQLite and clients/go, with Go only (2 minutes)
	@$(GO) test $(TESTING) $(PACKAGES)

# Attacks measure the latency of another caller, which is meaningless with the race detector. So only make test runs them.
test-race: ## Test the same with the race detector, and on PostgreSQL if it is installed (8 minutes)
	@[ '$(shell $(GO) env CGO_ENABLED)' = 1 ] || { echo 'the race detector needs a C compiler: install gcc' >&2; exit 1; }
	@$(POSTGRES)
	@$(call raced,$(GO) test -race $(UNRACED) -skip '^TestAttack' $(TESTING) $(PACKAGES))

# raced,COMMAND runs tests with the race detector. In tests with virtual time, the detector sometimes crashes: an internal check
# fails, or there is a signal outside of Go (github.com/golang/go/issues/78156). Tests can cause neither. After a crash, raced
# runs the tests once more, unless a test failed or a race was found.
raced = mkdir -p .build; echo '$(subst ','"'"',$(1))'; \
  { $(1); echo $$? >.build/race.status; } 2>&1 | tee .build/race.log; \
  if grep -Eq '^(ThreadSanitizer: CHECK failed|SIGSEGV: segmentation violation)' .build/race.log && ! grep -Eq '^ *--- FAIL|^panic: |DATA RACE' .build/race.log; then \
    echo 'the race detector crashed: running the tests once more'; $(1); \
  else exit $$(cat .build/race.status); fi

# -short skips large tests, which .ci/nightly runs. More tests run in parallel than there are processors, because most of them
# wait. Without debug information, binaries link in a third of the time. make check runs vet.
TESTING = -short -vet=off -timeout 15m -p 3 -parallel 8 -ldflags=-w
# The race detector ignores SQLite, which is translated from C: checking its memory accesses takes minutes, and would find no
# race in our code. The driver of SQLite is checked, because its unchecked copies of generic code, such as sync.Map, could
# otherwise replace ours in the linked program.
UNRACED = -gcflags='modernc.org/sqlite/lib=-race=false' -gcflags='modernc.org/libc=-race=false'

MODULE   = github.com/easel-grpc/easel
PACKAGES = $(filter-out $(patsubst ./%,$(MODULE)/%,$(SYSTEM) $(NIGHTLY)),$(shell $(GO) list ./cmd/... ./clients/go/... ./internal/...))

test-system: .build/deploy .build/validators .build/anylanguage .build/restclient .build/issuers .build/webhooks .build/s3 .build/npm test-clients ## Test real processes with PostgreSQL, nginx, Envoy, Prometheus, Chromium, the Collector, helm and other languages (10 minutes)
	@for tool in nginx promtool prometheus chromium protoc grpc_cpp_plugin; do \
	  command -v $$tool >/dev/null || echo "$$tool is not on this machine: tests that need it are skipped" >&2; \
	done
	@for library in grpc++ protobuf; do \
	  pkg-config --exists $$library 2>/dev/null || echo "the headers of $$library are not on this machine: the test of a C++ client is skipped" >&2; \
	done
	@$(POSTGRES)
	@mkdir -p .build/page
	PATH='$(CURDIR)/.build/deploy:$(CURDIR)/.build/validators/bin':"$$PATH" EASEL_PICTURES='$(CURDIR)/.build/page' \
	  $(GO) test -count=1 -timeout 15m $(filter-out ./internal/clients,$(SYSTEM)) ./internal/telemetry ./internal/content
	$(GO) test -count=1 -timeout 15m ./cmd/easel -run EveryCommandOf

# helm, the OpenTelemetry Collector with the parts that our configuration names, and a program that
# checks Kubernetes manifests.
.build/deploy: internal/tools/deploy/go.mod $(wildcard internal/tools/deploy/*/*.go)
	@rm -rf $@ $@.new && mkdir -p $@.new
	$(ALONE_GO) build -C internal/tools/deploy -trimpath -o '$(CURDIR)/$@.new' helm.sh/helm/v3/cmd/helm ./kubecheck ./otelcol
	@mv $@.new $@

.build/validators: internal/tools/openapi/requirements.txt
	@$(call need,$(PYTHON),the validators,Python 3.11)
	@rm -rf $@ && mkdir -p .build
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Library that docs/callers.md uses to read the descriptors in a language without stubs.
.build/anylanguage: internal/systemtest/testdata/package-lock.json
	@$(call need,npm,the descriptors' test,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp internal/systemtest/testdata/package.json $< $@
	npm ci --prefix $@ --ignore-scripts --silent --no-audit --no-fund
	@touch $@

# Generator and compiler of a REST client from the OpenAPI document.
.build/restclient: internal/systemtest/testdata/restclient/package-lock.json
	@$(call need,npm,the test of the REST form,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp $(<D)/package.json $(<D)/.npmrc $< $@
	npm ci --prefix $@ --ignore-scripts --silent --no-audit --no-fund
	@touch $@

# The npm for publishing. The npm on the job's machine may be older, and the job with credentials downloads nothing.
.build/npm: .ci/npm.sha512
	@$(call need,npm,publishing,Node 20)
	@rm -rf $@ && mkdir -p $@
	npm pack --silent --pack-destination $@ npm@$$(sed 's,.*/npm-\(.*\)\.tgz,\1,' $<)
	sha512sum --check --quiet $<

# An S3 server, for copies of results.
.build/s3: internal/tools/s3/requirements.txt
	@$(call need,$(PYTHON),the S3 server,Python 3.11)
	@rm -rf $@ && mkdir -p .build
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.build/webhooks: internal/tools/webhooks/requirements.txt internal/tools/webhooks/package-lock.json
	@$(call need,$(PYTHON),the receivers of events,Python 3.11)
	@$(call need,npm,the receivers of events,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp internal/tools/webhooks/package.json internal/tools/webhooks/package-lock.json $@
	$(PYTHON) -m venv $@/python
	$@/python/bin/pip install -q --disable-pip-version-check --require-hashes -r $<
	npm ci --prefix $@ --ignore-scripts --silent --no-audit --no-fund
	@touch $@

# Issuers of callers' tokens: a part of the Kubernetes API server, and an OpenID Connect server.
.build/issuers: $(wildcard internal/tools/issuers/*/*) internal/tools/issuers/go.mod
	@$(call need,npm,the OpenID Connect server,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp internal/tools/issuers/oidc/package.json internal/tools/issuers/oidc/package-lock.json internal/tools/issuers/oidc/provider.js $@
	npm ci --prefix $@ --ignore-scripts --silent --no-audit --no-fund
	$(ALONE_GO) build -C internal/tools/issuers -o '$(CURDIR)/$@/kubeissuer' ./kubeissuer

test-clients: ## Run the example of every language, or of LANGUAGES, through kills, cuts and silence
	@# The examples are built concurrently, because a build mostly waits for a registry.
	$(MAKE) -j3 $(LANGUAGES:%=client-%)
	$(GO) test ./internal/clients -count=1 -v -timeout 10m -parallel 8 -languages $(subst $() ,$(comma),go $(LANGUAGES))
	$(GO) test ./cmd/easel -count=1 -v -timeout 5m -run EveryProgramOfTheGettingStarted

test-attacks: ## Run each attack in its documented size, and print another caller's p99 and errors, and the memory, with and without the attack (minutes)
	EASEL_TEST_ATTACKS=full $(GO) test -p 1 -count=1 -v -timeout 30m -run '^TestAttack' \
	  $$(grep -rl --include='*_test.go' '^func TestAttack' internal cmd | xargs -n 1 dirname | sort -u | sed 's,^,./,')

test-replicas: ## Kill, stop, cut off and replace real replicas with 5,000 watches, and kill three during orders of teams with events
	@$(NEED_POSTGRES)
	$(GO) test ./internal/torture -count=1 -v -run 'Replicas|TheLedgerEquals' -timeout 45m -watches 5000 -measured 1m

test-content: .build/s3 ## Copy 10,000 results through kills of Easel, a store and the catalog
	@$(NEED_POSTGRES)
	$(GO) test ./internal/torture -count=1 -v -run EachResultIsCopied -timeout 90m -results 10000 -result-rounds 2

# Tests that fail behind PgBouncer, because they depend on sessions: session limits, rejected connections, other sessions,
# database users and pg_dump.
SESSIONS = InFlight|RestoredCommand|RestoreUnderRunningServer|DatabaseSessionsSet|LocksOfHungTransaction|BytesOfAnOrder|FilteredListsUseIndexes|DatabasePassword|DatabaseStatesCause|InUseIsNotCopied|DatabaseUserMigrates

test-postgres: ## Run the tests of the ledger on PostgreSQL with ICU en-US, with serializable transactions by default, with fsync, and behind PgBouncer
	EASEL_TEST_POSTGRES=icu,serializable,fsync $(GO) test -count=1 -timeout 30m ./internal/ledger/... ./internal/orders ./internal/events ./internal/service
	EASEL_TEST_POSTGRES=pooled $(GO) test -count=1 -timeout 30m -skip '$(SESSIONS)' ./internal/ledger

torture: ## Kill the real program 1,200 times over 10,000 orders, then with a ledger and PostgreSQL too, and check the accounts (minutes)
	@$(NEED_POSTGRES)
	$(GO) test ./internal/torture -count=1 -v -run KillsAndConnectionCuts -timeout 20m \
	  -orders 10000 -kills 1000 -catalog-kills 200 -cuts 5000 -limit 18m
	$(GO) test ./internal/torture -count=1 -v -run TheLedgerEquals -timeout 25m \
	  -orders 10000 -kills 600 -catalog-kills 120 -database-kills 40 -stalls 30 -cuts 6000 -limit 20m

simulate: ## Simulate HOURS (default: 10000) of the complete stack with faults, from seed SEED (default: 1)
	@mkdir -p .build
	$(GO) test -c -o .build/simulation ./internal/simulation
	.build/simulation -test.run '^TestSimulate$$' -test.timeout 0 -hours $(HOURS) -from $(SEED)

simulate-bugs: ## Add each seeded bug to the source, and check that the simulation catches it
	$(GO) test ./internal/simulation -count=1 -v -run 'SeededBugs|TheBugs' -bugs -timeout 60m

one-order: ## Count our files and functions that one CreateGeneration uses
	$(GO) test ./cmd/easel -count=1 -v -run OneOrderRuns -one-order

bench: build .build/bench ## Compare easel with a facade made of stock parts (ten minutes); bench-counts measures only counts (a minute)
	.build/bench

bench-counts: build .build/bench
	.build/bench -counts

bench-%: build .build/bench
	.build/bench $*

# Number of polls that the learned schedule needs, compared with a fixed interval and with a schedule that knows the
# distribution of the durations.
bench-schedule:
	$(GO) test -count=1 -v -run ALearnedScheduleCosts ./internal/watch/schedule

.PHONY: .build/bench
.build/bench:
	$(GO) build -o $@ ./internal/bench

check: lint prose tidy licences breaking vulnerabilities reproducible ## Vet, lint, check prose and known vulnerabilities, compare the contract with BASE (default: main) and two builds

tidy:
	@for module in internal/tools internal/tools/deploy internal/tools/issuers internal/tools/lint; do $(ALONE_GO) mod tidy -C $$module -diff || exit; done
	@# Our modules require versions of each other that are not published yet.
	@mkdir -p .build
	@for module in . clients/go gen/go internal/bench; do cp $$module/go.mod .build/tidy.mod && cp $$module/go.sum .build/tidy.sum && \
	  $(GO) mod edit -replace=$(MODULE)='$(CURDIR)' -replace=$(MODULE)/gen/go='$(CURDIR)/gen/go' -replace=$(MODULE)/clients/go='$(CURDIR)/clients/go' .build/tidy.mod && \
	  $(ALONE_GO) mod tidy -C $$module -modfile='$(CURDIR)/.build/tidy.mod' -diff || exit; done

# The archives of a release contain THIRD_PARTY_LICENSES. A linked module without a recognized license is an error.
licences:
	@mkdir -p .build
	$(GO) run internal/tools/licences/*.go program .build/THIRD_PARTY_LICENSES

page-licences: .build/tools/page ## Write the licences of the API page's script, after a change of its version
	$(GO) run internal/tools/licences/*.go page internal/rest/page/notice.txt

# If the database of vulnerabilities is unavailable, the check is skipped.
vulnerabilities:
	@mkdir -p .build
	@$(call built,internal/tools/go.mod,govulncheck) ./... > .build/vulnerabilities.txt 2>&1 && tail -1 .build/vulnerabilities.txt || \
	  if grep '^govulncheck: fetching vulnerabilities' .build/vulnerabilities.txt; then echo 'The database of vulnerabilities does not answer: NOT checked.'; \
	  else cat .build/vulnerabilities.txt; exit 1; fi

# The second build is in another directory, with its own cache.
reproducible: build
	@rm -rf .build/again && mkdir -p .build/again
	@git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C .build/again
	cd .build/again && GOCACHE='$(CURDIR)/.build/again-cache' $(BUILD) -o ../again.bin ./cmd/easel
	cmp bin/easel .build/again.bin
	@rm -rf .build/again .build/again.bin

lint: .build/protodeps
	$(GO) vet ./... ./clients/go/... ./internal/bench
	$(LINT) run --allow-parallel-runners ./... ./clients/go/... ./internal/bench
	$(TOOL) buf lint

# Checks the comments, messages and pages that differ from BASE.
prose:
	$(ALONE_GO) test -C internal/tools ./prosecheck
	$(ALONE_GO) run -C internal/tools ./prosecheck '$(CURDIR)' '$(BASE)'

breaking: .build/protodeps
	@if git rev-parse -q --verify '$(BASE)^{commit}' >/dev/null; then \
	  rm -rf .build/base && mkdir -p .build/base && \
	  git archive '$(BASE)' buf.yaml proto | tar -x -C .build/base && \
	  mkdir -p .build/base/.build && cp -R .build/protodeps .build/base/.build/ && \
	  $(TOOL) buf breaking --against .build/base; \
	else echo "no commit $(BASE) to compare with: set BASE"; exit 1; fi

generate: .build/protodeps .build/tools ## Generate gen/ from proto/
	$(TOOL) buf generate
	@# Files without a service need no gRPC stubs.
	@grep -L Stub gen/python/src/easel_grpc/v1/*_pb2_grpc.py* | xargs rm -f
	@# The details of errors are messages of google.rpc, for which only TypeScript has no common package.
	$(TOOL) buf generate --template internal/tools/node/buf.gen.errors.yaml .build/protodeps --path .build/protodeps/google/rpc/error_details.proto
	$(TOOL) buf build --path proto/easel --as-file-descriptor-set -o .build/full.binpb
	$(TOOL) buf generate --template internal/tools/stubs/buf.gen.yaml
	$(TOOL) buf format -w gen/proto
	$(ALONE_GO) run -C internal/tools ./openapi '$(CURDIR)/.build/full.binpb' '$(CURDIR)/.build/openapi/easel.swagger.json' '$(CURDIR)/gen/openapi/easel.openapi.json'
	$(ALONE_GO) run -C internal/tools ./contract '$(CURDIR)/.build/full.binpb' '$(CURDIR)/clients/reasons.json' '$(CURDIR)/docs/contract.md' '$(CURDIR)/docs/errors.md'
	@# The last line is removed, because it would make a browser request a missing file. The script is compressed
	@# again only after a change, because a different gzip may produce different bytes.
	@sed '$$ { /^\/\/# sourceMappingURL=/d; }' .build/tools/page/node_modules/@scalar/api-reference/dist/browser/standalone.js > .build/scalar.js
	@gzip -dc internal/rest/page/scalar.js.gz | cmp -s - .build/scalar.js || gzip -9nc .build/scalar.js > internal/rest/page/scalar.js.gz

screenshots: ## Write the pictures of the console and the command line into docs/images (needs Chromium)
	@$(call need,chromium,screenshots,Chromium)
	@$(call need,script,the recording,util-linux)
	EASEL_SCREENSHOTS='$(CURDIR)/docs/images' $(GO) test -count=1 ./internal/systemtest -run 'ConsoleScreenshots|CommandLineRecording'

image: ## Build the container image easel:VERSION (needs Docker)
	docker build -f deploy/Dockerfile --build-arg VERSION='$(VERSION)' --build-arg REVISION='$(REVISION)' -t 'easel:$(VERSION)' .

version: ## Set VERSION, such as v1.2.3, in the modules and the chart: the commit before a release
	@mkdir -p .build
	@echo '$(VERSION)' | grep -qE '^v[01]\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$$' || { echo 'set VERSION=v1.2.3' >&2; exit 1; }
	@for file in go.mod clients/go/go.mod internal/bench/go.mod go.work deploy/helm/easel/Chart.yaml; do \
	  sed -E 's,($(MODULE)(/[a-z]+/go)? )v[0-9][^ ]*,\1$(VERSION),; s,^version: .*,version: $(VERSION:v%=%),; s,^appVersion: .*,appVersion: $(VERSION),' \
	    $$file > .build/version && cat .build/version > $$file || exit; done

packages: JAVA_PROFILE = -Prelease
packages: package-python package-typescript package-java ## Build the stubs' wheel, npm package and Maven artifact into .build/packages
	cp gen/easel.binpb .build/packages

package-python: .build/tools/python
	@rm -rf .build/stage/python .build/packages/*.whl && mkdir -p .build/packages .build/stage/python
	cp -R gen/python/src clients/python/pyproject.toml clients/python/setup.py clients/python/README.md clients/python/src LICENSE NOTICE .build/stage/python
	@$(call stamp,.build/stage/python/src/easel_grpc/connection.py,$(PYTHON_VERSION))
	.build/tools/python/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w .build/packages .build/stage/python

# The helper is compiled with the dependencies of the example.
package-typescript: .build/clients/typescript
	@rm -rf .build/stage/typescript .build/packages/*.tgz && mkdir -p .build/packages .build/stage/typescript
	cp -R gen/typescript/src clients/typescript/package.json clients/typescript/README.md clients/typescript/tsconfig.json LICENSE NOTICE .build/stage/typescript
	cp clients/typescript/src/*.ts .build/stage/typescript/src
	@$(call stamp,.build/stage/typescript/package.json .build/stage/typescript/src/connection.ts,$(PACKAGE_VERSION))
	ln -s ../../clients/typescript/node_modules .build/stage/typescript/node_modules
	.build/clients/typescript/node_modules/.bin/tsc -p .build/stage/typescript
	@cd clients/typescript/src && rm $$(printf '$(CURDIR)/.build/stage/typescript/src/%s ' *.ts)
	npm pack --silent --pack-destination .build/packages ./.build/stage/typescript

package-java:
	@$(call need,mvn,the Java stubs,a JDK 17 with Maven 3.8)
	@rm -rf .build/stage/java .build/packages/*.jar && mkdir -p .build/packages .build/stage/java
	cp -R clients/java/pom.xml clients/java/src .build/stage/java
	@$(call stamp,.build/stage/java/pom.xml,$(PACKAGE_VERSION))
	mvn -B -q -ntp -f .build/stage/java -Drepository.root='$(CURDIR)' -Dmaven.test.skip $(JAVA_PROFILE) install
	cp .build/stage/java/target/*.jar .build/packages

client-python: package-python .build/clients/python
	@# The dependencies of the wheel and of its extras are installed already, so nothing is downloaded.
	.build/clients/python/bin/pip uninstall -q -y --disable-pip-version-check easel-grpc
	.build/clients/python/bin/pip install -q --disable-pip-version-check --no-index "$$(echo .build/packages/*.whl)[types]"
	.build/clients/python/bin/mypy --strict --cache-dir .build/mypy clients/python/example clients/python/tests .build/stage/python/src/easel_grpc/[a-z]*.py
	.build/clients/python/bin/python -m unittest discover -q -s clients/python/tests

# These targets test without a lock file: with the oldest libraries that the package allows, and with the newest ones.
client-python-oldest: package-python
	@$(call with-libraries,$$(sed -n 's/^  "\([a-z0-9-]*\)>=\([0-9.]*\).*/\1==\2/p' clients/python/pyproject.toml))

client-python-newest: package-python
	@$(call with-libraries,)

with-libraries = rm -rf .build/clients/$@ && $(PYTHON) -m venv .build/clients/$@ && \
  .build/clients/$@/bin/pip install -q --disable-pip-version-check .build/packages/*.whl $(1) && \
  .build/clients/$@/bin/pip freeze && .build/clients/$@/bin/python -m unittest discover -q -s clients/python/tests

.build/clients/python: clients/python/example/requirements.txt
	@$(call need,python3,the Python example,Python 3.11)
	@rm -rf $@ && mkdir -p $(@D) && python3 -m venv $@
	$@/bin/pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

client-typescript: package-typescript .build/clients/typescript
	cp clients/typescript/example/render.ts clients/typescript/example/tsconfig.json .build/clients/typescript
	npm install --prefix .build/clients/typescript --no-save --silent --no-audit --no-fund .build/packages/*.tgz
	npm run --prefix .build/clients/typescript --silent build
	@rm -rf .build/clients/typescript/test
	cp -R clients/typescript/test .build/clients/typescript
	.build/clients/typescript/node_modules/.bin/tsc -p .build/clients/typescript/test
	node --test --test-reporter=dot .build/clients/typescript/test/dist/easel.test.js

.build/clients/typescript: clients/typescript/example/package.json clients/typescript/example/package-lock.json
	@$(call need,npm,the TypeScript example,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp $^ $@
	npm ci --prefix $@ --silent --no-audit --no-fund
	@touch $@

client-java: package-java
	mvn -B -q -ntp -f clients/java/example -Dstage='$(CURDIR)/.build/clients/java' -Deasel.version='$(PACKAGE_VERSION)' compile dependency:copy-dependencies
	mvn -B -q -ntp -f .build/stage/java -Drepository.root='$(CURDIR)' test

client-rust:
	@$(call need,cargo,the Rust example,Rust 1.85)
	cargo build --quiet --manifest-path clients/rust/example/Cargo.toml --target-dir .build/clients/rust

# Generators of the other languages, each from its own registry, pinned by its own lock file.
.build/tools: .build/tools/python .build/tools/node .build/tools/page

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

# Only one self-contained file of this package is used. So the lock file has none of the package's
# dependencies, and none are downloaded.
.build/tools/page: internal/tools/page/package-lock.json
	@$(call need,npm,the page,Node 20)
	@rm -rf $@ && mkdir -p $@ && cp internal/tools/page/package.json $< $@
	npm ci --prefix $@ --ignore-scripts --silent --no-audit --no-fund
	@touch $@

# The .proto files that ours import, printed from the descriptors in our Go dependencies.
.build/protodeps: internal/tools/go.mod internal/tools/protodeps/main.go
	@rm -rf $@ && mkdir -p $@
	$(ALONE_GO) run -C internal/tools ./protodeps '$(CURDIR)/$@'
	@touch $@

fmt: ## Format the code and the contract
	$(LINT) fmt ./... ./clients/go/... ./internal/bench
	$(TOOL) buf format -w proto

clean: ## Remove all build results
	rm -rf bin .build
