package systemtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/proctest"
	"go.yaml.in/yaml/v3"
)

// chart is the directory of the Helm chart.
var chart = filepath.Join(proctest.Root, "deploy", "helm", "easel")

// renderTemplate renders the chart with additional arguments. valuesFile is the name of a values file in the chart's
// directory ci. If helm fails, renderTemplate returns helm's output and an error.
func renderTemplate(t *testing.T, valuesFile string, more ...string) (string, error) {
	t.Helper()
	args := []string{"template", "render", chart, "--kube-version", "1.34.0", "-f", filepath.Join(chart, "ci", valuesFile)}
	out, err := exec.CommandContext(t.Context(), tool(t, "helm"), append(args, more...)...).CombinedOutput()
	return string(out), err
}

// pod contains the fields of a Deployment that the tests check.
type pod struct {
	Grace   int  `yaml:"terminationGracePeriodSeconds"`
	Token   bool `yaml:"automountServiceAccountToken"`
	Volumes []struct {
		Name   string
		Secret struct {
			SecretName string `yaml:"secretName"`
		}
	}
	Containers []struct {
		Image string
		Args  []string
		Env   []struct {
			Name, Value string
			ValueFrom   any `yaml:"valueFrom"`
		}
		Ports []struct {
			Name          string
			ContainerPort string `yaml:"containerPort"`
		}
		ReadinessProbe, LivenessProbe, StartupProbe map[string]any
		SecurityContext                             struct {
			ReadOnly   bool `yaml:"readOnlyRootFilesystem"`
			Escalation bool `yaml:"allowPrivilegeEscalation"`
		} `yaml:"securityContext"`
		Lifecycle struct {
			PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
		}
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	SecurityContext struct {
		NonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
}

// mustRender renders the chart with [renderTemplate], and fails the test if helm fails. It returns the manifests, the
// kind of each manifest, and the pod of the only Deployment.
func mustRender(t *testing.T, values string, more ...string) (text string, kinds []string, made pod) {
	t.Helper()
	text, err := renderTemplate(t, values, more...)
	if err != nil {
		t.Fatal(text)
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var m struct {
			Kind string
			Spec struct{ Template struct{ Spec pod } }
		}
		var raw yaml.Node
		if decoder.Decode(&raw) != nil {
			return text, kinds, made
		}
		if err := raw.Decode(&m); err == nil && m.Kind == "Deployment" {
			made = m.Spec.Template.Spec
		} else if m.Kind == "Deployment" {
			t.Fatal(err)
		}
		kinds = append(kinds, m.Kind)
	}
}

// env returns the environment of the pod's only container. It reports a test error if a variable is set twice or has
// no plain value.
func (p pod) env(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, e := range p.Containers[0].Env {
		if _, twice := env[e.Name]; twice || e.ValueFrom != nil {
			t.Errorf("%s is set twice, or not to a plain value", e.Name)
		}
		env[e.Name] = e.Value
	}
	return env
}

func TestHelmChartCreatesExpectedResources(t *testing.T) {
	for values, want := range map[string][]string{
		"least.yaml": {"NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "Service", "Service", "Deployment"},
		"all.yaml":   {"NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "Service", "Service", "Deployment", "HorizontalPodAutoscaler", "PodMonitor"},
	} {
		_, kinds, made := mustRender(t, values)
		slices.Sort(kinds)
		if slices.Sort(want); !slices.Equal(kinds, want) {
			t.Errorf("%s renders the kinds %v, want %v", values, kinds, want)
		}
		c := made.Containers[0]
		if made.Token != (values == "all.yaml") || !made.SecurityContext.NonRoot || !c.SecurityContext.ReadOnly || c.SecurityContext.Escalation || !slices.Equal(c.Args, []string{"serve"}) {
			t.Errorf("%s renders a pod that has too many rights or does not serve: %+v", values, made)
		}
	}
}

func TestAPodOfTheChartHasTimeToDrain(t *testing.T) {
	for _, values := range []string{"least.yaml", "all.yaml"} {
		_, _, made := mustRender(t, values)
		drain := proctest.Find(t, `^(\d+)s$`, made.env(t)["EASEL_DRAIN_TIMEOUT"])
		sleep := made.Containers[0].Lifecycle.PreStop.Sleep.Seconds
		var seconds int
		if err := json.Unmarshal([]byte(drain), &seconds); err != nil || sleep == 0 || made.Grace < sleep+seconds+1 {
			t.Errorf("%s: a preStop sleep of %d s and a drain of %s s do not fit into the grace period of %d s", values, sleep, drain, made.Grace)
		}
	}
}

func TestHelmChartPortsMatchSettings(t *testing.T) {
	ports := map[string]string{"grpc": port(t, "EASEL_GRPC_ADDR"), "http": port(t, "EASEL_HTTP_ADDR"), "metrics": "9465"}
	settings := map[string]string{"grpc": "EASEL_GRPC_ADDR", "http": "EASEL_HTTP_ADDR", "metrics": "EASEL_METRICS_ADDR"}
	for _, values := range []string{"least.yaml", "all.yaml"} {
		text, _, made := mustRender(t, values)
		env := made.env(t)
		if len(made.Containers[0].Ports) != len(ports) {
			t.Errorf("%s: the container has the ports %v, want 3 ports", values, made.Containers[0].Ports)
		}
		for _, p := range made.Containers[0].Ports {
			if p.ContainerPort != ports[p.Name] || env[settings[p.Name]] != ":"+p.ContainerPort {
				t.Errorf("%s: port %+v, listen address %q, default port %s", values, p, env[settings[p.Name]], ports[p.Name])
			}
		}
		// All probes must be HTTP probes of the metrics port, because callers could use up all connections to the other
		// ports. None may be a gRPC probe, because gRPC has a different port.
		const probe, other = "httpGet: {path: /", "grpc: {port"
		if strings.Count(text, probe) != 3 || strings.Contains(text, other) {
			t.Errorf("%s has probes other than %q", values, probe)
		}
	}
}

func TestChartPodMountsSecretFilesReadOnly(t *testing.T) {
	_, _, made := mustRender(t, "all.yaml")
	known, mounts := settings(t, "serve"), map[string]string{}
	for _, m := range made.Containers[0].VolumeMounts {
		if !m.ReadOnly {
			t.Errorf("%s can be written to", m.MountPath)
		}
		mounts[m.MountPath] = m.Name
	}
	files := 0
	for name, value := range made.env(t) {
		if strings.HasPrefix(name, "EASEL_") && !slices.Contains(known, name) {
			t.Errorf("%s is not a setting of easel serve", name)
		}
		if strings.HasSuffix(name, "FILE") || name == "PGSSLROOTCERT" {
			files++
			if mounts[filepath.Dir(value)] == "" {
				t.Errorf("%s is %s, but no volume is mounted there", name, value)
			}
		}
	}
	if files != 8 || len(made.Volumes) != 6 || len(mounts) != 6 {
		t.Errorf("got %d files, %d mounts and %d volumes, want 8, 6 and 6", files, len(mounts), len(made.Volumes))
	}
}

// TestChartPodNeedsNoSecretExceptSharedAPIKey covers pods whose callers have tokens from issuers and whose database has no
// password. Such a pod needs only the secret with the shared API key, or no secret if there is no shared API key.
func TestChartPodNeedsNoSecretExceptSharedAPIKey(t *testing.T) {
	const held = "upstream.keySecret.name=catalog,callers.configMap.name=callers,ledger.url=postgres://easel@db:5432/easel,settings.EASEL_ALLOW_PLAINTEXT=true"
	for set, want := range map[string][]string{"image.tag=v1": nil, held: {"catalog"}} {
		var secrets []string
		text, _, made := mustRender(t, "least.yaml", "--set-string", set)
		for _, volume := range made.Volumes {
			if volume.Secret.SecretName != "" {
				secrets = append(secrets, volume.Secret.SecretName)
			}
		}
		if !slices.Equal(secrets, want) || strings.Contains(text, "secretKeyRef") || strings.Contains(text, "secretRef") || strings.Contains(text, "kind: Secret") {
			t.Errorf("--set %s: the pod has the secrets %v, want only %v:\n%s", set, secrets, want, text)
		}
		if file := made.env(t)["EASEL_CALLERS_FILE"]; len(want) > 0 && file != "/etc/easel/callers/callers.yaml" {
			t.Errorf("the callers file is %q", file)
		}
	}
}

// TestChartConfiguresBucketOrVolumeForResultCopies checks the pod's settings and volumes for each place that can store
// copies: a bucket with access keys, a bucket with the pod's role, and a volume.
func TestChartConfiguresBucketOrVolumeForResultCopies(t *testing.T) {
	const keys, egress = "/etc/easel/content/credentials", "cidr: 198.51.100.0/24"
	for set, want := range map[string]struct{ url, keys, directory string }{
		"image.tag=v1":                    {"s3://results/easel?region=eu-central-1", keys, filepath.Dir(keys)},
		"content.credentialsSecret.name=": {"s3://results/easel?region=eu-central-1", "", ""},
		"content.url=,content.credentialsSecret.name=,content.volumeClaim=c": {"file:/var/lib/easel/content", "", "/var/lib/easel/content"},
	} {
		text, _, made := mustRender(t, "all.yaml", "--set", set)
		env, directory := made.env(t), ""
		for _, m := range made.Containers[0].VolumeMounts {
			if strings.HasSuffix(m.MountPath, "/content") {
				directory = m.MountPath
			}
			if m.ReadOnly == (m.Name == "copies") {
				t.Errorf("--set %s: the mount has the wrong readOnly value: %+v", set, m)
			}
		}
		if env["EASEL_CONTENT_URL"] != want.url || env["AWS_SHARED_CREDENTIALS_FILE"] != want.keys || directory != want.directory {
			t.Errorf("--set %s: got store %s, credentials file %q, mounted directory %q", set, env["EASEL_CONTENT_URL"], env["AWS_SHARED_CREDENTIALS_FILE"], directory)
		}
		if claimed := strings.Contains(text, "persistentVolumeClaim: {claimName: c}"); claimed == strings.HasPrefix(want.url, "s3:") {
			t.Errorf("--set %s: a volume is claimed: %v", set, claimed)
		}
		if strings.Contains(text, egress) != strings.HasPrefix(want.url, "s3:") {
			t.Errorf("--set %s: the network policy contains %q: %v", set, egress, strings.Contains(text, egress))
		}
	}
}

func TestHelmAndKubernetesAcceptChart(t *testing.T) {
	kubecheck := tool(t, "kubecheck")
	for _, values := range []string{"least.yaml", "all.yaml"} {
		proctest.Run(t, exec.CommandContext(t.Context(), tool(t, "helm"), "lint", chart, "--strict", "--quiet", "-f", filepath.Join(chart, "ci", values)))
		text, _, _ := mustRender(t, values)
		check := exec.CommandContext(t.Context(), kubecheck)
		check.Stdin = strings.NewReader(text)
		proctest.Run(t, check)
	}
}

func TestChartRejectsInvalidOrConflictingValues(t *testing.T) {
	for set, why := range map[string]string{
		"upstream.url=":                                  "/upstream/url",
		"upstream.url=https://me@c":                      "/upstream/url",
		"upstream.keySecret.name=key":                    "select the callers",
		"callers.secret.name=callers":                    "callers use their own keys",
		"callers.configMap.name=callers":                 "callers use their own keys",
		"callers.secret.name=a,callers.configMap.name=b": "one of them has the callers file",
		"upstream.keySecret.name=k,callers.secret.name=c,ledger.url=postgres://easel@db/easel": "tokens would travel in the clear",
		"upstream.keySecret.name=k,callers.secret.name=c":                                      "needs ledger.url",
		"ledger.url=postgres://easel:secret@db:5432/easel":                                     "/ledger/url",
		"ledger.url=sqlite:/ledger.db":                                                         "/ledger/url",
		"ledger.passwordSecret.name=ledger":                                                    "need ledger.url",
		"content.url=s3://results":                                                             "content needs upstream.keySecret and ledger.url",
		"content.volumeClaim=copies,ledger.url=postgres://easel@db/easel":                      "content needs upstream.keySecret and ledger.url",
		"content.volumeClaim=copies,content.url=s3://results":                                  "one of them has the copies",
		"content.credentialsSecret.name=bucket":                                                "needs content.url",
		"content.url=file:/copies":                                                             "/content/url",
		"content.url=s3://me:secret@results":                                                   "/content/url",
		"settings.EASEL_CONTENT_URL=s3://results":                                              "EASEL_POLL_RATE",
		"callers.allowAnonymous=true":                                                          "callers use their own keys",
		"tls.clientCA=true":                                                                    "needs tls.secretName",
		"tls.clientAuth=require":                                                               "needs tls.clientCA",
		"tls.clientAuth=never":                                                                 "/tls/clientAuth",
		"replicas=2":                                                                           "more than one replica needs ledger.url",
		"autoscaling.enabled=true":                                                             "more than one replica needs ledger.url",
		"settings.EASEL_NOPE=1":                                                                "EASEL_POLL_RATE",
		"settings.EASEL_UPSTREAM_URL=x":                                                        "EASEL_POLL_RATE",
		"telemetry.EASEL_POLL_RATE=1":                                                          "/telemetry",
		"replica=3":                                                                            "replica",
		"shutdown.drainSeconds=0":                                                              "/shutdown/drainSeconds",
		"podDisruptionBudget.maxUnavailable=0":                                                 "/podDisruptionBudget/maxUnavailable",
		"autoscaling.enabled=true,autoscaling.minReplicas=11":                                  "minReplicas is above",
	} {
		if text, err := renderTemplate(t, "least.yaml", "--set", set); err == nil || !strings.Contains(text, why) {
			t.Errorf("--set %s: got %v, want an error with %q:\n%s", set, err, why, text)
		}
	}
}

func TestChartSchemaCoversEverySettingAndValue(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			PropertyNames struct{ Enum []string }
			Properties    map[string]any
		}
	}
	if err := json.Unmarshal([]byte(proctest.Read(t, "deploy", "helm", "easel", "values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`EASEL_[A-Z_]*[A-Z]`).FindAllString(proctest.Read(t, "deploy", "helm", "easel", "templates", "_pod.tpl"), -1)
	free := schema.Properties["settings"].PropertyNames.Enum
	for _, name := range settings(t, "serve") {
		if slices.Contains(own, name) == slices.Contains(free, name) {
			t.Errorf("%s must be either set by the chart's templates or allowed in settings, and not both", name)
		}
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(proctest.Read(t, "deploy", "helm", "easel", "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	for name, value := range values {
		known, ok := schema.Properties[name]
		if !ok {
			t.Errorf("the schema lacks %s", name)
		}
		inner, _ := value.(map[string]any)
		for part := range inner {
			if _, ok := known.Properties[part]; !ok && len(known.Properties) > 0 {
				t.Errorf("the schema lacks %s.%s", name, part)
			}
		}
	}
	for name := range schema.Properties {
		if _, ok := values[name]; !ok && name != "global" {
			t.Errorf("values.yaml lacks %s", name)
		}
	}
}
