package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// sleepers are the tests that may wait for real time, by "folder test", or by folder, each with its reason.
func sleepers() map[string]string {
	return map[string]string{
		"internal/bench":                                 "it measures real time, on real disks and sockets",
		"transport TestHostilePeersOnTCP":                "a peer that writes slowly is slow in real time; nothing is concluded from how long it takes",
		"transport TestHostilePeerCostsOnlyItsOwnStream": "its peers are made outside the bubble that they run in",
	}
}

// In a bubble of testing/synctest a sleep takes no time and ends when everybody else waits. Outside, it is a guess at how
// fast the machine is, and the guess is wrong on some machine.
//
// What is checked: no test, benchmark, example or fuzz target reaches a time.Sleep other than through a function that
// runs in a bubble. Calls are followed by name within the package's tests.
func TestSleepsAreVirtual(t *testing.T) {
	tree := sources(t)
	byDir := make(map[string]*testPackage)
	for _, f := range tree.files {
		if !f.test {
			continue
		}
		if byDir[f.dir] == nil {
			byDir[f.dir] = newTestPackage()
		}
		byDir[f.dir].add(f.ast)
	}
	for dir, p := range byDir {
		p.resolve()
		for _, entry := range p.entries {
			if sleepers()[dir] != "" || sleepers()[dir+" "+entry.Name.Name] != "" {
				continue
			}
			for _, sleep := range p.awake(entry.Body) {
				t.Errorf("%s: reached from %s outside a bubble of testing/synctest: run the test in synctest.Test on the "+
					"in-memory network, or wait for what the test is about, on a channel", tree.at(sleep), entry.Name.Name)
			}
		}
	}
}

// testPackage is the tests of one folder.
type testPackage struct {
	files   []*ast.File
	entries []*ast.FuncDecl       // what go test runs
	funcs   map[string][]ast.Node // by name: functions, methods, and literals and tables of them that have one
	bubbles map[string]bool       // functions that run what they are given in a bubble
}

func newTestPackage() *testPackage {
	return &testPackage{funcs: make(map[string][]ast.Node), bubbles: make(map[string]bool)}
}

func (p *testPackage) add(file *ast.File) {
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		if fn.Recv == nil && isEntry(fn.Name.Name) {
			p.entries = append(p.entries, fn)
		}
		p.funcs[fn.Name.Name] = append(p.funcs[fn.Name.Name], fn)
	}
	p.files = append(p.files, file)
}

func isEntry(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Benchmark", "Example", "Fuzz"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// named are the function literals that a statement or a field gives a name to, and the lists and maps of them.
func named(node ast.Node) map[string]ast.Node {
	literals := make(map[string]ast.Node)
	give := func(to, value ast.Expr) {
		name := ""
		switch left := to.(type) {
		case *ast.Ident:
			name = left.Name
		case *ast.SelectorExpr:
			name = left.Sel.Name
		}
		if _, ok := value.(*ast.FuncLit); (ok || isTable(value)) && name != "" && name != "_" {
			literals[name] = value
		}
	}
	switch n := node.(type) {
	case *ast.AssignStmt:
		for i, value := range n.Rhs {
			if len(n.Lhs) == len(n.Rhs) {
				give(n.Lhs[i], value)
			}
		}
	case *ast.KeyValueExpr: // an exported field may be called by other packages
		if field, ok := n.Key.(*ast.Ident); ok && !field.IsExported() {
			give(field, n.Value)
		}
	case *ast.RangeStmt:
		if table, ok := n.X.(*ast.Ident); ok && n.Value != nil {
			if value, ok := n.Value.(*ast.Ident); ok && value.Name != table.Name {
				literals[value.Name] = table // whatever that is
			}
			break
		}
		give(n.Value, n.X)
	}
	return literals
}

// isTable reports whether the value is a list or a map of functions, written out.
func isTable(value ast.Expr) bool {
	table, ok := value.(*ast.CompositeLit)
	if !ok {
		return false
	}
	switch typ := table.Type.(type) {
	case *ast.ArrayType:
		_, ok = typ.Elt.(*ast.FuncType)
	case *ast.MapType:
		_, ok = typ.Value.(*ast.FuncType)
	default:
		ok = false
	}
	return ok
}

// resolve is called when every file has been added.
func (p *testPackage) resolve() {
	p.findBubbles()
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			for name, literal := range named(node) {
				p.funcs[name] = append(p.funcs[name], literal)
			}
			call, ok := node.(*ast.CallExpr)
			return !ok || !p.isBubble(call) // what is made in a bubble runs there
		})
	}
}

// findBubbles finds the functions that call synctest.Test, or one another, with a function that they were given.
func (p *testPackage) findBubbles() {
	for found := true; found; {
		found = false
		for name, bodies := range p.funcs {
			for _, body := range bodies {
				fn, ok := body.(*ast.FuncDecl)
				if ok && !p.bubbles[name] && p.passesOn(fn) {
					p.bubbles[name], found = true, true
				}
			}
		}
	}
}

