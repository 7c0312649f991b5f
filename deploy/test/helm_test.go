//go:build linux

package deploytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	budgets "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	security "k8s.io/pod-security-admission/api"
	admission "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const chartDir = root + "/deploy/helm/decider"

// least is what an installation must say.
const least = "{redis: {existingSecret: decider-redis}, auth: {allowAnonymous: true}}"

// everything turns all on.
const everything = `
replicaCount: 3
image: {repository: example/decider, tag: v1.2.3, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
commonLabels: {team: platform}
redis: {existingSecret: decider-redis, existingSecretKey: url, timeout: 30ms, clock: local}
auth: {existingSecret: decider-keys, existingSecretKey: keys.yaml}
tls: {existingSecret: decider-tls, clientCASecret: shop-ca, clientCAKey: shop.crt}
admin: {enabled: true}
policies:
  content: |
    version: 1
    dependencies:
      payments: {max_attempts: 2, description: "a: {{ b }}"}
log: {format: text, level: DEBUG}
extraArgs: ["--seed=11"]
extraEnv: [{name: GOGC, value: "200"}]
service: {type: NodePort, port: 8081, annotations: {a: b}}
shutdownDelay: 7s
terminationGracePeriodSeconds: 40
podAnnotations: {a: b}
podLabels: {c: d}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: spot, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: system-cluster-critical
serviceAccount: {annotations: {a: b}}
podDisruptionBudget: {maxUnavailable: 50%}
autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 9}
networkPolicy:
  enabled: true
  from: [{namespaceSelector: {matchLabels: {team: shop}}}]
  redis: {port: 6380, to: [{ipBlock: {cidr: 10.1.2.3/32}}]}
  extraEgress: [{ports: [{port: 4318, protocol: TCP}]}]
serviceMonitor: {enabled: true, labels: {release: prometheus}, tlsConfig: {insecureSkipVerify: true}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
grafanaDashboard: {enabled: true, annotations: {folder: decider}}
`

// values reads them as helm does.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render is helm template; its error is what helm would refuse.
func render(t *testing.T, text string) (files map[string]string, err error) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "retries", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values(t, text), release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// decoder takes Kubernetes' and the Prometheus operator's types, and no field
// that they do not have.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
}

// objects are the manifests of a rendered chart by kind; the test's pod apart
// under "Pod".
func objects(t *testing.T, text string) map[string]runtime.Object {
	t.Helper()
	files, err := render(t, text)
	if err != nil {
		t.Fatal(err)
	}
	decode, found := decoder(t), map[string]runtime.Object{}
	for name, content := range files {
		if path.Ext(name) == ".txt" || strings.TrimSpace(content) == "" {
			continue
		}
		object, kind, err := decode.Decode([]byte(content), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, content)
		}
		key := kind.Kind
		if kind.Kind == "ConfigMap" {
			key = strings.TrimSuffix(path.Base(name), ".yaml")
		}
		if found[key] != nil {
			t.Fatalf("two of %s", key)
		}
		found[key] = object
		if namespace := object.(meta.Object).GetNamespace(); namespace != "retries" {
			t.Errorf("%s is in the namespace %q", name, namespace)
		}
	}
	return found
}

func one[T runtime.Object](t *testing.T, all map[string]runtime.Object, key string) T {
	t.Helper()
	object, ok := all[key].(T)
	if !ok {
		t.Fatalf("no %s, but %v", key, slices.Sorted(maps.Keys(all)))
	}
	return object
}

