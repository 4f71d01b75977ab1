// Package manifests holds what is checked of the manifests for Kubernetes: each field is one that its API has.
package manifests

import (
	"os"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

const indexVariable = "JOB_COMPLETION_INDEX"

func decoded(t *testing.T, text string) (batch.Job, error) {
	t.Helper()
	var job batch.Job
	err := yaml.UnmarshalStrict([]byte(text), &job)
	return job, err
}

func manifest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAgentsAreAJobWhoseIndicesHaveAnIdentityEach(t *testing.T) {
	job, err := decoded(t, manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec
	if job.APIVersion != batch.SchemeGroupVersion.String() {
		t.Errorf("%s of %s", job.Kind, job.APIVersion)
	}
	if job.Kind != "Job" || *spec.CompletionMode != batch.IndexedCompletion {
		t.Errorf("a %s, %s", job.Kind, *spec.CompletionMode)
	}
	if *spec.Completions != *spec.Parallelism {
		t.Errorf("%d of %d at once", *spec.Parallelism, *spec.Completions)
	}
	// The one that goes has gone before its index begins anew.
	if spec.PodReplacementPolicy == nil || *spec.PodReplacementPolicy != batch.Failed {
		t.Error("two pods may have one identity")
	}
	pod := spec.Template.Spec
	agent := pod.Containers[0]
	words := strings.Join(append(agent.Command, agent.Args...), " ")
	volumes := map[string]bool{}
	secret := ""
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
		if volume.Secret != nil {
			secret = volume.Name
		}
		if volume.Secret != nil && *volume.Secret.DefaultMode&0o077 != 0 {
			t.Errorf("others read %s", volume.Name)
		}
	}
	own := 0
	for _, mount := range agent.VolumeMounts {
		if !volumes[mount.Name] {
			t.Errorf("no volume %s", mount.Name)
		}
		if mount.Name != secret {
			continue
		}
		// One file of the secret, by the variable that the container has.
		if mount.SubPathExpr != "c-$("+indexVariable+").json" {
			t.Errorf("it sees %q of the secret", mount.SubPathExpr)
		}
		if !strings.Contains(words, "agent --join "+mount.MountPath+" ") {
			t.Errorf("it runs %q", words)
		}
		own++
	}
	if own != 1 {
		t.Errorf("the secret is mounted %d times", own)
	}
	index := ""
	for _, variable := range agent.Env {
		if variable.Name == indexVariable {
			index = variable.ValueFrom.FieldRef.FieldPath
		}
	}
	if !strings.Contains(index, batch.JobCompletionIndexAnnotation) {
		t.Errorf("%s is %q", indexVariable, index)
	}
	for name, selected := range pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels {
		if spec.Template.Labels[name] != selected {
			t.Errorf("its pods have no label %s=%s", name, selected)
		}
	}
}

func TestAFieldThatTheAPIHasNotIsRefused(t *testing.T) {
	for _, wrong := range []string{"completionMod: Indexed", "completions: many"} {
		text := strings.Replace(manifest(t), "completionMode: Indexed", wrong, 1)
		if _, err := decoded(t, text); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
