package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// available are the backends that this machine can run. For each of the others it prints one sentence; with install, it
// tries to install what is missing first.
func available(ctx context.Context, backends []backend, install bool, out io.Writer) (can []backend) {
	for _, b := range backends {
		missing := b.Missing()
		if missing != "" && install {
			if err := aptGet(ctx, b.packages); err != nil {
				fmt.Fprintf(out, "%s: apt-get: %v\n", b.name, err)
			}
			missing = b.Missing()
		}
		if missing != "" {
			fmt.Fprintf(out, "%s is left out: %s, or let -install do so.\n", b.name, missing)
			continue
		}
		can = append(can, b)
	}
	return can
}

// aptGet installs packages, without starting the services that they bring.
func aptGet(ctx context.Context, packages []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
