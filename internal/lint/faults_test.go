package lint

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// faultsPage lists what users of other systems ran into, each with the test of the same name.
const faultsPage = "docs/FAULTS.md"

// A fault that is tested has a row that says where it was seen; a row that names a test says the truth. (That every test
// named in a page exists is checked for all pages, but there a beginning of a name is enough.)
func TestFaultsAreListed(t *testing.T) {
	listed := regexp.MustCompile("`(TestFault_\\w+)`").FindAllStringSubmatch(pages(t)[faultsPage], -1)
	var inPage, inCode []string
	for _, match := range listed {
		inPage = append(inPage, match[1])
	}
	for _, name := range testNames(t) {
		if strings.HasPrefix(name, "TestFault_") {
			inCode = append(inCode, name)
		}
	}
	shape := regexp.MustCompile(`^TestFault_[a-zA-Z]\w*_[A-Z]\w*$`)
	for _, name := range inCode {
		if !shape.MatchString(name) {
			t.Errorf("%s: call it TestFault_<whose><number of the thread>_<What>", name)
		}
		if !slices.Contains(inPage, name) {
			t.Errorf("%s does not list %s: give it a row, with the thread in which users tell of it", faultsPage, name)
		}
	}
	for _, name := range inPage {
		if !slices.Contains(inCode, name) {
			t.Errorf("%s names %s, and there is no such test", faultsPage, name)
		}
	}
	if len(inCode) < 60 {
		t.Errorf("%d tests of faults were found: they are not looked for where they are", len(inCode))
	}
}

// A row of the first table has the thread, or the manual, in which the fault is described.
func TestFaultsHaveASource(t *testing.T) {
	for line := range strings.Lines(pages(t)[faultsPage]) {
		if strings.HasPrefix(line, "| ") && strings.Contains(line, "`TestFault_") && !strings.Contains(line, "](https://") {
			t.Errorf("%s: a row without a link: %s", faultsPage, line)
		}
	}
}

// wallClock are the places that may look at the time of day, by "file method", each with its reason.
func wallClock() map[string]string {
	return map[string]string{
		"internal/server/form.go Date":      "the number at which a new cell begins; decided once, by the first leader, and carried in the log",
		"transport/clock_linux.go UnixNano": "to notice that the machine has slept; what it shows is never used",
		"internal/calls/link.go Unix":       "a deadline that has passed",
		"transport/mux.go Unix":             "a deadline that has passed",
	}
}

// Saw: a step of the wall clock expired leases, or prolonged them.
// Here: nothing asks for the time of day. A time.Time keeps its monotonic reading unless one of these methods takes it
// away, and the lease clock is a time.Duration.
func TestFault_etcd6700_WallClock(t *testing.T) {
	takesAway := []string{"Unix", "UnixNano", "UnixMilli", "UnixMicro", "UTC", "Local", "In", "Date", "Clock"}
	tree := sources(t)
	for _, f := range tree.files {
		if f.test || within(f.dir, "internal/bench", "internal/chaos", "internal/sim", "internal/history", "internal/load") {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(takesAway, selector.Sel.Name) {
				return true
			}
			if wallClock()[f.path+" "+selector.Sel.Name] == "" {
				t.Errorf("%s: %s is of the time of day, or makes a time.Time one: compare times by Sub, or use the lease clock",
					tree.at(call), selector.Sel.Name)
			}
			return true
		})
	}
}