func TestChartLints(t *testing.T) {
	for name, text := range map[string]string{"the least": least, "everything": everything} {
		for _, m := range lint.All(chartDir, values(t, text), "retries", true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// What the chart has by default, and with everything on, in the exact words of
// Kubernetes.
func TestChartDecodes(t *testing.T) {
	got := slices.Sorted(maps.Keys(objects(t, least)))
	if want := []string{"Deployment", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount"}; !slices.Equal(got, want) {
		t.Errorf("the least has %v, want %v", got, want)
	}
	got = slices.Sorted(maps.Keys(objects(t, everything)))
	want := []string{"Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "Pod", "PodDisruptionBudget", "PrometheusRule", "Service",
		"ServiceAccount", "ServiceMonitor", "dashboard", "policies"}
	if !slices.Equal(got, want) {
		t.Errorf("everything has %v, want %v", got, want)
	}
}

// A field that Kubernetes does not know would be dropped in silence.
func TestDecoderIsStrict(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Pod\nspec: {contaners: []}",
		"apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: {endpoint: []}",
		"apiVersion: v1\nkind: Pod\nspec: {hostname: a, hostname: b}",
	} {
		if object, _, err := decoder(t).Decode([]byte(text), nil, nil); err == nil {
			t.Errorf("%s\nis taken as %+v", text, object)
		}
	}
}

// Every pod of the chart is let into a namespace that enforces "restricted".
func TestChartIsRestricted(t *testing.T) {
	evaluator, err := admission.NewEvaluator(admission.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := security.LevelVersion{Level: security.LevelRestricted, Version: security.LatestVersion()}
	for name, text := range map[string]string{"the least": least, "everything": everything} {
		all := objects(t, text)
		deployed, test := one[*apps.Deployment](t, all, "Deployment").Spec.Template, one[*core.Pod](t, all, "Pod")
		for pod, spec := range map[string]*core.PodSpec{"deployment": &deployed.Spec, "test": &test.Spec} {
			for _, result := range evaluator.EvaluatePod(level, &deployed.ObjectMeta, spec) {
				if !result.Allowed {
					t.Errorf("%s, %s: %s: %s", name, pod, result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
			if c := spec.Containers[0]; c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s, %s: its file system can be written to", name, pod)
			}
			if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
				t.Errorf("%s, %s: it gets a token that it has no use for", name, pod)
			}
		}
	}
}

// What selects the replicas selects them all and nothing else.
func TestSelectors(t *testing.T) {
	all := objects(t, everything)
	deployment := one[*apps.Deployment](t, all, "Deployment")
	service := one[*core.Service](t, all, "Service")
	selectors := map[string]*meta.LabelSelector{
		"deployment":     deployment.Spec.Selector,
		"service":        {MatchLabels: service.Spec.Selector},
		"pdb":            one[*budgets.PodDisruptionBudget](t, all, "PodDisruptionBudget").Spec.Selector,
		"network policy": &one[*networking.NetworkPolicy](t, all, "NetworkPolicy").Spec.PodSelector,
	}
	for i, c := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selectors["topology "+c.TopologyKey] = deployment.Spec.Template.Spec.TopologySpreadConstraints[i].LabelSelector
	}
	for name, s := range selectors {
		selector, err := meta.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(labels.Set(deployment.Spec.Template.Labels)) {
			t.Errorf("%s: %s does not select a replica", name, selector)
		}
		if selector.Matches(labels.Set(one[*core.Pod](t, all, "Pod").Labels)) {
			t.Errorf("%s: %s takes the test's pod for a replica", name, selector)
		}
	}
	monitor := one[*monitoring.ServiceMonitor](t, all, "ServiceMonitor")
	selector, err := meta.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set(service.Labels)) {
		t.Errorf("the ServiceMonitor does not select the service (%v)", err)
	}
	if service.Labels[monitor.Spec.JobLabel] == "" {
		t.Errorf("the service has no label %s to name the job", monitor.Spec.JobLabel)
	}
	if target := one[*autoscaling.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler").Spec.ScaleTargetRef.Name; target != deployment.Name {
		t.Errorf("the autoscaler scales %s", target)
	}
	if deployment.Spec.Replicas != nil {
		t.Error("the deployment names its replicas beside the autoscaler, which each upgrade would undo")
	}
	ports := map[string]bool{}
	for _, p := range deployment.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	if at := service.Spec.Ports[0].TargetPort.StrVal; !ports[at] {
		t.Errorf("the service goes to the port %q", at)
	}
	if at := monitor.Spec.Endpoints[0].Port; at != service.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor asks the port %q", at)
	}
}

func TestDeployment(t *testing.T) {
	all := objects(t, everything)
	pod := one[*apps.Deployment](t, all, "Deployment").Spec.Template.Spec
	c := pod.Containers[0]
	if want := "example/decider:v1.2.3@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"; c.Image != want {
		t.Errorf("image %s", c.Image)
	}
	for name, probe := range map[string]*core.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet.Path != name || probe.HTTPGet.Port.StrVal != "http" || probe.HTTPGet.Scheme != core.URISchemeHTTPS {
			t.Errorf("%s is not probed: %+v", name, probe)
		}
	}
	if c.StartupProbe == nil || c.StartupProbe.HTTPGet.Path != "/livez" {
		t.Errorf("startup: %+v", c.StartupProbe)
	}
	secret := c.Env[0]
	if secret.Name != "DECIDER_REDIS_URL" || secret.Value != "" || secret.ValueFrom.SecretKeyRef.Name != "decider-redis" || secret.ValueFrom.SecretKeyRef.Key != "url" {
		t.Errorf("the URL of Redis comes from %+v", secret)
	}
	if !slices.Contains(c.Args, "--replicas=3") {
		t.Errorf("args %q", c.Args)
	}
	// Folders, or what changes in a ConfigMap or a secret would never reach the files.
	for i, want := range []struct{ name, from, flag string }{
		{"policies", "shop-decider-policies", "--policies=/etc/decider/policies/policies.yaml"},
		{"auth", "decider-keys", "--auth-file=/etc/decider/auth/keys.yaml"},
		{"tls", "decider-tls", "--tls-key=/etc/decider/tls/tls.key"},
		{"client-ca", "shop-ca", "--tls-client-ca=/etc/decider/client-ca/shop.crt"},
	} {
		mount, volume := c.VolumeMounts[i], pod.Volumes[i]
		if mount.Name != want.name || mount.SubPath != "" || !mount.ReadOnly || mount.MountPath != "/etc/decider/"+want.name || !slices.Contains(c.Args, want.flag) {
			t.Errorf("%s: %+v, args %q", want.name, mount, c.Args)
		}
		from := ""
		if volume.ConfigMap != nil {
			from = volume.ConfigMap.Name
		} else if volume.Secret != nil {
			from = volume.Secret.SecretName
		}
		if volume.Name != want.name || from != want.from {
			t.Errorf("%s is of %+v", want.name, volume)
		}
	}
	policies := one[*core.ConfigMap](t, all, "policies")
	if out := runs(t, decider, "check", write(t, "policies.yaml", policies.Data["policies.yaml"])); !strings.Contains(out, ": good, 1 rule") {
		t.Errorf("decider check: %s", out)
	}
	content := values(t, everything)["policies"].(map[string]any)["content"]
	if policies.Data["policies.yaml"] != content {
		t.Errorf("the file is %q", policies.Data["policies.yaml"])
	}
}

