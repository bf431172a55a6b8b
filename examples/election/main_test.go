package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/coordcell/coord"
)

func TestEachCandidateLeadsInItsTurn(t *testing.T) {
	var out bytes.Buffer
	cfg := coord.Config{InMemory: true, Listen: "127.0.0.1:0", Expect: 1}
	names := []string{"alpha", "beta", "gamma"}
	if err := run(t.Context(), &out, cfg, names, 2, 0); err != nil {
		t.Fatal(err)
	}
	var highest uint64
	for line := range strings.Lines(out.String()) {
		if line == "nobody leads\n" {
			continue
		}
		var name string
		var epoch uint64
		if _, err := fmt.Sscanf(line, "%s leads, epoch %d\n", &name, &epoch); err != nil || epoch <= highest {
			t.Errorf("line %q (%v) after epoch %d", line, err, highest)
		}
		highest = epoch
	}
	if highest == 0 {
		t.Errorf("nobody led:\n%s", out.String())
	}
}
