package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/record"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) envCmd() *cobra.Command {
	o := record.Options{Version: version}
	flags := recordFlags{Options: &o}
	var share record.SharedOptions
	var install, asJSON, k8s, docker, unguarded bool
	var image, volume string
	c := &cobra.Command{
		Use:   "env DIR [flags]",
		Short: "print the variables that make a program record",
		Long: "Prints the variables that a script, a pod or a container must set for its programs to be recorded. `acltrace collect DIR` writes the trace, in " +
			"another container or as another user.\n\n" +
			"--install makes the session in DIR first. The libraries in DIR/shim and DIR/sim must stay there while a program may start another one.\n\n" +
			"The flags of `acltrace record` select the recorded data. `acltrace collect` reads them from DIR.",
		Example: "eval \"$(acltrace env --install /dev/shm/job --ring 64M)\"\n" +
			"acltrace env --k8s /acltrace --payload none",
		Args: arguments(1, "the folder of a session"),
		RunE: func(c *cobra.Command, args []string) error {
			if !install {
				if err := storedFlags(c, args[0]); err != nil {
					return err
				}
			}
			if err := flags.parse(c, ""); err != nil {
				return err
			}
			if c.Flags().Changed("image") && !k8s {
				return usage("--image needs --k8s")
			}
			if c.Flags().Changed("volume") && !docker {
				return usage("--volume needs --docker")
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			given := givenFlags(c.Flags())
			given["api"] = o.Model.Name // the collector may run on another machine
			share.Audit, share.Flags = o.Capture.Bind == "audit", given
			if install {
				if err := record.Install(dir, &o, &share); err != nil {
					return fmt.Errorf("%s: %w", dir, inFlags(err))
				}
			}
			vars := record.Environment(dir, &o)
			switch {
			case asJSON:
				return a.printJSON(&envResult{dir, vars, given})
			case k8s:
				fmt.Fprint(a.raw, podYAML(dir, image, given, &share, vars))
			case docker:
				fmt.Fprintln(a.raw, dockerArguments(volume, dir, vars))
			default:
				fmt.Fprint(a.raw, shellExports(vars))
			}
			return nil
		},
	}
	flags.add(c)
	flags.program(c)
	f := c.Flags()
	noGuard(f, &unguarded)
	f.BoolVar(&install, "install", false, "make the session in DIR")
	f.BoolVar(&share.AnyUser, "any-user", false, "with --install: record programs of all users")
	explain(f, "any-user", "Any user may then read what the programs of others record. By default, programs of the user and the group of DIR are recorded.")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&k8s, "k8s", false, "print additions to a Kubernetes pod")
	f.BoolVar(&docker, "docker", false, "print arguments for docker run")
	f.StringVar(&image, "image", "acltrace:latest", "`IMAGE`: with --k8s: image")
	f.StringVar(&volume, "volume", "acltrace", "`NAME`: with --docker: volume")
	explain(f, "volume", "A volume, or a folder of the host, that is mounted as DIR.")
	exclusive(c, "json", "k8s", "docker")
	return c
}

// givenFlags returns the flags of record that were given.
func givenFlags(f *pflag.FlagSet) map[string]string {
	given := map[string]string{}
	own := []string{"install", "json", "k8s", "docker", "image", "volume", "any-user"}
	f.Visit(func(f *pflag.Flag) {
		if !slices.Contains(own, f.Name) {
			given[f.Name] = strings.Trim(f.Value.String(), "[]")
		}
	})
	return given
}

// dockerArguments returns the volume and the variables for docker run.
func dockerArguments(volume, dir string, vars []record.Variable) string {
	s := fmt.Sprintf("-v %s:%s", shell.Quote(volume), shell.Quote(dir))
	for _, v := range vars {
		s += " -e " + shell.Quote(v.Name+"="+v.Value)
	}
	return s
}

// shellExports returns the variables for a shell. Lists keep what they have.
func shellExports(vars []record.Variable) (s string) {
	for _, v := range vars {
		rest := ""
		if v.List {
			rest = fmt.Sprintf(`"${%s:+:$%s}"`, v.Name, v.Name)
		}
		s += fmt.Sprintf("export %s=%s%s\n", v.Name, shell.Quote(v.Value), rest)
	}
	return s
}

// envResult is the output as JSON.
type envResult struct {
	Session   string            `json:"session"`   // folder of the session
	Variables []record.Variable `json:"variables"` // variables that a program needs
	Flags     map[string]string `json:"flags"`     // flags of record, without --
}

// podYAML returns the additions to a pod's spec. JSON strings are valid YAML.
func podYAML(dir, image string, flags map[string]string, share *record.SharedOptions, vars []record.Variable) string {
	text := func(v any) string {
		b, _ := json.Marshal(v)
		return string(b)
	}
	command := []string{"acltrace", "env", "--install", dir}
	if share.AnyUser {
		command = append(command, "--any-user")
	}
	for _, name := range sortedKeys(flags) {
		if name != "output" {
			command = append(command, "--"+name+"="+flags[name])
		}
	}
	output := flags["output"]
	if output == "" {
		output = "/traces/%h.aclt"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Add this to the pod's spec.
securityContext:
  fsGroup: 2000 # a group of all containers, which owns the volumes
volumes:
- name: acltrace
  emptyDir: {medium: Memory, sizeLimit: 2Gi}
- name: traces # or a volume that outlives the pod
  emptyDir: {}
initContainers:
- name: acltrace-install
  image: %[1]s
  command: %[2]s
  volumeMounts:
  - {name: acltrace, mountPath: %[3]s}
- name: acltrace # a sidecar: it starts before the job and ends after it (Kubernetes 1.29)
  image: %[1]s
  restartPolicy: Always
  command: %[4]s
  resources:
    requests: {cpu: 100m, memory: 256Mi}
    limits: {memory: 1Gi}
  volumeMounts:
  - {name: acltrace, mountPath: %[3]s}
  - {name: traces, mountPath: /traces}
containers:
- name: job # the container with the program: add this
  env:
`, text(image), text(command), text(dir), text([]string{"acltrace", "collect", dir, "-o", output}))
	for _, v := range vars {
		fmt.Fprintf(&b, "  - {name: %s, value: %s}\n", v.Name, text(v.Value))
	}
	fmt.Fprintf(&b, "  volumeMounts:\n  - {name: acltrace, mountPath: %s}\n", text(dir))
	return b.String()
}