// An existing ConfigMap is mounted and none made; without Redis one replica
// keeps its own state.
func TestDeploymentVariants(t *testing.T) {
	all := objects(t, "{redis: {url: 'redis://redis:6379/0'}, auth: {allowAnonymous: true}, policies: {existingConfigMap: rules, key: p.yaml}}")
	pod := one[*apps.Deployment](t, all, "Deployment").Spec.Template.Spec
	if pod.Volumes[0].ConfigMap.Name != "rules" || all["policies"] != nil || !slices.Contains(pod.Containers[0].Args, "--policies=/etc/decider/policies/p.yaml") {
		t.Errorf("%+v %q", pod.Volumes, pod.Containers[0].Args)
	}
	if url := pod.Containers[0].Env[0]; url.Value != "redis://redis:6379/0" {
		t.Errorf("%+v", url)
	}
	alone := one[*apps.Deployment](t, objects(t, "{replicaCount: 1, auth: {allowAnonymous: true}}"), "Deployment").Spec.Template.Spec
	if args := alone.Containers[0].Args; !slices.Contains(args, "--store=memory") || len(alone.Containers[0].Env) != 0 || len(alone.Volumes) != 0 {
		t.Errorf("%q %+v", args, alone.Volumes)
	}
	fixed := one[*apps.Deployment](t, objects(t, least), "Deployment").Spec
	if fixed.Replicas == nil || *fixed.Replicas != 2 || !slices.Contains(fixed.Template.Spec.Containers[0].Args, "--replicas=2") {
		t.Errorf("%v replicas, %q", fixed.Replicas, fixed.Template.Spec.Containers[0].Args)
	}
	if image := fixed.Template.Spec.Containers[0].Image; image != "retrydecider/decider:0.1.0" {
		t.Errorf("image %s", image)
	}
}

// lets are values with whoever reaches the service let in.
func lets(text string) string { return "{auth: {allowAnonymous: true}, " + text + "}" }

