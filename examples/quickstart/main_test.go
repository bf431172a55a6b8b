package main

import (
	"bytes"
	"regexp"
	"testing"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`^token [1-9]\d* of account/1, balance 10\n$`); !want.MatchString(out.String()) {
		t.Errorf("output:\n%s", out.String())
	}
}