// passesOn reports whether what fn does in a bubble uses a parameter of fn that is a function.
func (p *testPackage) passesOn(fn *ast.FuncDecl) bool {
	given := make(map[string]bool)
	for _, param := range fn.Type.Params.List {
		if _, ok := param.Type.(*ast.FuncType); ok {
			for _, name := range param.Names {
				given[name.Name] = true
			}
		}
	}
	found := false
	ast.Inspect(fn.Body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || !p.isBubble(call) {
			return true
		}
		for _, arg := range call.Args {
			ast.Inspect(arg, func(node ast.Node) bool {
				ident, ok := node.(*ast.Ident)
				found = found || ok && given[ident.Name]
				return true
			})
		}
		return false
	})
	return found
}

// isBubble reports whether the call runs its arguments in a bubble.
func (p *testPackage) isBubble(call *ast.CallExpr) bool {
	if isCall(call, "synctest", "Test") {
		return true
	}
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return p.bubbles[fn.Name]
	case *ast.SelectorExpr:
		return p.bubbles[fn.Sel.Name]
	}
	return false
}

// awake are the sleeps that are reached from body outside a bubble.
func (p *testPackage) awake(body ast.Node) []ast.Node {
	sleeps := make(map[ast.Node]bool)
	seen := make(map[string]bool)
	var visit func(ast.Node) bool
	follow := func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, next := range p.funcs[name] {
			switch fn := next.(type) {
			case *ast.FuncDecl:
				ast.Inspect(fn.Body, visit)
			default:
				ast.Inspect(fn, visit)
			}
		}
	}
	visit = func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if isCall(n, "time", "Sleep") {
				sleeps[n] = true
			}
			return !p.isBubble(n)
		case *ast.AssignStmt:
			if len(named(n)) > 0 { // a literal that has a name counts where the name is used
				return false
			}
		case *ast.KeyValueExpr:
			if len(named(n)) > 0 {
				return false
			}
		case *ast.RangeStmt:
			if len(named(n)) > 0 { // so do those of a table, where the loop uses them
				ast.Inspect(n.Body, visit)
				return false
			}
		case *ast.Ident:
			follow(n.Name)
		}
		return true
	}
	ast.Inspect(body, visit)
	return slices.Collect(maps.Keys(sleeps))
}

func TestLibraryDoesNotSleep(t *testing.T) {
	tree := sources(t)
	for _, f := range tree.files {
		if f.test || forTests(f.dir) {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && isCall(call, "time", "Sleep") {
				t.Errorf("%s: nothing can end a sleep: wait on a timer and on whatever ends the work", tree.at(call))
			}
			return true
		})
	}
}

func TestSleepRule(t *testing.T) {
	const helpers = `package p
		func bubble(t *testing.T, test func(t *testing.T)) { synctest.Test(t, func(t *testing.T) { test(t) }) }
		func pass() { time.Sleep(1) }
		`
	tests := map[string]struct {
		body string
		want int
	}{
		"in a bubble":                  {`synctest.Test(t, func(t *testing.T) { time.Sleep(1); pass() })`, 0},
		"in a bubble of a helper":      {`bubble(t, func(t *testing.T) { time.Sleep(1); pass() })`, 0},
		"by name in a bubble":          {`slow := func() { time.Sleep(1) }; bubble(t, func(t *testing.T) { slow() })`, 0},
		"outside":                      {`time.Sleep(1)`, 1},
		"outside through a helper":     {`pass()`, 1},
		"beside a bubble":              {`bubble(t, func(t *testing.T) { pass() }); time.Sleep(1)`, 1},
		"by name outside":              {`slow := func() { time.Sleep(1) }; slow()`, 1},
		"from a table in a bubble":     {`for _, f := range []func(){pass} { bubble(t, func(t *testing.T) { f() }) }`, 0},
		"from a named table":           {`all := map[string]func(){"": pass}; for _, f := range all { bubble(t, func(t *testing.T) { f() }) }`, 0},
		"from a table outside":         {`for _, f := range []func(){func() { time.Sleep(1) }} { f() }`, 1},
		"from a named table outside":   {`all := []func(){pass}; for _, f := range all { f() }`, 1},
		"from a field in a bubble":     {`x := s{f: func() { time.Sleep(1) }}; bubble(t, func(t *testing.T) { x.f() })`, 0},
		"from a field outside":         {`x := s{f: func() { time.Sleep(1) }}; x.f()`, 1},
		"in a field for others":        {`run(s{F: func() { time.Sleep(1) }})`, 1},
		"in a subtest":                 {`t.Run("", func(t *testing.T) { time.Sleep(1) })`, 1},
		"in a subtest around a bubble": {`t.Run("", func(t *testing.T) { bubble(t, func(t *testing.T) { pass() }) })`, 0},
	}
	for name, test := range tests {
		file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", helpers+"func TestX(t *testing.T) {"+test.body+"}", 0)
		if err != nil {
			t.Fatal(name, err)
		}
		p := newTestPackage()
		p.add(file)
		p.resolve()
		if got := len(p.awake(p.entries[0].Body)); got != test.want {
			t.Errorf("%s: %d sleeps found, want %d", name, got, test.want)
		}
	}
}