// Private metrics are at the pod's admin port, where Prometheus asks for them, and
// not at the service.
func TestPrivateMetrics(t *testing.T) {
	all := objects(t, lets("replicaCount: 1, metrics: admin, admin: {enabled: true, address: 0.0.0.0, port: 9000}, serviceMonitor: {enabled: true}, "+
		"networkPolicy: {enabled: true, from: [{podSelector: {}}], adminFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}"))
	c := one[*apps.Deployment](t, all, "Deployment").Spec.Template.Spec.Containers[0]
	if !slices.Contains(c.Args, "--metrics=admin") || !slices.Contains(c.Args, "--admin-listen=0.0.0.0:9000") {
		t.Errorf("args %q", c.Args)
	}
	if len(c.Ports) != 2 || c.Ports[1].Name != "admin" || c.Ports[1].ContainerPort != 9000 {
		t.Errorf("ports %+v", c.Ports)
	}
	e := one[*monitoring.ServiceMonitor](t, all, "ServiceMonitor").Spec.Endpoints[0]
	if e.Port != "" || e.TargetPort == nil || e.TargetPort.StrVal != "admin" || e.Scheme == nil || *e.Scheme != "http" {
		t.Errorf("the ServiceMonitor asks %+v", e)
	}
	if ports := one[*core.Service](t, all, "Service").Spec.Ports; len(ports) != 1 || ports[0].TargetPort.StrVal != "http" {
		t.Errorf("the service has %+v", ports)
	}
	rules := one[*networking.NetworkPolicy](t, all, "NetworkPolicy").Spec.Ingress
	if len(rules) != 2 || rules[1].Ports[0].Port.StrVal != "admin" || rules[1].From[0].NamespaceSelector.MatchLabels["name"] != "monitoring" {
		t.Errorf("the network policy lets in %+v", rules)
	}
	// Without a wish the admin port is the pod's own.
	closed := one[*apps.Deployment](t, objects(t, everything), "Deployment").Spec.Template.Spec.Containers[0]
	if len(closed.Ports) != 1 || !slices.Contains(closed.Args, "--admin-listen=127.0.0.1:6060") {
		t.Errorf("%q %+v", closed.Args, closed.Ports)
	}
}

// The service is where its scheme is by default, and the notes say how it is asked.
func TestServicePortAndNotes(t *testing.T) {
	for _, test := range []struct {
		values string
		port   int32
		says   string
	}{
		{least, 80, "curl -s http://127.0.0.1:8080/v1/status"},
		{"{replicaCount: 1, auth: {existingSecret: keys}}", 80, `curl -s -H "Authorization: Bearer $DECIDER_KEY" http://127.0.0.1:8080/v1/status`},
		{"{replicaCount: 1, auth: {existingSecret: keys}, tls: {existingSecret: s}}", 443, `curl -s -k -H "Authorization: Bearer $DECIDER_KEY" https://127.0.0.1:8080/v1/status`},
		{"{replicaCount: 1, tls: {existingSecret: s, clientCASecret: ca}}", 443, "curl -s -k --cert client.crt --key client.key https://127.0.0.1:8080/v1/status"},
		{lets("replicaCount: 1, service: {port: 8081}, tls: {existingSecret: s}"), 8081, "https://shop-decider.retries:8081\n"},
	} {
		all := objects(t, test.values)
		if at := one[*core.Service](t, all, "Service").Spec.Ports[0].Port; at != test.port {
			t.Errorf("%s: port %d", test.values, at)
		}
		if asked := fmt.Sprintf("--listen=shop-decider:%d", test.port); !slices.Contains(one[*core.Pod](t, all, "Pod").Spec.Containers[0].Args, asked) {
			t.Errorf("%s: the test does not ask %s", test.values, asked)
		}
		files, err := render(t, test.values)
		if err != nil {
			t.Fatal(err)
		}
		if notes := files["decider/templates/NOTES.txt"]; !strings.Contains(notes, test.says) || !strings.Contains(notes, fmt.Sprintf(" 8080:%d &", test.port)) {
			t.Errorf("%s: %q is not in\n%s", test.values, test.says, notes)
		}
	}
}

