package conformance

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// SonobuoyResults is where a Sonobuoy plugin leaves its results, and where the
// worker beside it waits for the file "done" (sonobuoy, pkg/plugin: ResultsDir;
// pkg/worker: GatherResults).
const SonobuoyResults = "/tmp/sonobuoy/results"

type plugin struct {
	Config pluginConfig     `json:"sonobuoy-config"`
	Pod    corev1.PodSpec   `json:"podSpec"`
	Spec   corev1.Container `json:"spec"`
}

type pluginConfig struct {
	Driver string   `json:"driver"`
	Name   string   `json:"plugin-name"`
	Format string   `json:"result-format"`
	Files  []string `json:"result-files"`
}

// imageName keeps out what no image is called, such as a flag or two words. Whether
// there is such an image is the cluster's to say.
var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`) // const

// Plugin is the definition that `sonobuoy run --plugin FILE` takes: one pod that runs
// the suite of the image (fixtures/image/plumb-conformance) against its own cluster, as
// the cluster is. Further flags are the suite's. Of the results Sonobuoy reads junit.xml
// alone; without that list it would take every .xml among the evidence for one.
func Plugin(image string, flags ...string) (string, error) {
	if !imageName.MatchString(image) {
		return "", fmt.Errorf("render the Sonobuoy plugin: %q is no name of an image", image)
	}
	b, err := yaml.Marshal(plugin{
		Config: pluginConfig{Driver: "Job", Name: "plumbline", Format: "junit", Files: []string{JUnitFile}},
		Pod:    pluginPod(),
		Spec: corev1.Container{
			Name: "plugin", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"/plumbline"},
			// Where results go comes first: a flag behind it that is wrong is reported there.
			Args: append([]string{
				"conformance", "--results=" + SonobuoyResults, "--sonobuoy",
				"--cluster=existing", "--kubeconfig=in-cluster", "--dataplane=existing", "--probe-image=" + image, "--echo-image=" + image,
			}, flags...),
			SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64)}, // for its lock; the image's user is the probes'
			VolumeMounts:    []corev1.VolumeMount{{Name: "results", MountPath: SonobuoyResults}},
		},
	})
	if err != nil {
		return "", fmt.Errorf("render the Sonobuoy plugin for %s: %w", image, err)
	}
	return string(b), nil
}

// pluginPod is Sonobuoy's own (pkg/plugin/driver: defaultJobPodSpec) in the network of a
// control-plane node. The suite is also the client outside the cluster, which must be
// neither a pod nor a node under test; it tests those that are no control plane.
func pluginPod() corev1.PodSpec {
	return corev1.PodSpec{
		HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet,
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.NodeSelectorOpExists},
			}}},
		}}},
		Tolerations:        []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		ServiceAccountName: "sonobuoy-serviceaccount", RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{}, // Sonobuoy adds them; it takes no null
	}
}
