package lint

import (
	"fmt"
	"go/ast"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guarantees is how many README lists.
const guarantees = 12

// pages are the Markdown files of the project, by their path from the module's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		found[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// testNames are the module's test functions.
func testNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, f := range sources(t).files {
		if !f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

func TestEveryGuaranteeHasATest(t *testing.T) {
	names := testNames(t)
	for n := 1; n <= guarantees; n++ {
		id := fmt.Sprintf("G%d", n)
		inTable := strings.Contains(pages(t)["README.md"], "| **"+id+"** |")
		inProofs := strings.Contains(pages(t)["docs/GUARANTEES.md"], "\n## "+id+" ")
		if !inTable || !inProofs {
			t.Errorf("%s: give it a row in README.md's table and a section in docs/GUARANTEES.md", id)
		}
		// A test of several guarantees has several ids: TestG3G5_….
		carries := regexp.MustCompile(`^Test(G\d+_?)*` + id + `_`)
		if !slices.ContainsFunc(names, carries.MatchString) {
			t.Errorf("no test is called Test%s_…: a guarantee that nothing tests is a hope", id)
		}
	}
}

// Whoever doubts a guarantee looks there for what was tried against it.
func TestProofsListTheirTests(t *testing.T) {
	ofGuarantee := regexp.MustCompile(`^Test(G\d+_?)+_?[A-Z]`)
	listed := regexp.MustCompile(`\bTest\w+`).FindAllString(pages(t)["docs/GUARANTEES.md"], -1)
	for _, name := range testNames(t) {
		if ofGuarantee.MatchString(name) && !slices.Contains(listed, name) {
			t.Errorf("docs/GUARANTEES.md does not list %s: name it under its guarantee", name)
		}
	}
}

// A page may name tests by the beginning of their names, as go test -run does.
func TestPagesNameTestsThatExist(t *testing.T) {
	names := testNames(t)
	mentioned := regexp.MustCompile(`\bTest[A-Z]\w*`)
	for page, text := range pages(t) {
		for _, name := range mentioned.FindAllString(text, -1) {
			if !slices.ContainsFunc(names, func(known string) bool { return strings.HasPrefix(known, name) }) {
				t.Errorf("%s names %s, and there is no such test: it was renamed, or removed", page, name)
			}
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	all := pages(t)
	for page, text := range all {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := page
			if target != "" {
				to = path.Join(path.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
			} else if anchor != "" && !slices.Contains(anchors(all[to]), anchor) {
				t.Errorf("%s links to %s: no heading there has this anchor", page, match[1])
			}
		}
	}
}

// anchors are the names under which the headings of a page can be linked to.
func anchors(text string) []string {
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var names []string
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			title = dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			names = append(names, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return names
}

func TestReadmeGivesBothCommands(t *testing.T) {
	lines := strings.Split(pages(t)["README.md"], "\n")
	for _, command := range []string{"go -C examples run ./scheduler", "go test ./..."} {
		if !slices.Contains(lines, command) {
			t.Errorf("README.md has no line: %s", command)
		}
	}
}

// mostLines is how long the program in README may be: a first program that takes longer to read is not read.
const mostLines = 25

// go vet type-checks a file outside of the module as a program that belongs to it.
func TestReadmesProgram(t *testing.T) {
	_, text, found := strings.Cut(pages(t)["README.md"], "```go\npackage main\n")
	program, _, closed := strings.Cut(text, "\n```\n")
	if !found || !closed {
		t.Fatal("README.md has no block of Go that begins with package main")
	}
	program = "package main\n" + program + "\n"
	if n := len(slices.DeleteFunc(strings.Split(program, "\n"), func(line string) bool { return line == "" })); n > mostLines {
		t.Errorf("the program in README.md has %d lines that are not blank: at most %d", n, mostLines)
	}
	if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
		t.Errorf("the program in README.md is not as gofmt writes it: %v", err)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	vet := exec.CommandContext(t.Context(), "go", "vet", file)
	vet.Dir = root
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("the program in README.md: %v\n%s", err, out)
	}
}