func TestChartRefuses(t *testing.T) {
	tests := []struct{ values, says string }{
		{"{}", "set redis.existingSecret or redis.url"},
		{"{replicaCount: 1}", "auth.allowAnonymous=true if that is meant"},
		{"{replicaCount: 1, auth: {allowAnonymous: true, existingSecret: s}}", "auth.allowAnonymous contradicts"},
		{"{replicaCount: 1, tls: {clientCASecret: s}}", "tls.clientCASecret needs tls.existingSecret"},
		{"{redis: {url: 'redis://r:6379', existingSecret: s}, auth: {allowAnonymous: true}}", "contradict each other"},
		{"{policies: {content: x, existingConfigMap: rules}, redis: {url: 'redis://r:6379'}, auth: {allowAnonymous: true}}", "contradict each other"},
		{"{replicaCount: 1, autoscaling: {enabled: true}, auth: {allowAnonymous: true}}", "set redis.existingSecret or redis.url"},
		{"{redis: {existingSecret: s}, auth: {allowAnonymous: true}, networkPolicy: {enabled: true}}", "networkPolicy.redis.to"},
		{"{redis: {existingSecret: s}, auth: {allowAnonymous: true}, shutdownDelay: 25s}", "terminationGracePeriodSeconds"},
		{lets("redis: {existingSecret: s, timeout: 0s}"), "redis.timeout must be above 0"},
		{lets("redis: {existingSecret: s}, autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 2}"), "autoscaling.minReplicas must not be above"},
		{lets("redis: {existingSecret: s}, admin: {enabled: true, port: 8080}"), "admin.port must not be 8080"},
		{lets("redis: {existingSecret: s}, metrics: admin"), "metrics=admin needs admin.enabled=true"},
		{lets("redis: {existingSecret: s}, metrics: admin, admin: {enabled: true}, serviceMonitor: {enabled: true}"), "needs admin.address=0.0.0.0"},
		{lets("replicaCount: 1, metrics: admin, admin: {enabled: true, address: 0.0.0.0}, networkPolicy: {enabled: true}"), "networkPolicy.adminFrom"},
		{lets("redis: {existingSecret: s}, extraArgs: ['--metrics=admin']"), "--metrics=admin in extraArgs"},
		{lets("redis: {existingSecret: s}, extraArgs: ['--admin-listen', '0.0.0.0:6060']"), "extraArgs"},
		{lets("redis: {existingSecret: s}, extraEnv: [{name: DECIDER_METRICS, value: admin}]"), "DECIDER_METRICS in extraEnv"},
		// What follows is refused by the schema.
		{"{admin: {address: everywhere}}", "admin/address"},
		{"{metrics: secret}", "metrics"},
		{"{redis: {url: 'redis://user:secret@r:6379', existingSecret: ''}}", "redis/url"},
		{"{replicas: 3}", "replicas"},
		{"{replicaCount: two}", "replicaCount"},
		{"{image: {digest: 'md5:0'}}", "image/digest"},
		{"{image: {pullPolicy: Sometimes}}", "image/pullPolicy"},
		{"{redis: {timeout: 50}}", "redis/timeout"},
		{"{redis: {clock: sundial}}", "redis/clock"},
		{"{log: {level: LOUD}}", "log/level"},
		{"{service: {port: 0}}", "service/port"},
		{"{podDisruptionBudget: {maxUnavailable: 0}}", "podDisruptionBudget/maxUnavailable"},
		{"{extraArgs: ['serve']}", "extraArgs"},
	}
	for _, test := range tests {
		_, err := render(t, test.values)
		if err == nil {
			t.Errorf("%s is taken", test.values)
		} else if said := err.Error(); !strings.Contains(said, test.says) && !strings.Contains(said, strings.ReplaceAll(test.says, "/", ".")) {
			t.Errorf("%s: %q is not in\n%s", test.values, test.says, said)
		}
	}
}

