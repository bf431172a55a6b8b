package lint

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layer says what of our own the packages at and below dir may import. The first that fits counts. A package may always
// import what is at or below its own layer's dir.
type layer struct {
	dir string
	own []string // folders
	why string
}

func layers() []layer {
	return []layer{
		{"fsm", nil,
			"the state machine must give the same state on every server and in every version: it depends on nothing of ours"},
		{"transport", nil,
			"bytes between nodes: it knows neither what they mean nor who leads, so that either side can be replaced"},
		{"fence", nil,
			"a resource's server checks tokens without linking the rest"},
		{"internal/failstop", nil,
			"everything asks the switch, so the switch may ask nobody"},
		{"internal/lease", []string{"fsm"},
			"arithmetic of time, tested without a cell; of the state machine it knows the types"},
		{"internal/expiry", []string{"fsm"},
			"arithmetic of time, tested without a cell; of the state machine it knows the types"},
		{"internal/store", []string{"internal/failstop"},
			"the store keeps bytes: what they mean, its tests and its users must be free to change"},
		{"internal/wire", []string{"fsm"},
			"the codec encodes the state machine's types and sends nothing"},
		{"internal/lint", nil, "it reads the source, it does not run it"},
		{"internal/bench", []string{".", "fsm", "transport", "internal"},
			"it measures what programs see, in programs of its own"},
		{"internal/load", []string{".", "fence", "internal"},
			"its clients use the cell as programs do, through the public API"},
		{"internal/chaos", []string{".", "fence", "transport", "internal/history", "internal/load", "internal/raftnode", "internal/server"},
			"it is a program that uses the package; of what is inside it names an error, and the pace of a server"},
		{"internal", []string{"fsm", "transport", "fence", "internal"},
			"what the package is made of must not depend on its public face"},
		{".", []string{"fsm", "transport", "fence", "internal"},
			"the public package is on top: only programs and tests import it"},
	}
}

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range sources(t).files {
		i := slices.IndexFunc(layers(), func(l layer) bool { return l.dir == "." || within(f.dir, l.dir) })
		l := layers()[i]
		for _, imported := range imports(f) {
			dir, ours := strings.CutPrefix(imported, module+"/")
			if imported == module {
				dir, ours = ".", true
			}
			if !ours || within(dir, l.dir) || within(dir, l.own...) || f.test && allowedInTests(f.dir, dir) {
				continue
			}
			t.Errorf("%s imports %s: %s. Move the code to where both may see it, or turn the dependency round with a "+
				"small interface or function", f.path, imported, l.why)
		}
	}
}

// allowedInTests: a test may be built from parts that its package must not know.
func allowedInTests(from, imported string) bool {
	switch {
	case forTests(imported): // suites and fakes made for tests
		return true
	case within(from, "internal") && !within(from, "internal/lint"):
		return within(imported, "fsm", "transport", "fence", "internal") || within(from, "internal/bench", "internal/sim")
	}
	return false
}

// owner says which folders may import a module of others, and why no more. The first that fits counts. internal/bench
// compares us with raft alone.
type owner struct {
	module string
	dirs   []string
	why    string
}

func owners() []owner {
	return []owner{
		{"github.com/hashicorp/raft-boltdb", []string{"internal/store", "internal/bench"},
			"the store is a seam: everybody else sees its interfaces"},
		{"github.com/hashicorp/raft", []string{"internal/raftnode", "internal/store", "internal/bench"},
			"raft has holes that the wrapper mends; whoever goes round the wrapper falls into them"},
		{"github.com/hashicorp/go-hclog", []string{"internal/raftnode", "internal/store"},
			"raft's logger; the project logs with log/slog"},
		{"github.com/hashicorp/memberlist", []string{"internal/gossip"},
			"gossip only suggests; nobody else may take its word"},
		{"github.com/vmihailenco/msgpack", []string{"internal/wire"},
			"bytes that outlive a process are written and read in one place"},
		{"github.com/tidwall/btree", []string{"fsm"},
			"copy on write is safe only where values are never changed in place, which the state machine sees to"},
		{"go.etcd.io/bbolt", []string{"internal/store", "internal/bench"},
			"the store is a seam: everybody else sees its interfaces"},
		{"github.com/anishathalye/porcupine", []string{"internal/history"},
			"the checks of recorded runs: nothing that an importer links may need it"},
		{"golang.org/x/sys", []string{"transport", "internal/store", "internal/chaos"},
			"system calls are the business of the two ends, clock and disk; and of the program that sets up processes and networks"},
	}
}

func TestDependenciesHaveAnOwner(t *testing.T) {
	for _, f := range sources(t).files {
		for _, imported := range imports(f) {
			first, _, _ := strings.Cut(imported, "/")
			if !strings.Contains(first, ".") || within(imported, module) {
				continue
			}
			i := slices.IndexFunc(owners(), func(o owner) bool { return strings.HasPrefix(imported, o.module) })
			if i < 0 {
				t.Errorf("%s imports %s, a new dependency of everybody who imports this module: do without, or give it "+
					"an owner here", f.path, imported)
				continue
			}
			if o := owners()[i]; !within(f.dir, o.dirs...) {
				t.Errorf("%s imports %s, which only %s may: %s", f.path, imported, strings.Join(o.dirs, ", "), o.why)
			}
		}
	}
}

func TestProgramsDoNotLinkTesting(t *testing.T) {
	for _, f := range sources(t).files {
		if f.test || forTests(f.dir) {
			continue
		}
		for _, imported := range imports(f) {
			if within(imported, "testing") || forTests(imported) {
				t.Errorf("%s imports %s, which adds its flags and weight to every program: move the code to a _test.go "+
					"file, or to a package whose name ends in test", f.path, imported)
			}
		}
	}
}

func imports(f source) []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}
