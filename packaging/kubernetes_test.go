package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"heddle/internal/need"
	"heddle/settings"
)

// deployment has the fields of apps/v1 that the manifests use (Kubernetes API reference 1.34). A
// field that is not here, or misspelled, is an error.
type deployment struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		Replicas int            `yaml:"replicas"`
		Strategy map[string]any `yaml:"strategy"`
		Selector selector       `yaml:"selector"`
		Template struct {
			Metadata metadata `yaml:"metadata"`
			Spec     pod      `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type metadata struct {
	Name      string            `yaml:"name"`
	Namespace string            `yaml:"namespace"`
	Labels    map[string]string `yaml:"labels"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type pod struct {
	NodeSelector                  map[string]string `yaml:"nodeSelector"`
	PriorityClassName             string            `yaml:"priorityClassName"`
	AutomountServiceAccountToken  *bool             `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            *bool             `yaml:"enableServiceLinks"`
	TerminationGracePeriodSeconds int               `yaml:"terminationGracePeriodSeconds"`
	Affinity                      map[string]any    `yaml:"affinity"`
	SecurityContext               struct {
		RunAsNonRoot       bool              `yaml:"runAsNonRoot"`
		RunAsUser          int               `yaml:"runAsUser"`
		RunAsGroup         int               `yaml:"runAsGroup"`
		FSGroup            int               `yaml:"fsGroup"`
		SupplementalGroups []int             `yaml:"supplementalGroups"`
		SeccompProfile     map[string]string `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container      `yaml:"containers"`
	Volumes    []map[string]any `yaml:"volumes"`
}

type container struct {
	Name            string                         `yaml:"name"`
	Image           string                         `yaml:"image"`
	ImagePullPolicy string                         `yaml:"imagePullPolicy"`
	Args            []string                       `yaml:"args"`
	Env             []struct{ Name, Value string } `yaml:"env"`
	Resources       map[string]map[string]string   `yaml:"resources"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool               `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool                `yaml:"readOnlyRootFilesystem"`
		Capabilities             map[string][]string `yaml:"capabilities"`
	} `yaml:"securityContext"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	StartupProbe   *probe `yaml:"startupProbe"`
	ReadinessProbe *probe `yaml:"readinessProbe"`
	VolumeMounts   []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	Exec             struct{ Command []string } `yaml:"exec"`
	PeriodSeconds    int                        `yaml:"periodSeconds"`
	TimeoutSeconds   int                        `yaml:"timeoutSeconds"`
	FailureThreshold int                        `yaml:"failureThreshold"`
}

func readDeployment(t *testing.T, b []byte) *deployment {
	t.Helper()
	d := &deployment{}
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(d); err != nil {
		t.Fatal(err)
	}
	if d.APIVersion != "apps/v1" || d.Kind != "Deployment" || d.Spec.Template.Metadata.Labels["app.kubernetes.io/name"] == "" {
		t.Fatalf("%+v", d)
	}
	return d
}

// checkPod: the pod has what the policy "restricted" asks for, its settings exist, and what it
// mounts is there.
func checkPod(t *testing.T, p *pod) {
	t.Helper()
	s := &p.SecurityContext
	if !s.RunAsNonRoot || s.RunAsUser == 0 || s.FSGroup != s.RunAsUser || s.SeccompProfile["type"] != "RuntimeDefault" || len(p.NodeSelector) == 0 || len(p.Containers) != 1 {
		t.Fatalf("%+v", p)
	}
	if p.EnableServiceLinks == nil || *p.EnableServiceLinks || p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		t.Error("variables of services, or a token for the cluster's API, come into the pod")
	}
	c := &p.Containers[0]
	if e := c.SecurityContext.AllowPrivilegeEscalation; e == nil || *e || !c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities["drop"], []string{"ALL"}) {
		t.Errorf("%+v", c.SecurityContext)
	}
	for _, e := range c.Env {
		checkVariable(t, e.Name+"="+e.Value)
	}
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v["name"].(string)] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	if n := c.LivenessProbe; n == nil || n.PeriodSeconds*n.FailureThreshold > 10 {
		t.Error("a manager that stands still is noticed after more than 10 s")
	}
	for _, n := range []*probe{c.LivenessProbe, c.StartupProbe, c.ReadinessProbe} {
		if n == nil || !slices.Contains(n.Exec.Command, "health") {
			t.Errorf("%+v", n)
		}
	}
}

// checkVariable: HEDDLE_X=… is a setting with a value in its range, or one of the two that are none.
func checkVariable(t *testing.T, v string) {
	t.Helper()
	key, value, _ := strings.Cut(v, "=")
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, "HEDDLE_"), "_", "-"))
	if name == "config" || name == "runtime-dir" {
		return
	}
	if settings.Find(name) == nil {
		t.Errorf("%s is no setting", key)
	} else if err := settings.New().Set(name, value, key); err != nil {
		t.Error(err)
	}
}

// TestKubernetes: the Deployment is one, without privileges.
func TestKubernetes(t *testing.T) {
	b, err := os.ReadFile("../contrib/kubernetes/base/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := readDeployment(t, b)
	checkPod(t, &d.Spec.Template.Spec)
	if d.Spec.Replicas != 1 || d.Spec.Strategy["type"] != "Recreate" {
		t.Error("there may be two managers on a port")
	}
	unitVariables := unit(t, "heddle@.service")["Environment"]
	if len(unitVariables) < 4 {
		t.Errorf("%v", unitVariables)
	}
	for _, v := range unitVariables {
		checkVariable(t, v)
	}
}

// TestKustomize: kubectl builds both directories, and what comes out is what TestKubernetes wants.
func TestKustomize(t *testing.T) {
	kubectl := need.Tool(t, "kubectl")
	for dir, replicas := range map[string]int{"base": 1, "etcd": 2} {
		cmd := exec.Command(kubectl, "kustomize", filepath.Join("../contrib/kubernetes", dir))
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		var kinds []string
		for doc := range strings.SplitSeq(string(out), "\n---\n") {
			var k struct {
				Kind string `yaml:"kind"`
			}
			if err := yaml.Unmarshal([]byte(doc), &k); err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, k.Kind)
			if k.Kind != "Deployment" {
				continue
			}
			d := readDeployment(t, []byte(doc))
			checkPod(t, &d.Spec.Template.Spec)
			if d.Spec.Replicas != replicas {
				t.Errorf("%s: %d managers", dir, d.Spec.Replicas)
			}
		}
		slices.Sort(kinds)
		want := map[string]string{"base": "ConfigMap Deployment Namespace PersistentVolumeClaim", "etcd": "ConfigMap Deployment Namespace PodDisruptionBudget"}[dir]
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s: %s", dir, got)
		}
	}
}