// Whatever the defaults say, the schema knows, and the reverse.
func TestSchemaKnowsTheValues(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(readFile(t, chartDir+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var compare func(at string, schema map[string]any, value any)
	compare = func(at string, schema map[string]any, value any) {
		properties, closed := schema["properties"].(map[string]any)
		group, ok := value.(map[string]any)
		if !closed || !ok {
			return
		}
		for name := range properties {
			if _, ok := group[name]; !ok && name != "global" {
				t.Errorf("%s%s has no default", at, name)
			}
		}
		for name, v := range group {
			p, ok := properties[name].(map[string]any)
			if !ok {
				t.Errorf("%s%s is not in the schema", at, name)
				continue
			}
			compare(at+name+".", p, v)
		}
	}
	compare("", schema, values(t, readFile(t, chartDir+"/values.yaml")))
}

var flag = regexp.MustCompile(`(?m)^ +(--[a-z-]+)`)

// Every flag and variable that the chart, the compose file and the unit use is
// one of decider's own.
func TestFlagsExist(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, command := range []string{"serve", "healthcheck"} {
		known[command] = map[string]bool{}
		for _, m := range flag.FindAllStringSubmatch(runs(t, decider, command, "--help"), -1) {
			known[command][m[1]] = true
		}
	}
	uses := func(where string, args []string) {
		for _, arg := range args[1:] {
			name, _, _ := strings.Cut(arg, "=")
			if !known[args[0]][name] {
				t.Errorf("%s: decider %s has no %s", where, args[0], name)
			}
		}
	}
	for name, text := range map[string]string{"the least": least, "everything": everything, "alone": "{replicaCount: 1, auth: {allowAnonymous: true}}"} {
		all := objects(t, text)
		uses(name, one[*apps.Deployment](t, all, "Deployment").Spec.Template.Spec.Containers[0].Args)
		uses(name+", test", one[*core.Pod](t, all, "Pod").Spec.Containers[0].Args)
	}
	variable := regexp.MustCompile(`DECIDER_([A-Z_]+)(?:: |=)`)
	for _, file := range []string{"docker-compose.yml", "deploy/systemd/decider.service"} {
		for _, m := range variable.FindAllStringSubmatch(readFile(t, root+"/"+file), -1) {
			uses(file, []string{"serve", "--" + strings.ToLower(strings.ReplaceAll(m[1], "_", "-"))})
		}
	}
}

// The container as it is rendered starts, with the files of its secrets and
// ConfigMap, and the test's pod finds it well.
func TestRenderedContainerServes(t *testing.T) {
	t.Parallel()
	keys := "version: 1\nidentities:\n  shop: {keys: [\"sha256:ecdbe4a4f3869e3f4780a3f7b5bcc39097b3d59bc8631a7119446f11e729eb99\"], roles: [report]}\n"
	certificate, key := pair(t)
	for name, text := range map[string]string{"everything": everything, "alone": "{replicaCount: 1, auth: {allowAnonymous: true}}"} {
		all := objects(t, text)
		etc, listen := t.TempDir(), address(t)
		for path, file := range map[string]string{"auth/keys.yaml": keys, "tls/tls.crt": certificate, "tls/tls.key": key, "client-ca/shop.crt": certificate} {
			put(t, filepath.Join(etc, path), file)
		}
		if policies, ok := all["policies"].(*core.ConfigMap); ok {
			put(t, filepath.Join(etc, "policies", "policies.yaml"), policies.Data["policies.yaml"])
		}
		here := strings.NewReplacer("0.0.0.0:8080", listen, "/etc/decider", etc, "shop-decider:8081", listen, "shop-decider:80", listen, "127.0.0.1:6060", "127.0.0.1:0", "--store=redis", "--store=memory", "--shutdown-delay=7s", "--shutdown-delay=0s", "--shutdown-delay=5s", "--shutdown-delay=0s")
		replaced := func(args []string) (list []string) {
			for _, arg := range args {
				list = append(list, here.Replace(arg))
			}
			return list
		}
		starts(t, decider, replaced(one[*apps.Deployment](t, all, "Deployment").Spec.Template.Spec.Containers[0].Args)...)
		test := replaced(one[*core.Pod](t, all, "Pod").Spec.Containers[0].Args)
		eventually(t, func() error {
			out, err := tries(t, decider, test...)
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", name, err, out)
			}
			return err
		})
	}
}

// pair is a certificate that signs itself, and its key.
func pair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"decider"}, IsCA: true, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	bits, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bits}))
}

// The rules and the dashboard arrive as they are in deploy, templates and all.
func TestChartCarriesTheMonitoring(t *testing.T) {
	all := objects(t, everything)
	rules := one[*monitoring.PrometheusRule](t, all, "PrometheusRule")
	var want monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(readFile(t, root+"/deploy/prometheus/rules.yaml")), &want); err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(rules.Spec)
	if expected, _ := json.Marshal(want); string(got) != string(expected) {
		t.Errorf("the rules are\n%s\nwant\n%s", got, expected)
	}
	dashboard := one[*core.ConfigMap](t, all, "dashboard")
	if dashboard.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v", dashboard.Labels)
	}
	if dashboard.Data["shop-decider.json"] != readFile(t, root+"/deploy/grafana/decider.json") {
		t.Errorf("the dashboard is another: %v", slices.Sorted(maps.Keys(dashboard.Data)))
	}
	own := objects(t, `{redis: {url: "redis://r:6379"}, auth: {allowAnonymous: true}, prometheusRule: {enabled: true, groups: [{name: own, rules: [{record: a, expr: b}]}]}, grafanaDashboard: {enabled: true, json: '{"uid":"own"}'}}`)
	if groups := one[*monitoring.PrometheusRule](t, own, "PrometheusRule").Spec.Groups; len(groups) != 1 || groups[0].Name != "own" {
		t.Errorf("%+v", groups)
	}
	if data := one[*core.ConfigMap](t, own, "dashboard").Data["shop-decider.json"]; strings.TrimSpace(data) != `{"uid":"own"}` {
		t.Errorf("%q", data)
	}
}
