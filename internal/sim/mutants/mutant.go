package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Mutant is one deliberate fault.
type Mutant struct {
	Name      string // subject/fault
	Guarantee string // the ids of those that it breaks
	Breaks    string // what no longer holds, and why that matters
	Edits     []Edit
	Kills     []Run // each is expected to fail
}

// Edit replaces a piece of a file. Old occurs in it exactly once.
type Edit struct{ File, Old, New string }

// Run is some tests of one package.
type Run struct{ Package, Tests string } // a folder; a regexp as for go test -run

// files is the text of every file that the mutant changes, by its path from root.
func (m Mutant) files(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range m.Edits {
		text, again := changed[e.File]
		if !again {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s: the text to replace occurs %d times in %s: %q", m.Name, n, e.File, e.Old)
		}
		changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

// overlay writes the changed files into dir, and returns the file for the go tool's -overlay that puts them in place.
func (m Mutant) overlay(root, dir string) (string, error) {
	changed, err := m.files(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range changed {
		to := filepath.Join(dir, fmt.Sprint(len(replace), "-", path.Base(name)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

// packages are the folders whose tests the mutant concerns: where it is, and where it is expected to be found.
func (m Mutant) packages() []string {
	var dirs []string
	seen := make(map[string]bool)
	add := func(dir string) {
		if !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	for _, k := range m.Kills {
		add(k.Package)
	}
	for _, e := range m.Edits {
		add(path.Dir(e.File))
	}
	return dirs
}
