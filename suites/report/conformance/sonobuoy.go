package conformance

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// SonobuoyResults is where a Sonobuoy plugin leaves its results, and where the
// worker beside it waits for the file "done" (sonobuoy, pkg/plugin: ResultsDir;
// pkg/worker: GatherResults).
const SonobuoyResults = "/tmp/sonobuoy/results"

type plugin struct {
	Config pluginConfig `json:"sonobuoy-config"`
	Spec   pluginSpec   `json:"spec"`
}

type pluginConfig struct {
	Driver string   `json:"driver"`
	Name   string   `json:"plugin-name"`
	Format string   `json:"result-format"`
	Files  []string `json:"result-files"`
}

type pluginSpec struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
	Mounts  []mount  `json:"volumeMounts"`
}

type mount struct {
	Name string `json:"name"`
	Path string `json:"mountPath"`
}

// Plugin is the definition that `sonobuoy run --plugin FILE` takes: one pod with
// the image (its own entry point, if no command is given), whose program ends with
// WriteDone. Of the results Sonobuoy reads junit.xml alone; without that list it
// would take every .xml among the evidence for one.
func Plugin(image string, command ...string) (string, error) {
	b, err := yaml.Marshal(plugin{
		Config: pluginConfig{Driver: "Job", Name: "plumbline", Format: "junit", Files: []string{JUnitFile}},
		Spec:   pluginSpec{Name: "plugin", Image: image, Command: command, Mounts: []mount{{"results", SonobuoyResults}}},
	})
	if err != nil {
		return "", fmt.Errorf("render the Sonobuoy plugin for %s: %w", image, err)
	}
	return string(b), nil
}
