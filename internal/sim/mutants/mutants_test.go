package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the module's folder as seen from this one, which is where go test runs.
const root = "../../.."

// Every mutant still changes what it says, into something that parses.
func TestMutantsAreUpToDate(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range mutants() {
		if names[m.Name] || m.Name == "" {
			t.Errorf("the name %q is taken", m.Name)
		}
		names[m.Name] = true
		if m.Breaks == "" || len(m.Edits) == 0 || len(m.Kills) == 0 {
			t.Errorf("%s does not say what it breaks, where, or which tests find it", m.Name)
		}
		for _, e := range m.Edits {
			if e.Old == e.New {
				t.Errorf("%s changes nothing in %s", m.Name, e.File)
			}
		}
		changed, err := m.files(root)
		if err != nil {
			t.Errorf("%v: change the mutant along with the code", err)
			continue
		}
		for name, text := range changed {
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
}

// There is a mutant for every guarantee, and an id for every mutant.
func TestMutantsOfEveryGuarantee(t *testing.T) {
	count := make(map[string]int)
	for _, m := range mutants() {
		for id := range strings.FieldsSeq(m.Guarantee) {
			count[id]++
		}
		if m.Guarantee == "" {
			t.Errorf("%s breaks no guarantee", m.Name)
		}
	}
	for _, id := range []string{"G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "G11", "G12"} {
		if count[id] == 0 {
			t.Errorf("no mutant breaks %s", id)
		}
		delete(count, id)
	}
	for id := range count {
		t.Errorf("there is no guarantee %s", id)
	}
}

// The tests that are to kill a mutant exist.
func TestKillersExist(t *testing.T) {
	known := make(map[string][]string) // names of tests by folder
	for _, m := range mutants() {
		for _, k := range m.Kills {
			if known[k.Package] == nil {
				known[k.Package] = testsIn(t, filepath.Join(root, filepath.FromSlash(k.Package)))
			}
			for name := range strings.SplitSeq(topLevel(k.Tests), "|") {
				re, err := regexp.Compile("^(" + name + ")$")
				if err != nil {
					t.Errorf("%s: %v", m.Name, err)
					continue
				}
				found := false
				for _, test := range known[k.Package] {
					found = found || re.MatchString(test)
				}
				if !found {
					t.Errorf("%s: %s has no test %s", m.Name, k.Package, name)
				}
			}
		}
	}
}

func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// What go test says is understood.
func TestEvents(t *testing.T) {
	for name, test := range map[string]struct {
		lines string
		want  verdict
	}{
		"passes": {`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"pass","Test":"TestA"}`, verdict{ran: 1}},
		"fails in a subtest": {`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"run","Test":"TestA/b"}` + "\n" +
			`{"Action":"fail","Test":"TestA/b"}` + "\n" + `{"Action":"fail","Test":"TestA"}` + "\n" + `{"Action":"fail"}`,
			verdict{ran: 1, failed: []string{"TestA"}}},
		"hangs": {`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"output","Test":"TestA","Output":"panic: test timed out after 1s\n"}` + "\n" +
			`{"Action":"fail","Test":"TestA"}`, verdict{ran: 1, failed: []string{"TestA"}, hung: true}},
		"panics": {`{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"pass","Test":"TestA"}` + "\n" + `{"Action":"run","Test":"TestB"}` + "\n" +
			`{"Action":"fail"}`, verdict{ran: 2, failed: []string{"TestB"}}},
		"does not compile": {`{"Action":"build-output","Output":"x.go:1: bad\n"}` + "\n" + `{"Action":"build-fail"}` + "\n" + `{"Action":"fail"}`,
			verdict{broken: "x.go:1: bad\n"}},
		"no tests": {`{"Action":"pass"}`, verdict{}},
	} {
		got, err := readEvents(strings.NewReader(test.lines + "\n"))
		if err != nil || got.ran != test.want.ran || got.hung != test.want.hung || got.broken != test.want.broken ||
			strings.Join(got.failed, " ") != strings.Join(test.want.failed, " ") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
